//! Which software devices there are: the grammar of `SOFTGPU_DEVICES`.
//!
//! ```text
//! SOFTGPU_DEVICES = "none" | GROUP { "," GROUP }
//! GROUP           = [ COUNT "x" ] ( SIZE | KIND [ ":" SIZE ] ) { ":" OPTION "=" VALUE }
//! KIND            = "P100" | "V100" | "A100" | "H100" | "H200"
//! SIZE            = NUMBER ( "B" | "KiB" | "MiB" | "GiB" )
//! OPTION          = "ctx"   memory that each process's context takes (default: 1/256 of the device)
//!                 | "slow"  how many times slower than the model the device is (default: 1)
//! ```
//!
//! For example `4x256MiB`, `2xA100,2xH200`, `4xH200:256MiB`, `V100:16GiB:slow=2`. A kind without a size has
//! the memory of the real one; a size without a kind is the standard device, of compute capability 9.0.
//! Unset, there is one of 4 GiB. What a kind is stands in [`super::profiles`]. It decides what programs are
//! shown and how device time passes; code runs on any of them, whatever it was compiled for, since it is host
//! code that runs.

use std::fmt;

use super::profile::Profile;
use super::profiles;

/// Most devices a node may have: the shared state has room for so many.
pub const MAX_DEVICES: usize = 32;

/// What is used when `SOFTGPU_DEVICES` is unset.
pub const DEFAULT: &str = "1x4GiB";

/// One software device, as configured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spec {
    /// What it claims to be.
    pub profile: &'static Profile,
    /// Bytes of device memory.
    pub memory: u64,
    /// Bytes that a process's context takes of it.
    pub context: u64,
    /// Factor on modelled device time.
    pub slow: u32,
}

/// Why `SOFTGPU_DEVICES` cannot be used.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("SOFTGPU_DEVICES={text}: {reason}; write for example 4x256MiB, 2xA100 or 2x1GiB:ctx=4MiB")]
pub struct BadSpec {
    text: String,
    reason: String,
}

/// Reads the value of `SOFTGPU_DEVICES`.
pub fn parse(text: &str) -> Result<Vec<Spec>, BadSpec> {
    let fail = |reason: String| BadSpec {
        text: text.to_owned(),
        reason,
    };
    if matches!(text.trim(), "none" | "0") {
        return Ok(Vec::new());
    }
    let mut devices = Vec::new();
    for group in text.split(',') {
        let (count, spec) = parse_group(group.trim()).map_err(fail)?;
        devices.extend(std::iter::repeat_n(spec, count));
        if devices.len() > MAX_DEVICES {
            return Err(fail(format!("more than {MAX_DEVICES} devices")));
        }
    }
    Ok(devices)
}

fn parse_group(group: &str) -> Result<(usize, Spec), String> {
    let mut parts = group.split(':').peekable();
    let head = parts.next().unwrap_or_default();
    let (count, what) = match head.split_once('x') {
        Some((count, what)) => (
            count
                .parse()
                .map_err(|_| format!("{count:?} is not a number of devices"))?,
            what,
        ),
        None => (1, head),
    };
    let (profile, memory) = match profiles::by_name(what) {
        Some(profile) => {
            let size = parts.next_if(|part| !part.contains('='));
            (profile, size.map_or(Ok(profile.memory), parse_size)?)
        }
        None if what.starts_with(|c: char| c.is_ascii_alphabetic()) => {
            let names: Vec<_> = profiles::NAMED.iter().map(|profile| profile.key).collect();
            return Err(format!(
                "{what:?} is no kind of device: there are {}",
                names.join(", ")
            ));
        }
        None => (profiles::DEFAULT, parse_size(what)?),
    };
    if memory == 0 {
        return Err("a device needs memory".to_owned());
    }
    let mut spec = Spec {
        profile,
        memory,
        context: memory / 256,
        slow: 1,
    };
    for option in parts {
        match option.split_once('=') {
            Some(("ctx", value)) => spec.context = parse_size(value)?,
            Some(("slow", value)) => {
                spec.slow = value
                    .parse()
                    .map_err(|_| format!("slow={value} is not a whole number"))?;
            }
            _ => return Err(format!("unknown option {option:?}")),
        }
    }
    if count > MAX_DEVICES {
        return Err(format!("more than {MAX_DEVICES} devices"));
    }
    Ok((count, spec))
}

