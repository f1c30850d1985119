//! The class of a program: whether somebody waits for its results, or not.

use std::sync::atomic::{AtomicBool, Ordering};

use serde::{Deserialize, Serialize};

/// The variable that says it.
pub const CLASS: &str = "MGB_CLASS";

/// Whether the program itself has said that others wait for it, by `MGB_LATENCY()`.
static SAID_LATENCY: AtomicBool = AtomicBool::new(false);

/// The program says that others wait for it, from here on; whether it had not said so before. Forked children
/// say the same.
pub(crate) fn say_latency() -> bool {
    !SAID_LATENCY.swap(true, Ordering::SeqCst)
}

/// Whether the program has said that others wait for it.
pub fn has_said_latency() -> bool {
    SAID_LATENCY.load(Ordering::SeqCst)
}

/// Whether somebody waits for a program's results as they come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Class {
    /// Nobody does: all that counts is when it ends.
    #[default]
    Batch,
    /// Somebody does: its work goes before that of batch programs.
    Latency,
}

impl Class {
    /// The class of this process, by its own word or [`CLASS`]. A value that is none is said, and counts as
    /// batch.
    pub fn of_process() -> Class {
        if has_said_latency() {
            return Class::Latency;
        }
        let Some(text) = std::env::var_os(CLASS).filter(|text| !text.is_empty()) else {
            return Class::Batch;
        };
        text.to_str().and_then(Class::named).unwrap_or_else(|| {
            mgb_stderr::say!(
                "mgb: {CLASS}={} is neither latency nor batch; taken as batch",
                text.display()
            );
            Class::Batch
        })
    }

    /// The class of this name.
    pub fn named(name: &str) -> Option<Class> {
        [Class::Batch, Class::Latency]
            .into_iter()
            .find(|class| class.name() == name)
    }

    /// The name of the class.
    pub fn name(self) -> &'static str {
        match self {
            Class::Batch => "batch",
            Class::Latency => "latency",
        }
    }

    /// As it stands in a channel.
    pub(crate) fn word(self) -> u64 {
        match self {
            Class::Batch => 0,
            Class::Latency => 1,
        }
    }

    /// What a channel's word stands for; what a newer client says by another is batch.
    pub(crate) fn of_word(word: u64) -> Class {
        if word == Class::Latency.word() {
            Class::Latency
        } else {
            Class::Batch
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_has_a_name_and_a_word() {
        for class in [Class::Batch, Class::Latency] {
            assert_eq!(Class::named(class.name()), Some(class));
            assert_eq!(Class::of_word(class.word()), class);
        }
        assert_eq!(Class::named("Latency"), None);
        assert_eq!(Class::of_word(u64::MAX), Class::Batch);
    }
}
