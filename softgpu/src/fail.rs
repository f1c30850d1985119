//! Failures on demand: devices that break as `SOFTGPU_FAIL` says.
//!
//! ```text
//! SOFTGPU_FAIL = RULE { "," RULE }
//! RULE         = WHAT [ ":" DEVICE ] "@" WHEN
//! WHAT         = "device"  the device falls off the bus: each later call that needs it fails with
//!                          cudaErrorUnknown, and a reset does not help
//!              | "ecc"     cudaErrorECCUncorrectable, until the context ends
//!              | "mps"     cudaErrorMpsRpcFailure, until the context ends, as when MPS's server has died
//!              | "oom"     one allocation or copy fails with cudaErrorMemoryAllocation
//!              | "copy"    one copy fails with cudaErrorUnknown
//!              | "slow"    everything takes longer, in modelled time
//!              | "nvml"    calls of NVML do not come back (only with "file=")
//!              | "health"  nothing fails, but NVML says of the device what the file's lines say: `xid N` and
//!                          `double-bit` (events, once each as they are added), `pending` and `failure` (of
//!                          remapped rows), `ecc N` (uncorrectable errors), `no-events` (of the whole driver)
//! DEVICE       = its number on the node; without one, any device (not for "device")
//! WHEN         = NUMBER ( "s" | "ms" )   after the process began to use the devices
//!              | "file=" PATH            while that file is there (only for "device", "health" and "nvml"): a
//!                                        process that used a lost device meanwhile goes on failing, others find
//!                                        it again
//!              | "kernel=" N             as the process's N-th kernel there runs
//!              | "alloc=" N              at the process's N-th allocation there
//!              | "copy=" N               at the process's N-th copy there
//!              | "factor=" N [ "@" NUMBER ( "s" | "ms" ) ]
//!                                        N times as long, from the start or from then on (only for "slow")
//! ```
//!
//! For example `device:1@2s`, `ecc:0@kernel=3`, `oom@alloc=7`, `slow:1@factor=4`. Each process counts for
//! itself. A device that is slow for all processes is an option of `SOFTGPU_DEVICES`, see
//! [`crate::config::spec`].

use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use crate::clock;
use crate::error::{Error, Result, say, say_once};

