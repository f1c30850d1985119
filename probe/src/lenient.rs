//! Words of a newer `mgbd`: what it says in a word that is not known here is unknown, and the rest is read.

use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer};

/// What may get further words.
pub(crate) trait Grows {
    /// What stands for a word that is not known here.
    const UNKNOWN: Self;
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Word<T> {
    Known(T),
    Other(IgnoredAny),
}

impl<T: Grows> Word<T> {
    fn meaning(self) -> T {
        match self {
            Word::Known(word) => word,
            Word::Other(_) => T::UNKNOWN,
        }
    }
}

/// A field that has a word.
pub(crate) fn word<'de, D, T>(from: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Grows,
{
    Word::deserialize(from).map(Word::meaning)
}

/// A field that has several words.
pub(crate) fn words<'de, D, T>(from: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Grows,
{
    let words = Vec::<Word<T>>::deserialize(from)?;
    Ok(words.into_iter().map(Word::meaning).collect())
}

/// A field that may have a word.
pub(crate) fn may_be_word<'de, D, T>(from: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Grows,
{
    Ok(Option::<Word<T>>::deserialize(from)?.map(Word::meaning))
}
