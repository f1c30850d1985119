//! Fills the facts in: what this process sees of the node and of a program.

pub mod classes;
pub mod driver;
mod elf;
pub mod host;
mod linker;
pub mod mgbd;
pub mod mps;
mod past;
pub mod program;
pub mod rights;
pub mod tools;

use std::path::{Path, PathBuf};

use linker::LinkerSearch;
use mgb_command::machine::{Machine, variable};
use mgb_command::prefix::Prefix;
use mgbd::SeenMgbd;

use super::driver::{DriverFacts, GpuChoice};
use super::gpus::{GpuFacts, ProcessFacts};

/// What the other checks build on: the GPUs that programs use.
pub struct DoctorNode {
    /// Which, and why.
    pub use_of: GpuChoice,
    /// The driver as commands see it.
    pub real: DriverFacts,
    /// The driver as programs see it that `mgb run` starts.
    pub used: DriverFacts,
    machine: Option<Machine>,
    front: Option<PathBuf>,
}

impl DoctorNode {
    /// Decides as `mgb run` does, and asks the driver; a process does that, which may hang.
    pub fn find() -> Self {
        let prefix = Prefix::find();
        let mut real = None;
        let machine = prefix.and_then(|prefix| {
            let front = prefix.front().ok();
            let count = || {
                let seen = driver::ask(None);
                let count = driver::count(&seen);
                real = Some(seen);
                count
            };
            Machine::choose(&prefix, count).map(|machine| (machine, front))
        });
        let (machine, front, failed) = match machine {
            Ok((machine, front)) => (Some(machine), front, None),
            Err(error) => (None, None, Some(format!("{error:#}"))),
        };
        let used = match (&machine, &real) {
            (Some(Machine::Real { .. }) | None, Some(real)) => real.clone(),
            (machine, _) => driver::ask(machine.as_ref()),
        };
        let chosen = variable("MGB_SOFTGPU").is_some() || variable("SOFTGPU_DEVICES").is_some();
        let use_of = match (&machine, failed) {
            (Some(Machine::Real { .. }), _) => GpuChoice::Real,
            (Some(Machine::Soft { why, .. }), _) if chosen => GpuChoice::Chosen(why.clone()),
            (Some(Machine::Soft { .. }), _) => GpuChoice::Instead,
            (None, failed) if variable("MGB_SOFTGPU").is_some() => {
                GpuChoice::Nothing(failed.unwrap_or_default())
            }
            (None, failed) => GpuChoice::Broken(failed.unwrap_or_default()),
        };
        Self {
            use_of,
            real: real.unwrap_or_else(|| used.clone()),
            used,
            machine,
            front,
        }
    }

    /// Whether programs use software GPUs.
    pub fn is_soft(&self) -> bool {
        self.machine.as_ref().is_some_and(Machine::is_soft)
    }

    /// The newest CUDA that the driver supports.
    pub fn cuda(&self) -> Option<(i32, i32)> {
        self.used.nvml.as_ref().ok().and_then(|nvml| nvml.cuda)
    }

    /// Where the dynamic linker looks in a program that `mgb run` starts.
    pub fn search(&self) -> LinkerSearch {
        let first: Vec<&Path> = self.front.as_deref().into_iter().collect();
        let path = match &self.machine {
            Some(machine) => machine.library_path(&first),
            None => None,
        };
        let path = path.or_else(|| std::env::var_os("LD_LIBRARY_PATH"));
        LinkerSearch::new(path.unwrap_or_default(), self.front.as_deref())
    }
}

/// The GPUs that NVML lists, with the names of the processes on them.
pub fn gpus_of(node: &DoctorNode, mgbd: Option<&SeenMgbd>) -> Vec<GpuFacts> {
    let mut gpus = match &node.used.nvml {
        Ok(nvml) => nvml.gpus.clone(),
        Err(_) => Vec::new(),
    };
    let named = |process: &mut ProcessFacts| {
        process.name = mgbd::name_of(process.pid);
        process.is_ours = mgbd.is_some_and(|mgbd| mgbd.has(process.pid));
        process.past = past::library_of(process.pid, node.front.as_deref());
    };
    gpus.iter_mut().flat_map(|gpu| &mut gpu.processes).for_each(named);
    gpus
}
