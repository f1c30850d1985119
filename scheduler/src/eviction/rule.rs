//! The rules by which idle memory is evicted.

use std::fmt;
use std::str::FromStr;

/// Whose idle memory is evicted, and when.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EvictionRule {
    /// Who has been idle for so long that both copies pay: [`super::choose`].
    #[default]
    Pays,
    /// FlexGPU's: who uses its memory least often, behind a running kernel: [`super::flexgpu::choose`].
    FlexGpu,
}

impl EvictionRule {
    /// All, by their names.
    pub const NAMES: [(&str, EvictionRule); 2] =
        [("pays", EvictionRule::Pays), ("flexgpu", EvictionRule::FlexGpu)];
}

impl fmt::Display for EvictionRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            EvictionRule::Pays => "pays",
            EvictionRule::FlexGpu => "flexgpu",
        })
    }
}

/// The text names no rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no rule of eviction {0}: use pays or flexgpu")]
pub struct UnknownRule(String);

impl FromStr for EvictionRule {
    type Err = UnknownRule;

    fn from_str(text: &str) -> Result<EvictionRule, UnknownRule> {
        let named = EvictionRule::NAMES.iter().find(|(name, _)| *name == text);
        named
            .map(|(_, rule)| *rule)
            .ok_or_else(|| UnknownRule(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_go_both_ways() {
        for (name, rule) in EvictionRule::NAMES {
            assert_eq!((rule.to_string(), name.parse()), (name.to_owned(), Ok(rule)));
        }
        assert!("lru".parse::<EvictionRule>().is_err());
    }
}
