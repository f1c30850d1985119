//! The driver and its GPUs, asked by a process of its own: a driver that hangs takes that one along.

use std::fs;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use mgb_command::machine::{Machine, variable};
use mgb_command::node;
use mgb_command::prefix::Prefix;
use mgb_core::libraries::{self, DRIVER_VARIABLE};
use nvml_wrapper::enum_wrappers::device::{ComputeMode, EccCounter, MemoryError};
use nvml_wrapper::enums::device::UsedGpuMemory;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::{Device, Nvml};
use rustix::fs::{Access, access};

use super::super::driver::{DriverFacts, LibraryFacts, NvmlFacts, NvmlFault};
use super::super::gpus::{GpuFacts, GpuMode, ProcessFacts};
use super::super::limit;
use super::elf;

/// How long the driver may take: making a node with eight GPUs ready takes seconds without persistence mode.
const DRIVER_TIMEOUT: Duration = Duration::from_secs(30);
/// The bit that divides a GPU into instances.
const MIG_ENABLED: u32 = 1;

/// What another process sees of the driver, with the GPUs of `machine`; `None`: as this process.
pub fn ask(machine: Option<&Machine>) -> DriverFacts {
    let answer = asked(machine).unwrap_or_else(|error| Some(Err(NvmlFault::Other(error.to_string()))));
    let fault = match answer {
        Some(Ok(facts)) => return facts,
        Some(Err(fault)) => fault,
        None => NvmlFault::Silent(DRIVER_TIMEOUT.as_secs()),
    };
    // What does not need the driver.
    DriverFacts {
        nvml: Err(fault),
        ..without_nvml()
    }
}

type DriverAnswer = Option<Result<DriverFacts, NvmlFault>>;

