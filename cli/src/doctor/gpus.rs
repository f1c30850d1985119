//! The GPUs: what each is, and what keeps programs from sharing it.

use std::path::PathBuf;

use mgb_command::check_result::Finding;
use mgb_command::table::plural;
use mgb_probe::byte_size::Bytes;
use mgb_probe::visible_gpus;
use serde::{Deserialize, Serialize};

/// What NVML says of a GPU; `None` where it does not say.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GpuFacts {
    /// `GPU-...`
    pub uuid: String,
    /// The product's name.
    pub name: String,
    /// Bytes of device memory: all, and free ones.
    pub memory: Option<(u64, u64)>,
    /// Who may use it.
    pub mode: GpuMode,
    /// Divided into instances.
    pub mig: bool,
    /// The driver keeps it ready while nobody uses it.
    pub persistent: Option<bool>,
    /// Errors of the memory that could not be corrected, since the driver was loaded.
    pub uncorrected: Option<u64>,
    /// Memory is to be retired at the next reset.
    pub retiring: Option<bool>,
    /// Processes with a context.
    pub processes: Vec<ProcessFacts>,
    /// Why it does not answer.
    pub lost: Option<String>,
}

/// The compute mode.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum GpuMode {
    /// Any process may use the GPU.
    #[default]
    Shared,
    /// One process at a time.
    Exclusive,
    /// No process may use the GPU.
    Prohibited,
}

/// A process on a GPU.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessFacts {
    /// Process id, as NVML gives it.
    pub pid: u32,
    /// Bytes that it holds.
    pub bytes: Option<u64>,
    /// Its name, where this process sees it.
    pub name: Option<String>,
    /// Whether it is a client of the mgbd of this socket, or belongs to it.
    pub is_ours: bool,
    /// The driver's library that it uses past MGB, though `mgb run` has started it.
    pub past: Option<PathBuf>,
}

/// `mask` is `CUDA_VISIBLE_DEVICES`.
pub fn check(gpus: &[GpuFacts], mask: Option<&str>) -> Vec<Finding> {
    let uuids: Vec<&str> = gpus.iter().map(|gpu| gpu.uuid.as_str()).collect();
    let mut findings = Vec::new();
    let visible = match visible_gpus(mask, &uuids) {
        Ok(visible) => visible,
        // A node without GPUs is the driver's matter.
        Err(_) if gpus.is_empty() => return findings,
        Err(error) => {
            let way_out = "unset CUDA_VISIBLE_DEVICES, or name whole GPUs of this node in it";
            findings.push(Finding::problem("visible GPUs", error.to_string()).way_out(way_out));
            (0..gpus.len()).collect()
        }
    };
    let hidden: Vec<String> = (0..gpus.len())
        .filter(|at| !visible.contains(at))
        .map(|at| at.to_string())
        .collect();
    if let (Some(mask), false) = (mask, hidden.is_empty()) {
        let text = format!(
            "CUDA_VISIBLE_DEVICES={mask} hides {}: {}",
            plural(hidden.len(), "GPU"),
            hidden.join(", ")
        );
        findings.push(
            Finding::note("visible GPUs", text)
                .way_out("unset CUDA_VISIBLE_DEVICES before mgbd is started, to share all"),
        );
    }
    for (at, gpu) in gpus.iter().enumerate().filter(|(at, _)| visible.contains(at)) {
        findings.extend(one(at, gpu));
    }
    findings
}

fn one(at: usize, gpu: &GpuFacts) -> Vec<Finding> {
    if let Some(why) = &gpu.lost {
        let text = format!("GPU {at} does not answer: {why}");
        return vec![Finding::problem("GPU", text).way_out(
            "see `dmesg | grep -i xid`; reset it, restart the machine, or hide it with CUDA_VISIBLE_DEVICES",
        )];
    }
    let memory = gpu.memory.map_or_else(String::new, |(total, free)| {
        format!(", {}, {} free", Bytes(total), Bytes(free))
    });
    let mut findings = vec![Finding::ok("GPU", format!("GPU {at}: {}{memory}", gpu.name))];
    findings.extend(mode(at, gpu.mode));
    if gpu.mig {
        findings.push(
            Finding::problem(
                "MIG",
                format!("GPU {at} is divided into MIG instances, which MGB cannot share"),
            )
            .way_out(format!(
                "sudo nvidia-smi -i {at} -mig 0, or hide it with CUDA_VISIBLE_DEVICES"
            )),
        );
    }
    if gpu.persistent == Some(false) {
        findings.push(
            Finding::note(
                "persistence mode",
                format!("off on GPU {at}: the first program after a pause starts seconds later"),
            )
            .way_out(format!("sudo nvidia-smi -i {at} -pm 1")),
        );
    }
    if let Some(errors) = gpu.uncorrected.filter(|&errors| errors > 0) {
        let text = format!(
            "GPU {at} has had {} that could not be corrected",
            plural(errors as usize, "memory error")
        );
        findings.push(Finding::problem("ECC", text).way_out(format!(
            "stop its programs and reset it (sudo nvidia-smi -i {at} -r); if the errors return, have it replaced"
        )));
    }
    if gpu.retiring == Some(true) {
        findings.push(
            Finding::note("ECC", format!("GPU {at} retires faulty memory at its next reset"))
                .way_out(format!("when it is idle: sudo nvidia-smi -i {at} -r")),
        );
    }
    findings.extend(strangers(at, gpu));
    findings.extend(gpu.processes.iter().filter_map(|process| past(at, process)));
    findings
}

