//! Why something of a process is as it is: a sentence on one subject.

use serde::Serialize;

/// What a reason is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Subject {
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

impl Subject {
    pub(super) fn word(self) -> &'static str {
        match self {
            Subject::Waits => "waits",
            Subject::Suspended => "suspended",
            Subject::Place => "place",
            Subject::Memory => "memory",
            Subject::Held => "held",
            Subject::Share => "share",
            Subject::Class => "class",
            Subject::Lacks => "lacks",
            Subject::Latency => "latency",
            Subject::Deadline => "deadline",
        }
    }
}

/// A sentence on one subject.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Reason {
    pub(super) about: Subject,
    pub(super) text: String,
}

impl Reason {
    pub(super) fn new(about: Subject, text: impl Into<String>) -> Reason {
        Reason {
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