/// Why `SOFTGPU_FAIL` cannot be used.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "SOFTGPU_FAIL={text}: {reason}; write for example device:1@2s, ecc:0@kernel=3, oom@alloc=7 or slow:1@factor=4"
)]
pub struct BadPlan {
    text: String,
    reason: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    Device,
    Ecc,
    Mps,
    Memory,
    Copy,
    /// So many times.
    Slow(u64),
    Nvml,
    /// What NVML says of it.
    Health,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum When {
    /// Nanoseconds after the start.
    After(u64),
    /// While this file is there.
    File(&'static Path),
    Kernel(u64),
    Allocation(u64),
    Copy(u64),
}

/// One rule, and how far it is.
#[derive(Debug)]
struct FailRule {
    what: What,
    device: Option<usize>,
    when: When,
    /// Kernels or allocations so far.
    count: AtomicU64,
    /// It has come true.
    struck: AtomicBool,
}

struct FailPlan {
    rules: Vec<FailRule>,
    start: u64,
}

impl FailPlan {
    /// Whether it is the time of a rule that goes by time, or the file of one that goes by a file is there.
    fn is_due(&self, rule: &FailRule) -> bool {
        match rule.when {
            When::After(length) => clock::now() >= self.start + length,
            When::File(path) => path.exists(),
            _ => false,
        }
    }
}

static PLAN: OnceLock<Option<FailPlan>> = OnceLock::new();

fn parse(text: &str) -> std::result::Result<Vec<FailRule>, BadPlan> {
    let rules = text.split(',').map(|rule| {
        parse_rule(rule.trim()).map_err(|reason| BadPlan {
            text: text.to_owned(),
            reason,
        })
    });
    rules.collect()
}

fn parse_rule(rule: &str) -> std::result::Result<FailRule, String> {
    let (subject, moment) = rule
        .split_once('@')
        .ok_or_else(|| format!("{rule:?} says no moment"))?;
    let (what, device) = match subject.split_once(':') {
        Some((what, device)) => {
            let device = device
                .parse()
                .map_err(|_| format!("{device:?} is no device's number"))?;
            (what, Some(device))
        }
        None => (subject, None),
    };
    let number = |text: &str| {
        let number = text.parse::<u64>().ok().filter(|&number| number > 0);
        number.ok_or_else(|| format!("{text:?} is no number from 1 on"))
    };
    let (what, moment) = match what {
        "slow" => {
            let (factor, moment) = moment.split_once('@').unwrap_or((moment, "0ms"));
            let factor = factor.strip_prefix("factor=").ok_or("no factor is named")?;
            (What::Slow(number(factor)?), moment)
        }
        "device" => (What::Device, moment),
        "health" => (What::Health, moment),
        "ecc" => (What::Ecc, moment),
        "mps" => (What::Mps, moment),
        "oom" => (What::Memory, moment),
        "copy" => (What::Copy, moment),
        "nvml" => (What::Nvml, moment),
        _ => return Err(format!("{what:?} is no failure")),
    };
    let when = if moment == "0ms" {
        When::After(0)
    } else if let Some(path) = moment.strip_prefix("file=") {
        // Parsed once in a process.
        When::File(Path::new(String::leak(path.to_owned())))
    } else if let Some(at) = moment.strip_prefix("kernel=") {
        When::Kernel(number(at)?)
    } else if let Some(at) = moment.strip_prefix("alloc=") {
        When::Allocation(number(at)?)
    } else if let Some(at) = moment.strip_prefix("copy=") {
        When::Copy(number(at)?)
    } else if let Some(after) = moment.strip_suffix("ms") {
        When::After(number(after)?.saturating_mul(1_000_000))
    } else if let Some(after) = moment.strip_suffix('s') {
        When::After(number(after)?.saturating_mul(1_000_000_000))
    } else {
        return Err(format!("{moment:?} is no moment"));
    };
    if what == What::Memory && !matches!(when, When::Allocation(_) | When::Copy(_)) {
        return Err("memory runs out at allocations and copies".to_owned());
    }
    if what == What::Copy && !matches!(when, When::Copy(_)) {
        return Err("copies fail at copies".to_owned());
    }
    if matches!(what, What::Slow(_)) && !matches!(when, When::After(_)) {
        return Err("a device is slow from a time on".to_owned());
    }
    if matches!(when, When::File(_)) && !matches!(what, What::Device | What::Health | What::Nvml) {
        return Err("only a device is lost, its health said, or NVML silent by a file".to_owned());
    }
    if what == What::Nvml && (device.is_some() || !matches!(when, When::File(_))) {
        return Err("NVML is silent for all devices, while a file is there".to_owned());
    }
    if what == What::Health && !matches!(when, When::File(_)) {
        return Err("a device's health is in a file".to_owned());
    }
    if matches!(what, What::Device | What::Health) && device.is_none() {
        return Err("no device is named".to_owned());
    }
    Ok(FailRule {
        what,
        device,
        when,
        count: AtomicU64::new(0),
        struck: AtomicBool::new(false),
    })
}

/// Reads the environment, and begins to count time.
///
/// # Errors
/// `INITIALIZATION`, after a line on stderr, if it cannot be read.
pub fn prepare() -> Result {
    let text = std::env::var("SOFTGPU_FAIL").unwrap_or_default();
    if text.is_empty() {
        PLAN.get_or_init(|| None);
        return Ok(());
    }
    match parse(&text) {
        Ok(rules) => {
            let start = clock::now();
            PLAN.get_or_init(|| Some(FailPlan { rules, start }));
            Ok(())
        }
        Err(error) => {
            say_once(&error.to_string());
            Err(Error::INITIALIZATION)
        }
    }
}

impl What {
    fn error(self) -> Error {
        match self {
            What::Device => Error::UNKNOWN,
            What::Ecc => Error::ECC_UNCORRECTABLE,
            What::Mps => Error::MPS_RPC_FAILURE,
            What::Memory => Error::MEMORY_ALLOCATION,
            What::Copy | What::Slow(_) | What::Nvml | What::Health => Error::UNKNOWN,
        }
    }

    fn text(self) -> &'static str {
        match self {
            What::Device => "falls off the bus",
            What::Ecc => "has an uncorrectable ECC error",
            What::Mps => "has lost its MPS server",
            What::Memory => "has no memory for this call",
            What::Copy => "fails to copy",
            What::Slow(_) => "is slow",
            What::Nvml => "is not told of by NVML",
            What::Health => "fails by NVML's word",
        }
    }
}

impl FailRule {
    fn strike(&self, device: usize) -> Result {
        if !self.struck.swap(true, Relaxed) {
            say(&format!(
                "device {device} {}, as SOFTGPU_FAIL asks",
                self.what.text()
            ));
        }
        Err(self.what.error())
    }