fn asked(machine: Option<&Machine>) -> std::io::Result<DriverAnswer> {
    let mut command = Command::new(std::env::current_exe()?);
    command
        .args(["doctor", "--ask-driver"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped());
    match machine {
        // Software GPUs say there what is wrong with their settings.
        Some(machine) => machine.apply(&mut command),
        None => {
            command.stderr(Stdio::null());
        }
    }
    let mut child = command.spawn()?;
    let Some(mut pipe) = child.stdout.take() else {
        return Ok(None);
    };
    let read = move || {
        let mut text = String::new();
        pipe.read_to_string(&mut text).map(|_| text)
    };
    let Some(text) = limit::within(DRIVER_TIMEOUT, "the driver", read) else {
        // Not waited for: it may hang in the kernel.
        let _ = child.kill();
        return Ok(None);
    };
    let status = child.wait()?;
    let facts = serde_json::from_str(&text?);
    Ok(Some(facts.map_err(|_| {
        NvmlFault::Other(format!("the process that asked it ended with {status}"))
    })))
}

/// How many GPUs answer, or why none does.
pub fn count(facts: &DriverFacts) -> Result<u32, String> {
    match &facts.nvml {
        Ok(nvml) if nvml.gpus.is_empty() => Err("the driver lists no GPU".to_owned()),
        Ok(nvml) => Ok(nvml.gpus.len() as u32),
        Err(_) => Err("no driver answers".to_owned()),
    }
}

/// What this process sees of the driver.
pub fn look() -> DriverFacts {
    let nvml = match node::nvml() {
        Ok(nvml) => facts_of(&nvml).map_err(fault),
        Err(error) => Err(fault(error)),
    };
    DriverFacts {
        nvml,
        ..without_nvml()
    }
}

fn without_nvml() -> DriverFacts {
    let module = module();
    DriverFacts {
        named: variable(DRIVER_VARIABLE).map(PathBuf::from),
        libraries: candidates(),
        nvml: Err(NvmlFault::Missing),
        closed: if module.is_some() { closed() } else { Vec::new() },
        module,
    }
}

fn fault(error: NvmlError) -> NvmlFault {
    match error {
        NvmlError::LibloadingError(_) | NvmlError::LibraryNotFound => NvmlFault::Missing,
        NvmlError::DriverNotLoaded => NvmlFault::NotLoaded,
        NvmlError::NoPermission => NvmlFault::Denied,
        NvmlError::LibRmVersionMismatch => NvmlFault::Mismatch,
        other => NvmlFault::Other(other.to_string()),
    }
}

fn facts_of(nvml: &Nvml) -> Result<NvmlFacts, NvmlError> {
    let cuda = nvml.sys_cuda_driver_version().ok();
    let gpus = (0..nvml.device_count()?).map(|index| match nvml.device_by_index(index) {
        Ok(device) => gpu(&device),
        Err(error) => GpuFacts {
            lost: Some(error.to_string()),
            ..GpuFacts::default()
        },
    });
    Ok(NvmlFacts {
        driver: nvml.sys_driver_version()?,
        cuda: cuda.map(|version| (version / 1000, version % 1000 / 10)),
        gpus: gpus.collect(),
    })
}

fn gpu(device: &Device<'_>) -> GpuFacts {
    let memory = device.memory_info();
    let processes = device.running_compute_processes().unwrap_or_default();
    GpuFacts {
        uuid: device.uuid().unwrap_or_default(),
        name: device.name().unwrap_or_else(|_| "GPU".to_owned()),
        mode: match device.compute_mode() {
            Ok(ComputeMode::ExclusiveProcess | ComputeMode::ExclusiveThread) => GpuMode::Exclusive,
            Ok(ComputeMode::Prohibited) => GpuMode::Prohibited,
            Ok(ComputeMode::Default) | Err(_) => GpuMode::Shared,
        },
        mig: device.mig_mode().is_ok_and(|mode| mode.current == MIG_ENABLED),
        persistent: device.is_in_persistent_mode().ok(),
        uncorrected: device
            .total_ecc_errors(MemoryError::Uncorrected, EccCounter::Volatile)
            .ok(),
        retiring: device.are_pages_pending_retired().ok(),
        processes: processes
            .into_iter()
            .map(|process| ProcessFacts {
                pid: process.pid,
                bytes: match process.used_gpu_memory {
                    UsedGpuMemory::Used(bytes) => Some(bytes),
                    UsedGpuMemory::Unavailable => None,
                },
                ..ProcessFacts::default()
            })
            .collect(),
        // Every GPU that answers knows its memory.
        lost: memory.as_ref().err().map(ToString::to_string),
        memory: memory.ok().map(|memory| (memory.total, memory.free)),
    }
}

/// The files that may be the driver behind the front, without the front.
fn candidates() -> Vec<LibraryFacts> {
    let front = Prefix::find().and_then(|prefix| prefix.front()).ok();
    let front = front.map(|folder| folder.join(libraries::DRIVER));
    let is_front = |path: &Path| front.as_deref().is_some_and(|front| same_file(front, path));
    libraries::drivers()
        .into_iter()
        .filter(|path| !is_front(path))
        .map(|path| LibraryFacts {
            fault: elf::fault(&path),
            is_stub: path
                .canonicalize()
                .is_ok_and(|path| path.components().any(|part| part.as_os_str() == "stubs")),
            path,
        })
        .collect()
}

/// Whether two paths lead to one file.
pub fn same_file(one: &Path, other: &Path) -> bool {
    let file = |path: &Path| fs::metadata(path).ok().map(|file| (file.dev(), file.ino()));
    file(one).is_some() && file(one) == file(other)
}

/// The kernel module's version.
fn module() -> Option<String> {
    let text = fs::read_to_string("/proc/driver/nvidia/version").ok()?;
    Some(module_version(&text).unwrap_or("unknown").to_owned())
}

/// The first word of the first line that is a version.
fn module_version(text: &str) -> Option<&str> {
    let is_version = |word: &&str| word.contains('.') && word.chars().all(|c| c.is_ascii_digit() || c == '.');
    text.lines().next()?.split_whitespace().find(is_version)
}

/// Device files without which CUDA does not start, and that this user cannot open.
fn closed() -> Vec<PathBuf> {
    let needed = ["/dev/nvidiactl", "/dev/nvidia-uvm"].map(PathBuf::from);
    let gpus = fs::read_dir("/dev")
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path());
    let is_gpu = |path: &PathBuf| {
        let number = path.to_str().and_then(|path| path.strip_prefix("/dev/nvidia"));
        number.is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
    };
    let all = needed.into_iter().chain(gpus.filter(is_gpu));
    all.filter(|path| access(path, Access::READ_OK | Access::WRITE_OK).is_err())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_modules_version_is_found_in_both_forms() {
        for line in [
            "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.159.04  Tue Jan 13 2026",
            "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build",
        ] {
            let text = format!("{line}\nGCC version:  gcc version 12.2.0\n");
            assert_eq!(module_version(&text), Some("580.159.04"));
        }
        assert_eq!(module_version(""), None);
    }

    #[test]
    fn errors_of_nvml_are_told_apart() {
        assert_eq!(fault(NvmlError::DriverNotLoaded), NvmlFault::NotLoaded);
        assert_eq!(fault(NvmlError::NoPermission), NvmlFault::Denied);
        assert_eq!(fault(NvmlError::LibRmVersionMismatch), NvmlFault::Mismatch);
        assert_eq!(fault(NvmlError::LibraryNotFound), NvmlFault::Missing);
        assert!(matches!(fault(NvmlError::Unknown), NvmlFault::Other(_)));
    }
}
