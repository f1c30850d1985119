//! What the environment says of this process as a client of MPS, as the driver reads it in `cuInit`.
//!
//! | variable | meaning |
//! |---|---|
//! | `CUDA_MPS_CLIENT_PRIORITY` | 1: below normal; else normal |
//! | `CUDA_MPS_ACTIVE_THREAD_PERCENTAGE` | the part of the multiprocessors that its kernels may use: above 0, at most 100; else all |
//!
//! Neither means anything where the process is no client of MPS, and no value is refused: so it was on H200s
//! (driver 580.159).

use std::sync::OnceLock;

use super::settings::settings;
use crate::config::profile::Profile;

/// Multiprocessors that a client has at least, and of which it has a multiple: those of a texture processing
/// cluster, measured on H200s for 30 percentages.
const LEAST: u32 = 8;
const UNIT: u32 = 2;

/// The first compute capability with both.
const FIRST_MAJOR: i32 = 7;

/// What the environment says.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct MpsClient {
    /// Its work goes behind that of normal clients.
    pub is_below_normal: bool,
    /// Of the multiprocessors; `None`: all.
    percentage: Option<f64>,
}

impl MpsClient {
    fn parse(get: impl Fn(&str) -> Option<String>) -> MpsClient {
        let percentage = get("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE").and_then(|value| value.trim().parse().ok());
        MpsClient {
            is_below_normal: get("CUDA_MPS_CLIENT_PRIORITY").is_some_and(|value| value.trim() == "1"),
            percentage: percentage.filter(|part| *part > 0.0 && *part <= 100.0),
        }
    }

    /// Multiprocessors of a device that its kernels may use.
    pub fn multiprocessors(&self, profile: &Profile) -> u32 {
        let all = profile.multiprocessors;
        match self.percentage.filter(|_| profile.major >= FIRST_MAJOR) {
            Some(part) => ((f64::from(all) * part / 100.0) as u32 / UNIT * UNIT).clamp(LEAST.min(all), all),
            None => all,
        }
    }
}

/// What this process is, as the environment said when it was first asked.
pub fn mps_client() -> MpsClient {
    static CLIENT: OnceLock<MpsClient> = OnceLock::new();
    *CLIENT.get_or_init(|| {
        if settings().mps {
            MpsClient::parse(|name| std::env::var(name).ok())
        } else {
            MpsClient::default()
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::profiles::{P100, STANDARD};

    fn multiprocessors(percentage: &str) -> u32 {
        let client = MpsClient::parse(|name| name.ends_with("PERCENTAGE").then(|| percentage.to_owned()));
        client.multiprocessors(&STANDARD)
    }

    /// As H200s have it.
    #[test]
    fn a_percentage_is_an_even_number_of_multiprocessors() {
        for (percentage, seen) in [
            ("1", 8),
            ("7", 8),
            ("8", 10),
            ("12", 14),
            ("25", 32),
            ("33", 42),
            ("50.5", 66),
            ("60", 78),
            ("80", 104),
            ("99", 130),
            ("100", 132),
        ] {
            assert_eq!(multiprocessors(percentage), seen, "{percentage}");
        }
    }

    #[test]
    fn what_is_no_percentage_is_no_limit() {
        for percentage in ["", "0", "-5", "101", "x", "nan", "inf", "1e400", "0x20", "25%"] {
            assert_eq!(multiprocessors(percentage), 132, "{percentage}");
        }
        let half = MpsClient::parse(|_| Some("50".to_owned()));
        assert_eq!(half.multiprocessors(&P100), P100.multiprocessors);
    }

    #[test]
    fn one_is_below_normal() {
        let is_below = |value: &str| MpsClient::parse(|_| Some(value.to_owned())).is_below_normal;
        assert!(is_below("1"));
        assert!(
            ["", "0", "2", "-1", "x", "1.0"]
                .iter()
                .all(|value| !is_below(value))
        );
    }
}
