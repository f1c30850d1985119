//! Short texts in shared memory.

use serde::{Deserialize, Serialize};

/// Longest label of a task and text of a refusal, in bytes.
pub const TEXT_BYTES: usize = 64;
pub(super) const TEXT_WORDS: usize = TEXT_BYTES / 8;

/// A short text in a fixed space, cut at a character boundary.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub struct Text {
    pub(super) words: [u64; TEXT_WORDS],
    pub(super) len: u32,
}

impl Text {
    /// As much of `text` as fits.
    pub fn new(text: &str) -> Text {
        let mut end = text.len().min(TEXT_BYTES);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        let mut words = [0; TEXT_WORDS];
        for (at, byte) in text.as_bytes()[..end].iter().enumerate() {
            words[at / 8] |= u64::from(*byte) << (8 * (at % 8));
        }
        Text {
            words,
            len: end as u32,
        }
    }

    /// The text; bytes that are none, and control characters, show as `?`.
    pub fn to_text(&self) -> String {
        let bytes: Vec<u8> = self
            .words
            .iter()
            .flat_map(|word| word.to_le_bytes())
            .take((self.len as usize).min(TEXT_BYTES))
            .collect();
        String::from_utf8_lossy(&bytes)
            .chars()
            .map(|c| {
                if c.is_control() || c == char::REPLACEMENT_CHARACTER {
                    '?'
                } else {
                    c
                }
            })
            .collect()
    }
}

impl From<String> for Text {
    fn from(text: String) -> Text {
        Text::new(&text)
    }
}

impl From<Text> for String {
    fn from(text: Text) -> String {
        text.to_text()
    }
}

impl std::fmt::Debug for Text {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.to_text().fmt(f)
    }
}
