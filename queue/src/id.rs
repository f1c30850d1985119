//! The numbers of jobs, and how people name several at once.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// The last index that an element of an array may have.
pub const LAST_INDEX: u32 = 999_999;

/// A job's number; elements of an array share it, and have an index each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobId {
    /// Counts from 1, in the order in which jobs were submitted.
    pub number: u32,
    /// Its place in an array.
    pub index: Option<u32>,
}

impl JobId {
    /// Its place in the store: elements stand behind each other.
    pub fn key(self) -> u64 {
        u64::from(self.number) << 32 | self.index.map_or(0, |index| u64::from(index) + 1)
    }

    /// All jobs of one number.
    pub fn all_of(number: u32) -> RangeInclusive<JobId> {
        let last = Some(LAST_INDEX);
        Self { number, index: None }..=Self { number, index: last }
    }
}

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.index {
            None => write!(f, "{}", self.number),
            Some(index) => write!(f, "{}_{index}", self.number),
        }
    }
}

impl FromStr for JobId {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let one = Selection::from_str(text)?;
        match (one.numbers, one.indices) {
            ((first, last), None) if first == last => Ok(Self {
                number: first,
                index: None,
            }),
            ((number, _), Some((first, last))) if first == last => Ok(Self {
                number,
                index: Some(first),
            }),
            _ => Err(format!("`{text}` names several jobs")),
        }
    }
}

impl Serialize for JobId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for JobId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(de::Error::custom)
    }
}

/// Jobs as people name them: `12` (of an array: all its elements), `12-15`, `12_3`, `12_3-7`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Selection {
    numbers: (u32, u32),
    indices: Option<(u32, u32)>,
}

impl Selection {
    /// Whether this job is one of them.
    pub fn names(&self, id: JobId) -> bool {
        let (first, last) = self.numbers;
        let is_element = |(from, to)| id.index.is_some_and(|index| (from..=to).contains(&index));
        (first..=last).contains(&id.number) && self.indices.is_none_or(is_element)
    }

    /// The first number and the last.
    pub fn numbers(&self) -> (u32, u32) {
        self.numbers
    }
}

impl fmt::Display for Selection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let range = |f: &mut fmt::Formatter<'_>, (first, last)| match first == last {
            true => write!(f, "{first}"),
            false => write!(f, "{first}-{last}"),
        };
        range(f, self.numbers)?;
        self.indices.map_or(Ok(()), |indices| {
            f.write_str("_")?;
            range(f, indices)
        })
    }
}

impl FromStr for Selection {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (numbers, indices) = match text.split_once('_') {
            Some((number, indices)) => (number, Some(indices)),
            None => (text, None),
        };
        let read = || {
            let numbers = range(numbers)?;
            let indices = match indices {
                Some(indices) => Some(range(indices).filter(|(_, last)| *last <= LAST_INDEX)?),
                None => None,
            };
            let is_one = numbers.0 == numbers.1;
            (numbers.0 > 0 && (is_one || indices.is_none())).then_some(Self { numbers, indices })
        };
        read().ok_or_else(|| format!("`{text}` names no job: write 12, 12-15, or of an array 12_3 or 12_3-7"))
    }
}

impl Serialize for Selection {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Selection {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(de::Error::custom)
    }
}

/// `5` or `5-9`.
pub fn range(text: &str) -> Option<(u32, u32)> {
    let number = |text: &str| {
        let is_plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        is_plain.then(|| text.parse().ok()).flatten()
    };
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last) = (number(first)?, number(last)?);
    (first <= last).then_some((first, last))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_they_are_read() {
        for text in ["1", "12_0", "7_999999"] {
            let id: JobId = text.parse().unwrap();
            assert_eq!(id.to_string(), text);
        }
        for text in ["12", "12-15", "12_3", "12_3-7"] {
            assert_eq!(text.parse::<Selection>().unwrap().to_string(), text);
        }
        for wrong in [
            "",
            "0",
            "-1",
            "1-",
            "5-4",
            "1_",
            "1_1000000",
            "1-2_3",
            "x",
            "1 ",
            "+1",
            "1_2_3",
        ] {
            assert!(wrong.parse::<Selection>().is_err(), "{wrong}");
        }
        assert!("12-13".parse::<JobId>().is_err());
    }

    #[test]
    fn elements_stand_behind_their_number() {
        let id = |text: &str| text.parse::<JobId>().unwrap();
        let order = ["1", "2_0", "2_1", "2_999999", "3"].map(id);
        assert!(order.is_sorted() && order.map(JobId::key).is_sorted());
        let selection = |text: &str| text.parse::<Selection>().unwrap();
        assert!(selection("2").names(id("2_7")) && selection("1-2").names(id("2_7")));
        assert!(selection("2_3-7").names(id("2_7")) && !selection("2_3-7").names(id("2_8")));
        assert!(!selection("2_0").names(id("2")));
    }
}
