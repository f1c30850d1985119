//! What the environment says of device time.
//!
//! | variable | meaning |
//! |---|---|
//! | `SOFTGPU_TIME=off` | no device time: as fast as the host can |
//! | `SOFTGPU_MPS=off` | kernels of different processes take time slices; else they overlap, as under MPS |
//! | `SOFTGPU_SEED=N` | the same program sees the same times at every run: see [`super::host`] |

use std::sync::OnceLock;

use crate::error::{Error, Result, say_once};

/// What it says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeSettings {
    /// Device time is kept.
    pub time: bool,
    /// This process is a client of MPS.
    pub mps: bool,
    /// What times vary by.
    pub seed: Option<u64>,
}

/// Why it cannot be used.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{name}={value}: it must be {wanted}")]
pub struct BadSetting {
    name: &'static str,
    value: String,
    wanted: &'static str,
}

fn parse(get: impl Fn(&str) -> Option<String>) -> std::result::Result<TimeSettings, BadSetting> {
    let value = |name| get(name).filter(|value| !value.is_empty());
    let switch = |name| match value(name).as_deref() {
        None | Some("on" | "1") => Ok(true),
        Some("off" | "0") => Ok(false),
        Some(value) => Err(BadSetting {
            name,
            value: value.to_owned(),
            wanted: "on or off",
        }),
    };
    let seed = value("SOFTGPU_SEED").map(|value| {
        value.parse().map_err(|_| BadSetting {
            name: "SOFTGPU_SEED",
            value,
            wanted: "a whole number",
        })
    });
    Ok(TimeSettings {
        time: switch("SOFTGPU_TIME")?,
        mps: switch("SOFTGPU_MPS")?,
        seed: seed.transpose()?,
    })
}

fn read() -> &'static std::result::Result<TimeSettings, BadSetting> {
    static SETTINGS: OnceLock<std::result::Result<TimeSettings, BadSetting>> = OnceLock::new();
    SETTINGS.get_or_init(|| parse(|name| std::env::var(name).ok()))
}

/// The settings; the usual ones where the environment's cannot be used, which [`prepare`] reports.
pub fn settings() -> TimeSettings {
    read().as_ref().copied().unwrap_or(TimeSettings {
        time: true,
        mps: true,
        seed: None,
    })
}

/// Reads the environment.
///
/// # Errors
/// `INITIALIZATION`, after a line on stderr, if it cannot be read.
pub fn prepare() -> Result {
    read().as_ref().map(drop).map_err(|error| {
        say_once(&error.to_string());
        Error::INITIALIZATION
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(pairs: &[(&str, &str)]) -> std::result::Result<TimeSettings, BadSetting> {
        parse(|name| {
            let found = pairs.iter().find(|(other, _)| *other == name);
            found.map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn settings_have_usual_values() {
        let usual = TimeSettings {
            time: true,
            mps: true,
            seed: None,
        };
        assert_eq!(of(&[]), Ok(usual));
        assert_eq!(of(&[("SOFTGPU_MPS", ""), ("SOFTGPU_TIME", "on")]), Ok(usual));
        let all = [
            ("SOFTGPU_MPS", "off"),
            ("SOFTGPU_TIME", "off"),
            ("SOFTGPU_SEED", "7"),
        ];
        let seed = Some(7);
        assert_eq!(
            of(&all),
            Ok(TimeSettings {
                time: false,
                mps: false,
                seed
            })
        );
    }

    #[test]
    fn refusals_name_the_variable() {
        for (name, value) in [
            ("SOFTGPU_MPS", "maybe"),
            ("SOFTGPU_SEED", "-1"),
            ("SOFTGPU_TIME", "of"),
        ] {
            let text = of(&[(name, value)]).unwrap_err().to_string();
            assert!(text.starts_with(&format!("{name}={value}: ")), "{text}");
        }
    }
}
