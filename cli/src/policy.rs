//! Policies by the names that mgbd knows them by.

use std::fmt;
use std::str::FromStr;

/// How mgbd shares the GPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// One process per GPU.
    Sa,
    /// A number of processes per GPU, blind to memory.
    Cg(u32),
    /// Memory hard, fewest warps charged.
    Alg3,
    /// The default.
    Mgb,
}

impl Policy {
    /// Whether whole processes are placed by device mask, instead of tasks by their probes.
    pub fn places_processes(self) -> bool {
        matches!(self, Self::Sa | Self::Cg(_))
    }

    /// How many jobs a batch runs at once on `gpus` GPUs when the user does not say.
    pub fn default_parallel(self, gpus: usize) -> usize {
        let each = match self {
            Self::Sa => 1,
            Self::Cg(each) => each as usize,
            Self::Alg3 | Self::Mgb => 4,
        };
        (gpus * each).max(1)
    }
}

impl FromStr for Policy {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let each = name
            .strip_prefix("cg:")
            .and_then(|each| each.parse().ok())
            .filter(|&each| each > 0);
        match (name, each) {
            ("sa", _) => Ok(Self::Sa),
            ("alg3", _) => Ok(Self::Alg3),
            ("mgb", _) => Ok(Self::Mgb),
            (_, Some(each)) => Ok(Self::Cg(each)),
            _ => Err(format!(
                "unknown policy `{name}`: choose mgb, alg3, sa (one process per GPU) or cg:N (N processes per GPU, \
                 such as cg:4)"
            )),
        }
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sa => f.write_str("sa"),
            Self::Cg(each) => write!(f, "cg:{each}"),
            Self::Alg3 => f.write_str("alg3"),
            Self::Mgb => f.write_str("mgb"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_read_back() {
        for name in ["sa", "cg:4", "alg3", "mgb"] {
            assert_eq!(name.parse::<Policy>().unwrap().to_string(), name);
        }
        for wrong in ["", "cg", "cg:", "cg:0", "cg:none", "fairest"] {
            let error = wrong.parse::<Policy>().unwrap_err();
            assert!(
                error.contains(&format!("`{wrong}`")) && error.contains("cg:N"),
                "{error}"
            );
        }
    }

    #[test]
    fn default_numbers_of_jobs() {
        assert_eq!(Policy::Sa.default_parallel(2), 2);
        assert_eq!(Policy::Cg(3).default_parallel(2), 6);
        assert_eq!(Policy::Mgb.default_parallel(2), 8);
    }
}