/// A program that was to run under MGB and does not.
fn past(at: usize, process: &ProcessFacts) -> Option<Finding> {
    let library = process.past.as_deref().filter(|_| !process.is_ours)?;
    let name = process.name.as_deref().unwrap_or("a program");
    let text = format!(
        "{name} (pid {}) was started by `mgb run` and uses GPU {at} by {}, past MGB: its memory is not charged, and it \
         does not wait",
        process.pid,
        library.display()
    );
    let folder = library.parent().unwrap_or(library).display();
    Some(Finding::problem("past the front", text).way_out(format!(
        "what started it puts {folder} into LD_LIBRARY_PATH: append it there (LD_LIBRARY_PATH=$LD_LIBRARY_PATH:{folder})"
    )))
}

fn mode(at: usize, mode: GpuMode) -> Option<Finding> {
    let text = match mode {
        GpuMode::Shared => return None,
        GpuMode::Exclusive => format!("GPU {at} lets one process use it at a time: others on it fail"),
        GpuMode::Prohibited => format!("GPU {at} lets no process use it"),
    };
    let way_out = format!("sudo nvidia-smi -i {at} -c DEFAULT");
    Some(Finding::problem("compute mode", text).way_out(way_out))
}

/// Memory that mgbd cannot give to anybody, and who has it.
fn strangers(at: usize, gpu: &GpuFacts) -> Option<Finding> {
    let strangers: Vec<&ProcessFacts> = gpu.processes.iter().filter(|process| !process.is_ours).collect();
    if strangers.is_empty() {
        return hidden(at, gpu);
    }
    let each: Vec<String> = strangers
        .iter()
        .map(|process| {
            let name = process.name.as_deref().unwrap_or("a process not seen from here");
            let bytes = process
                .bytes
                .map_or_else(|| "unknown".to_owned(), |bytes| Bytes(bytes).to_string());
            format!("{name} (pid {}, {bytes})", process.pid)
        })
        .collect();
    Some(
        Finding::note(
            "other programs",
            format!(
                "memory of GPU {at} is held outside of this mgbd: {}",
                each.join(", ")
            ),
        )
        .way_out("mgbd leaves it to them; start them with `mgb run`, or end them"),
    )
}

/// In a container NVML lists no processes of others, and their memory shows in the total only.
fn hidden(at: usize, gpu: &GpuFacts) -> Option<Finding> {
    // What the driver itself takes of an idle GPU is less.
    const PART: u64 = 32;
    let (total, free) = gpu.memory?;
    let used = total.saturating_sub(free);
    (gpu.processes.is_empty() && used > total / PART).then(|| {
        let text = format!(
            "{} of GPU {at} are in use, by processes that NVML does not list here",
            Bytes(used)
        );
        Finding::note("other programs", text)
            .way_out("`nvidia-smi` outside of the container lists them; mgbd leaves it to them")
    })
}

#[cfg(test)]
mod tests {
    use mgb_command::check_result::Severity::{Note, Ok as Fine, Problem};
    use mgb_command::check_result::expect;

    use super::*;

    fn gpu() -> GpuFacts {
        GpuFacts {
            uuid: "GPU-aa".to_owned(),
            name: "NVIDIA H200".to_owned(),
            memory: Some((140 << 30, 139 << 30)),
            persistent: Some(true),
            uncorrected: Some(0),
            retiring: Some(false),
            ..GpuFacts::default()
        }
    }

    fn found(gpu: GpuFacts) -> Vec<Finding> {
        check(&[gpu], None)
    }

    #[test]
    fn a_gpu_that_works_is_named_and_nothing_else_said() {
        let found = found(gpu());
        expect(
            &found,
            "GPU",
            Fine,
            &["GPU 0: NVIDIA H200, 140.0 GiB, 139.0 GiB free"],
        );
        assert_eq!(found.len(), 1);
        let silent = GpuFacts {
            memory: None,
            persistent: None,
            uncorrected: None,
            retiring: None,
            ..gpu()
        };
        assert_eq!(check(&[silent], None).len(), 1);
    }