fn parse_size(text: &str) -> Result<u64, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let shift = match unit {
        "B" => 0,
        "KiB" => 10,
        "MiB" => 20,
        "GiB" => 30,
        _ => return Err(format!("{text:?} is not a size in B, KiB, MiB or GiB")),
    };
    number
        .parse::<u64>()
        .ok()
        .and_then(|number| number.checked_mul(1 << shift))
        .ok_or_else(|| format!("{text:?} is not a size"))
}

/// One spelling for equal configurations, so that processes that mean the same devices share them.
pub struct Canonical<'a>(pub &'a [Spec]);

impl fmt::Display for Canonical<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, spec) in self.0.iter().enumerate() {
            let comma = if at == 0 { "" } else { "," };
            let kind = if spec.profile.key.is_empty() { "" } else { ":" };
            write!(
                f,
                "{comma}{}{kind}{}B:ctx={}B:slow={}",
                spec.profile.key, spec.memory, spec.context, spec.slow
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn counts_sizes_and_options() {
        let devices = parse("4x256MiB").unwrap();
        assert_eq!(
            devices,
            vec![
                Spec {
                    profile: profiles::DEFAULT,
                    memory: 256 * MIB,
                    context: MIB,
                    slow: 1
                };
                4
            ]
        );
        let devices = parse("2x1GiB:ctx=4MiB, 512MiB:slow=10").unwrap();
        assert_eq!(devices.len(), 3);
        assert_eq!(
            devices[0],
            Spec {
                profile: profiles::DEFAULT,
                memory: 1024 * MIB,
                context: 4 * MIB,
                slow: 1
            }
        );
        assert_eq!(
            devices[2],
            Spec {
                profile: profiles::DEFAULT,
                memory: 512 * MIB,
                context: 2 * MIB,
                slow: 10
            }
        );
        assert_eq!(parse("none").unwrap(), []);
    }

    #[test]
    fn kinds_come_with_their_memory_or_another() {
        let devices = parse("2xA100,v100:256MiB:slow=3, 1xH200:ctx=500MiB").unwrap();
        let all: Vec<_> = devices
            .iter()
            .map(|spec| (spec.profile.key, spec.memory / MIB, spec.slow))
            .collect();
        assert_eq!(
            all,
            [
                ("A100", 40 << 10, 1),
                ("A100", 40 << 10, 1),
                ("V100", 256, 3),
                ("H200", 143_771, 1)
            ]
        );
        assert_eq!(devices[3].context, 500 * MIB);
    }

    #[test]
    fn every_configuration_reads_back_from_its_one_spelling() {
        for text in ["4x256MiB", "2xA100,v100:256MiB:slow=3", "H200:ctx=500MiB,1GiB"] {
            let devices = parse(text).unwrap();
            assert_eq!(
                parse(&Canonical(&devices).to_string()).unwrap(),
                devices,
                "{text}"
            );
        }
    }

    #[test]
    fn refusals_name_the_reason() {
        for (text, reason) in [
            ("4x", "is not a size"),
            ("4x256MB", "is not a size in"),
            ("ax1GiB", "number of devices"),
            ("1GiB:fast=1", "unknown option"),
            ("99x1GiB", "more than 32"),
            ("99999999999999GiB", "is not a size"),
            ("0MiB", "needs memory"),
            (
                "2xK80",
                "no kind of device: there are P100, V100, A100, H100, H200",
            ),
            ("A100:1GB", "is not a size in"),
            ("1GiB:A100", "unknown option"),
        ] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.contains(reason) && error.contains(text), "{error}");
        }
    }

    #[test]
    fn equal_configurations_have_one_spelling() {
        let a = parse("2x1GiB").unwrap();
        let b = parse("1024MiB,1GiB:ctx=4MiB").unwrap();
        assert_eq!(Canonical(&a).to_string(), Canonical(&b).to_string());
    }
}
