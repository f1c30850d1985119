//! What `mgb demo` and `mgb bench` share: a batch under an mgbd of its own, a look at the node meanwhile, a
//! program that makes GPUs small, and how all of it is drawn.

pub mod ballast;
pub mod page;
pub mod policy_batch;
pub mod sampler;

use std::ffi::OsString;
use std::path::Path;

use mgb_command::machine::{Machine, variable};

/// Variables of everything that a measurement starts.
pub type Environment = Vec<(OsString, OsString)>;

/// Software GPUs of a measurement's own, unless the user has named some: `devices`, as `SOFTGPU_DEVICES`
/// takes them.
pub fn software_gpus(machine: &Machine, folder: &Path, devices: &str) -> Environment {
    if !machine.is_soft() {
        return Vec::new();
    }
    let devices = variable("SOFTGPU_DEVICES").unwrap_or_else(|| devices.into());
    vec![
        ("SOFTGPU_DEVICES".into(), devices),
        ("SOFTGPU_STATE".into(), folder.join("softgpu.state").into()),
    ]
}