    #[test]
    fn what_keeps_programs_from_sharing_is_a_problem() {
        for (mode, words) in [
            (GpuMode::Exclusive, ["one process", "-c DEFAULT"]),
            (GpuMode::Prohibited, ["no process", "-c DEFAULT"]),
        ] {
            expect(
                &found(GpuFacts { mode, ..gpu() }),
                "compute mode",
                Problem,
                &words,
            );
        }
        let mig = GpuFacts { mig: true, ..gpu() };
        expect(&found(mig), "MIG", Problem, &["GPU 0", "-mig 0"]);
        let lost = GpuFacts {
            lost: Some("it fell off the bus".to_owned()),
            ..gpu()
        };
        let found = found(lost);
        expect(&found, "GPU", Problem, &["GPU 0", "fell off", "xid"]);
        assert_eq!(found.len(), 1);
    }

    #[test]
    fn what_is_wrong_with_its_memory_is_said() {
        let bad = GpuFacts {
            uncorrected: Some(2),
            retiring: Some(true),
            ..gpu()
        };
        let found = found(bad);
        expect(&found, "ECC", Problem, &["2 memory errors", "-r"]);
        expect(&found, "ECC", Note, &["retires", "-r"]);
    }

    #[test]
    fn slow_starts_are_a_note() {
        let off = GpuFacts {
            persistent: Some(false),
            ..gpu()
        };
        expect(&found(off), "persistence mode", Note, &["GPU 0", "-pm 1"]);
    }

    #[test]
    fn who_holds_memory_outside_is_named() {
        let process = |pid, is_ours| ProcessFacts {
            pid,
            bytes: Some(3 << 30),
            name: Some("python3".to_owned()),
            is_ours,
            past: None,
        };
        let shared = GpuFacts {
            processes: vec![process(10, true), process(11, false)],
            ..gpu()
        };
        let found = found(shared);
        expect(
            &found,
            "other programs",
            Note,
            &["GPU 0", "python3 (pid 11, 3.0 GiB)"],
        );
        assert!(!format!("{found:?}").contains("pid 10"));
        let unseen = ProcessFacts {
            pid: 4_000_000,
            ..ProcessFacts::default()
        };
        let other = GpuFacts {
            processes: vec![unseen],
            ..gpu()
        };
        expect(
            &check(&[other], None),
            "other programs",
            Note,
            &["not seen", "unknown"],
        );
    }

    #[test]
    fn who_goes_past_the_front_is_named() {
        let process = |is_ours| ProcessFacts {
            pid: 12,
            name: Some("python3".to_owned()),
            is_ours,
            past: Some("/opt/cuda/libcuda.so.580".into()),
            ..ProcessFacts::default()
        };
        let with = |is_ours| GpuFacts {
            processes: vec![process(is_ours)],
            ..gpu()
        };
        let parts = ["python3 (pid 12)", "/opt/cuda/libcuda.so.580", "not charged"];
        expect(&found(with(false)), "past the front", Problem, &parts);
        assert!(!format!("{:?}", found(with(true))).contains("past the front"));
    }

    #[test]
    fn memory_of_processes_that_are_not_listed_is_said() {
        let used = GpuFacts {
            memory: Some((140 << 30, 100 << 30)),
            ..gpu()
        };
        expect(
            &found(used.clone()),
            "other programs",
            Note,
            &["40.0 GiB", "does not list"],
        );
        let ours = GpuFacts {
            processes: vec![ProcessFacts {
                is_ours: true,
                ..ProcessFacts::default()
            }],
            ..used
        };
        assert_eq!(found(ours).len(), 1);
    }

    #[test]
    fn hidden_gpus_are_named_and_not_checked() {
        let second = GpuFacts {
            uuid: "GPU-bb".to_owned(),
            mig: true,
            ..gpu()
        };
        let gpus = [gpu(), second];
        let found = check(&gpus, Some("0"));
        expect(
            &found,
            "visible GPUs",
            Note,
            &["CUDA_VISIBLE_DEVICES=0 hides 1 GPU: 1"],
        );
        assert!(!found.iter().any(|finding| finding.name == "MIG"), "{found:#?}");
        expect(
            &check(&gpus, Some("-1")),
            "visible GPUs",
            Problem,
            &["leaves no GPU", "unset"],
        );
        expect(
            &check(&gpus, Some("MIG-1")),
            "visible GPUs",
            Problem,
            &["MIG instance"],
        );
        assert_eq!(check(&[], Some("0")), Vec::new());
        assert_eq!(check(&[gpu()], Some("0")).len(), 1, "nothing is hidden");
    }
}
