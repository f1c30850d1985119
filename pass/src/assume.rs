//! What the pass proves, by names, so that tests can switch a proof off and show that they notice.
//!
//! `MGB_ASSUME` is a list of names, separated by commas. The pass takes for granted what a name in it stands
//! for, without a proof. Programs that are compiled so may fault or give wrong results.

/// The variable with the names.
const VARIABLE: &str = "MGB_ASSUME";

/// A proof that the user asks the pass to do without.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proof {
    /// No kernel keeps an address that it is given: `escape`.
    Escape,
    /// No object is used after its task has begun again: `loops`.
    Loops,
    /// No kernel is given an address as a number, or in bytes whose type does not show it: `numbers`.
    Numbers,
    /// No thread skips a barrier that others of its block reach: `together`.
    Together,
    /// No kernel writes to a structure that is passed by value: `structures`.
    Structures,
}

impl Proof {
    fn name(self) -> &'static str {
        match self {
            Self::Escape => "escape",
            Self::Loops => "loops",
            Self::Numbers => "numbers",
            Self::Together => "together",
            Self::Structures => "structures",
        }
    }

    /// Whether it is taken for granted.
    pub fn is_assumed(self) -> bool {
        let given = std::env::var(VARIABLE).unwrap_or_default();
        is_listed(&given, self.name())
    }
}

fn is_listed(list: &str, name: &str) -> bool {
    list.split(',').any(|one| one.trim() == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_a_list() {
        assert!(is_listed("escape", "escape"));
        assert!(is_listed("other, escape", Proof::Escape.name()));
        assert!(is_listed("escape,loops", Proof::Loops.name()));
        assert!(!is_listed("", "escape"));
        assert!(!is_listed("escapes,other", "escape"));
    }
}
