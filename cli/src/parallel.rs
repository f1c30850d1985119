//! How many jobs of a batch run at once.

use std::fmt;
use std::str::FromStr;

/// A number, or what the node can use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parallel {
    /// So many at most.
    Count(usize),
    /// As many as the node can use: see `auto`.
    Auto,
}

/// The most that can be asked for: far more processes than a node's contexts.
const MAX_PARALLEL: usize = 65_535;

impl FromStr for Parallel {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "auto" {
            return Ok(Self::Auto);
        }
        match text.parse() {
            Ok(count @ 1..=MAX_PARALLEL) => Ok(Self::Count(count)),
            _ => Err(format!("neither a number from 1 to {MAX_PARALLEL} nor auto")),
        }
    }
}

impl fmt::Display for Parallel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Count(count) => count.fmt(f),
            Self::Auto => f.write_str("auto"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_auto() {
        assert_eq!("auto".parse(), Ok(Parallel::Auto));
        assert_eq!("12".parse(), Ok(Parallel::Count(12)));
        for wrong in ["0", "-1", "65536", "many", ""] {
            assert!(wrong.parse::<Parallel>().is_err(), "{wrong}");
        }
    }
}
