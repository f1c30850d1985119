//! Classes of programs: the driver, MPS's control daemon, and what the environment says.

use mgb_command::machine::variable;
use mgb_core::mps::{PERCENTAGE, PRIORITY, SETTING};
use mgb_interface::mps;
use mgb_probe::{CLASS, socket_path};

use super::super::classes::ClassFacts;
use super::super::driver::DriverFacts;
use super::super::mps::MpsFacts;

/// Looks for them; `seen` is what was seen of MPS.
pub fn look(driver: &DriverFacts, seen: &MpsFacts) -> ClassFacts {
    let is_running = matches!(seen.running, Some(Ok(_)));
    let text = |name| variable(name).map(|value| value.to_string_lossy().into_owned());
    ClassFacts {
        software: seen.software,
        driver: driver.nvml.as_ref().ok().map(|nvml| nvml.driver.clone()),
        has_mps: is_running || seen.running.is_none() && seen.control.is_some(),
        control: is_running.then(|| mps::control(&mps::pipe_of(&socket_path())).map(|control| control.pid)),
        priority: text(PRIORITY),
        percentage: text(PERCENTAGE),
        mps: text(SETTING),
        class: text(CLASS),
    }
}
