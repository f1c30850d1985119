//! Why something of a process is as it is: a sentence on one subject.

use serde::Serialize;

/// What a reason is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ReasonSubject {
    Waits,
    Suspended,
    Place,
    Memory,
    Held,
    Share,
    Class,
    Lacks,
    Latency,
    Deadline,
}

impl ReasonSubject {
    pub(super) fn word(self) -> &'static str {
        match self {
            ReasonSubject::Waits => "waits",
            ReasonSubject::Suspended => "suspended",
            ReasonSubject::Place => "place",
            ReasonSubject::Memory => "memory",
            ReasonSubject::Held => "held",
            ReasonSubject::Share => "share",
            ReasonSubject::Class => "class",
            ReasonSubject::Lacks => "lacks",
            ReasonSubject::Latency => "latency",
            ReasonSubject::Deadline => "deadline",
        }
    }
}

/// A sentence on one subject.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct ReasonLine {
    pub(super) about: ReasonSubject,
    pub(super) text: String,
}

impl ReasonLine {
    pub(super) fn new(about: ReasonSubject, text: impl Into<String>) -> ReasonLine {
        ReasonLine {
            about,
            text: text.into(),
        }
    }
}

/// A process with what people know it by.
pub(super) fn named(pid: u32, label: &str) -> String {
    match label {
        "" => format!("process {pid}"),
        label => format!("process {pid} ({label})"),
    }
}