    /// At a moment that only comes once.
    fn at(&self, device: usize, event: impl Fn(When) -> Option<u64>) -> Result {
        if self.device.is_some_and(|own| own != device) {
            return Ok(());
        }
        match event(self.when) {
            Some(due) if self.count.fetch_add(1, Relaxed) + 1 == due => self.strike(device),
            _ => Ok(()),
        }
    }
}

fn each(device: usize, event: impl Fn(When) -> Option<u64>) -> Result {
    let Some(Some(plan)) = PLAN.get() else {
        return Ok(());
    };
    plan.rules.iter().try_for_each(|rule| rule.at(device, &event))
}

/// A kernel is about to run on a device.
///
/// # Errors
/// The failure that is due.
pub fn kernel(device: usize) -> Result {
    each(device, |when| match when {
        When::Kernel(due) => Some(due),
        _ => None,
    })
}

/// A device is asked for memory.
///
/// # Errors
/// The failure that is due.
pub fn allocation(device: usize) -> Result {
    each(device, |when| match when {
        When::Allocation(due) => Some(due),
        _ => None,
    })
}

/// A device is asked for a copy.
///
/// # Errors
/// The failure that is due.
pub fn copy(device: usize) -> Result {
    each(device, |when| match when {
        When::Copy(due) => Some(due),
        _ => None,
    })
}

/// What is wrong with a device: that it is lost, or, once, what was due by now.
///
/// # Errors
/// That.
pub fn check(device: usize) -> Result {
    let Some(Some(plan)) = PLAN.get() else {
        return Ok(());
    };
    for rule in plan
        .rules
        .iter()
        .filter(|rule| !matches!(rule.what, What::Slow(_) | What::Nvml | What::Health))
    {
        if rule.device.is_some_and(|own| own != device) {
            continue;
        }
        let struck = rule.struck.load(Relaxed);
        let due = plan.is_due(rule);
        let lost = rule.what == What::Device && struck;
        if lost || (due && !struck) {
            rule.strike(device)?;
        }
    }
    Ok(())
}

/// Whether a device has fallen off the bus by now, as monitors see it.
pub fn lost(device: usize) -> bool {
    let Some(Some(plan)) = PLAN.get() else {
        return false;
    };
    let mut losses = plan
        .rules
        .iter()
        .filter(|rule| rule.what == What::Device && rule.device == Some(device));
    losses.any(|rule| {
        let stays = !matches!(rule.when, When::File(_));
        plan.is_due(rule) || stays && rule.struck.load(Relaxed)
    })
}

/// Returns once NVML is to answer.
pub fn await_nvml() {
    let Some(Some(plan)) = PLAN.get() else { return };
    let is_silent = || {
        let mut rules = plan.rules.iter().filter(|rule| rule.what == What::Nvml);
        rules.any(|rule| plan.is_due(rule))
    };
    while is_silent() {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// The file with what NVML says of a device's health, if any is named.
pub fn health(device: usize) -> Option<&'static Path> {
    let rules = &PLAN.get()?.as_ref()?.rules;
    rules.iter().find_map(|rule| match (rule.what, rule.when) {
        (What::Health, When::File(path)) if rule.device == Some(device) => Some(path),
        _ => None,
    })
}

/// How many times longer everything takes on a device by now.
pub fn slowness(device: usize) -> u64 {
    let Some(Some(plan)) = PLAN.get() else { return 1 };
    slowed(&plan.rules, device, clock::now().saturating_sub(plan.start))
}

fn slowed(rules: &[FailRule], device: usize, passed: u64) -> u64 {
    let factors = rules.iter().filter_map(|rule| match (rule.what, rule.when) {
        (What::Slow(factor), When::After(length)) => {
            let here = rule.device.is_none_or(|own| own == device);
            (here && passed >= length).then_some(factor)
        }
        _ => None,
    });
    factors.fold(1, u64::saturating_mul)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_say_what_where_and_when() {
        let rules = parse("device:1@2s, ecc@kernel=3,oom:0@alloc=7,ecc:2@50ms").unwrap();
        let all: Vec<_> = rules
            .iter()
            .map(|rule| (rule.what, rule.device, rule.when))
            .collect();
        assert_eq!(
            all,
            [
                (What::Device, Some(1), When::After(2_000_000_000)),
                (What::Ecc, None, When::Kernel(3)),
                (What::Memory, Some(0), When::Allocation(7)),
                (What::Ecc, Some(2), When::After(50_000_000)),
            ]
        );
    }

    #[test]
    fn a_device_is_slow_from_its_time_on() {
        let rules = parse("slow:1@factor=4,slow@factor=3@2s").unwrap();
        let at = |device, seconds: u64| slowed(&rules, device, seconds * 1_000_000_000);
        assert_eq!([at(0, 0), at(1, 0), at(0, 2), at(1, 2)], [1, 4, 3, 12]);
    }

    #[test]
    fn refusals_name_the_reason() {
        for (text, reason) in [
            ("device:1", "no moment"),
            ("fire@1s", "no failure"),
            ("ecc:x@1s", "no device's number"),
            ("ecc@kernel=0", "from 1 on"),
            ("ecc@noon", "no moment"),
            ("oom@2s", "at allocations and copies"),
            ("copy@alloc=2", "at copies"),
            ("device@2s", "no device is named"),
            ("ecc:1@file=/x", "only a device is lost"),
            ("nvml@2s", "while a file is there"),
            ("nvml:0@file=/x", "for all devices"),
            ("health@file=/x", "no device is named"),
            ("health:0@2s", "is in a file"),
            ("slow:1@2s", "no factor"),
            ("slow:1@factor=0", "from 1 on"),
            ("slow:1@factor=2@kernel=3", "from a time on"),
        ] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.contains(reason) && error.contains(text), "{error}");
        }
    }

    #[test]
    fn a_rule_strikes_once_at_its_number() {
        let rule = parse_rule("ecc:0@kernel=2").unwrap();
        let kernel = |device| {
            rule.at(device, |when| match when {
                When::Kernel(due) => Some(due),
                _ => None,
            })
        };
        assert_eq!(kernel(0), Ok(()));
        assert_eq!(kernel(1), Ok(()));
        assert_eq!(kernel(0), Err(Error::ECC_UNCORRECTABLE));
        assert_eq!(kernel(0), Ok(()));
    }
}
