//! The driver: whether its libraries are found, its kernel module answers, and it is new enough.

use std::path::PathBuf;

use mgb_command::check_result::Finding;
use serde::{Deserialize, Serialize};

use super::gpus::GpuFacts;

/// The CUDA that the driver has to support: programs built with MGB use the runtime of CUDA 13.
pub const CUDA: (i32, i32) = (13, 0);
/// The first driver that supports it.
const FIRST_DRIVER: u32 = 580;
/// What follows where there is no driver.
const SOFTWARE: &str = "programs run on software GPUs, which show function, not speed";
const NOTHING: &str = "no program can use a GPU";
const LIBRARIES: &str = "driver";
const NVML: &str = "NVML";
const VERSION: &str = "driver version";
const FILES: &str = "device files";

/// What was seen of the driver.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DriverFacts {
    /// What `MGB_DRIVER` names.
    pub named: Option<PathBuf>,
    /// The files that may be the driver's library, in the order in which the front tries them, without the
    /// front itself.
    pub libraries: Vec<LibraryFacts>,
    /// What NVML says, or why it does not.
    pub nvml: Result<NvmlFacts, NvmlFault>,
    /// The kernel module's version, as `/proc` has it; none without a module.
    pub module: Option<String>,
    /// Device files that this user cannot open, and those that are missing.
    pub closed: Vec<PathBuf>,
}

/// A file that may be the driver's library.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LibraryFacts {
    /// Where it is.
    pub path: PathBuf,
    /// Why the dynamic linker does not take it.
    pub fault: Option<String>,
    /// The toolkit's stub, which programs are linked against and which drives nothing.
    pub is_stub: bool,
}

/// What NVML says of the node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NvmlFacts {
    /// The driver's version.
    pub driver: String,
    /// The newest CUDA that it supports.
    pub cuda: Option<(i32, i32)>,
    /// The GPUs, in NVML's order.
    pub gpus: Vec<GpuFacts>,
}

/// Why NVML says nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum NvmlFault {
    /// The library cannot be loaded.
    Missing,
    /// The kernel module is not loaded.
    NotLoaded,
    /// This user may not ask.
    Denied,
    /// The library is of another version than the kernel module.
    Mismatch,
    /// It did not answer in so many seconds.
    Silent(u64),
    /// NVML failed for another reason.
    Other(String),
}

/// Which GPUs programs use, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GpuChoice {
    /// NVIDIA's own driver is used.
    Real,
    /// Software GPUs: the user chose them, for this reason.
    Chosen(String),
    /// Software GPUs, since real ones do not work.
    Instead,
    /// None: what `MGB_SOFTGPU` says cannot be, and why.
    Nothing(String),
    /// None: a part of MGB is missing, and which.
    Broken(String),
}

/// `real` is what commands see by themselves, `used` what programs see that `mgb run` starts.
pub fn check(use_of: &GpuChoice, real: &DriverFacts, used: &DriverFacts) -> Vec<Finding> {
    let mut findings = named(used);
    match use_of {
        GpuChoice::Chosen(why) => findings.push(soft(why, used)),
        GpuChoice::Real => findings.extend(real_one(real)),
        GpuChoice::Instead => findings.extend(missing(real, SOFTWARE)),
        GpuChoice::Broken(why) => findings.push(
            Finding::problem(LIBRARIES, format!("{NOTHING}: {why}"))
                .way_out("run `make build`, or set MGB_PREFIX to the folder that holds bin/mgb"),
        ),
        GpuChoice::Nothing(why) => {
            findings.extend(missing(real, NOTHING));
            findings.push(
                Finding::problem(LIBRARIES, format!("{NOTHING}: {why}"))
                    .way_out("unset MGB_SOFTGPU, or set it to 1 for software GPUs"),
            );
        }
    }
    findings
}

fn soft(why: &str, used: &DriverFacts) -> Finding {
    match &used.nvml {
        Ok(nvml) => Finding::ok(
            LIBRARIES,
            format!(
                "software GPUs, because {why}: they show function, not speed (version {})",
                nvml.driver
            ),
        ),
        Err(fault) => Finding::problem(LIBRARIES, format!("software GPUs do not work: {}", said(fault)))
            .way_out("check SOFTGPU_DEVICES; see docs/SOFTGPU.md"),
    }
}

/// What `MGB_DRIVER` names has to be a driver, whichever GPUs are used.
fn named(facts: &DriverFacts) -> Vec<Finding> {
    let (Some(path), Some(library)) = (&facts.named, facts.libraries.first()) else {
        return Vec::new();
    };
    let fault = match (&library.fault, library.is_stub) {
        (Some(fault), _) => fault.as_str(),
        (None, true) => "is the CUDA toolkit's stub",
        (None, false) => return Vec::new(),
    };
    let text = format!(
        "MGB_DRIVER={} {fault}: programs that were not rebuilt find no driver",
        path.display()
    );
    vec![
        Finding::problem("MGB_DRIVER", text).way_out("unset MGB_DRIVER, or name NVIDIA's libcuda.so.1 in it"),
    ]
}

/// The driver's library that the front uses.
fn library(facts: &DriverFacts) -> Option<&LibraryFacts> {
    facts.libraries.iter().find(|library| library.fault.is_none())
}

fn real_one(facts: &DriverFacts) -> Vec<Finding> {
    let mut findings = Vec::new();
    let Ok(nvml) = &facts.nvml else {
        return missing(facts, NOTHING);
    };
    let cuda = nvml
        .cuda
        .map_or_else(String::new, |(major, minor)| format!(", CUDA {major}.{minor}"));
    match library(facts) {
        None if facts.named.is_some() => {}
        None => findings.push(
            Finding::problem(
                LIBRARIES,
                "NVML answers, but no libcuda.so.1 is found: no program can use a GPU",
            )
            .way_out(
                "install the whole driver; in a container set NVIDIA_DRIVER_CAPABILITIES=compute,utility; \
                     else name the library in MGB_DRIVER",
            ),
        ),
        Some(library) if library.is_stub && facts.named.is_none() => findings.push(
            Finding::problem(
                LIBRARIES,
                format!(
                    "{} is the CUDA toolkit's stub, and is found before the driver",
                    library.path.display()
                ),
            )
            .way_out("take the toolkit's folder `stubs` out of LD_LIBRARY_PATH"),
        ),
        Some(library) => findings.push(Finding::ok(
            LIBRARIES,
            format!("{}{cuda}, {}", nvml.driver, library.path.display()),
        )),
    }
    if nvml.cuda.is_some_and(|cuda| cuda < CUDA) {
        let text = format!(
            "driver {}{cuda}: programs built with MGB use CUDA {}'s runtime and do not start; others work",
            nvml.driver, CUDA.0
        );
        findings
            .push(Finding::problem(VERSION, text).way_out(format!("install driver {FIRST_DRIVER} or later")));
    }
    if !facts.closed.is_empty() {
        let files: Vec<String> = facts
            .closed
            .iter()
            .map(|file| file.display().to_string())
            .collect();
        findings.push(
            Finding::problem(FILES, format!("this user cannot open {}", files.join(", "))).way_out(
                "load the module (sudo modprobe nvidia-uvm), give this user read and write permission, or pass \
                 the devices into the container",
            ),
        );
    }
    findings
}

/// Why there are no real GPUs, and what happens instead.
fn missing(facts: &DriverFacts, instead: &str) -> Vec<Finding> {
    let install = format!(
        "for real GPUs install NVIDIA's driver {FIRST_DRIVER} or later; in a container pass the GPUs in \
         (--gpus all)"
    );
    let fault = match &facts.nvml {
        Ok(_) => {
            let text = format!("the driver lists no GPU: {instead}");
            return vec![
                Finding::problem(LIBRARIES, text)
                    .way_out("check `nvidia-smi`; in a container pass the GPUs in (--gpus all)"),
            ];
        }
        Err(fault) => fault,
    };
    let found = library(facts);
    if *fault == NvmlFault::Missing && found.is_none() && facts.module.is_none() {
        let text =
            format!("no NVIDIA driver: neither libcuda.so.1 nor libnvidia-ml.so.1 is found; {instead}");
        return vec![Finding::note(LIBRARIES, text).way_out(install)];
    }
    let way_out = match fault {
        NvmlFault::Missing => {
            "install the whole driver; in a container set NVIDIA_DRIVER_CAPABILITIES=compute,utility"
                .to_owned()
        }
        NvmlFault::NotLoaded => {
            "load the kernel module (sudo modprobe nvidia); if that fails, `dmesg` says why".to_owned()
        }
        NvmlFault::Denied => "give this user read and write permission on /dev/nvidia*".to_owned(),
        NvmlFault::Mismatch => {
            let module = facts.module.as_deref().unwrap_or("unknown");
            format!("the driver was updated while the module ({module}) was loaded: restart the machine")
        }
        NvmlFault::Silent(_) => {
            "a GPU may hang: see `dmesg | grep -i xid`, and reset it or restart".to_owned()
        }
        NvmlFault::Other(_) => "check `nvidia-smi` and `dmesg`".to_owned(),
    };
    let text = format!("{}: {instead}", said(fault));
    vec![Finding::problem(NVML, text).way_out(way_out)]
}

fn said(fault: &NvmlFault) -> String {
    match fault {
        NvmlFault::Missing => "libnvidia-ml.so.1 cannot be loaded".to_owned(),
        NvmlFault::NotLoaded => "the driver's kernel module is not loaded".to_owned(),
        NvmlFault::Denied => "this user may not use the driver".to_owned(),
        NvmlFault::Mismatch => "the driver's libraries and its kernel module are of two versions".to_owned(),
        NvmlFault::Silent(seconds) => format!("the driver does not answer in {seconds} s"),
        NvmlFault::Other(why) => format!("the driver does not answer: {why}"),
    }
}

#[cfg(test)]
mod tests {
    use mgb_command::check_result::Severity::{Note, Ok as Fine, Problem};
    use mgb_command::check_result::expect;

    use super::*;

    fn driver(cuda: (i32, i32)) -> DriverFacts {
        DriverFacts {
            named: None,
            libraries: vec![library_at("/usr/lib64/libcuda.so.1")],
            nvml: Ok(NvmlFacts {
                driver: "580.1".to_owned(),
                cuda: Some(cuda),
                gpus: Vec::new(),
            }),
            module: Some("580.1".to_owned()),
            closed: Vec::new(),
        }
    }

    fn library_at(path: &str) -> LibraryFacts {
        LibraryFacts {
            path: path.into(),
            fault: None,
            is_stub: false,
        }
    }

    fn without(fault: NvmlFault) -> DriverFacts {
        DriverFacts {
            nvml: Err(fault),
            ..driver(CUDA)
        }
    }

    fn real(facts: &DriverFacts) -> Vec<Finding> {
        check(&GpuChoice::Real, facts, facts)
    }

    fn instead(facts: &DriverFacts) -> Vec<Finding> {
        check(&GpuChoice::Instead, facts, facts)
    }

    #[test]
    fn a_driver_that_works_is_named() {
        let found = real(&driver(CUDA));
        expect(
            &found,
            "driver",
            Fine,
            &["580.1", "CUDA 13.0", "/usr/lib64/libcuda.so.1"],
        );
        assert_eq!(found.len(), 1);
    }

    #[test]
    fn an_older_one_does_not_start_rebuilt_programs() {
        expect(
            &real(&driver((12, 4))),
            "driver version",
            Problem,
            &["CUDA 12.4", "driver 580"],
        );
    }

    #[test]
    fn half_a_driver_is_a_problem() {
        let no_cuda = DriverFacts {
            libraries: vec![LibraryFacts {
                fault: Some("is a 32-bit library".to_owned()),
                ..library_at("/usr/lib/libcuda.so.1")
            }],
            ..driver(CUDA)
        };
        expect(
            &real(&no_cuda),
            "driver",
            Problem,
            &["no libcuda.so.1", "compute,utility"],
        );
        expect(
            &instead(&without(NvmlFault::Missing)),
            "NVML",
            Problem,
            &["libnvidia-ml.so.1", "software GPUs"],
        );
    }

    #[test]
    fn a_stub_before_the_driver_is_a_problem() {
        let mut facts = driver(CUDA);
        facts.libraries[0].is_stub = true;
        expect(&real(&facts), "driver", Problem, &["stub", "LD_LIBRARY_PATH"]);
    }

    #[test]
    fn what_the_kernel_does_not_do_is_said() {
        for (fault, words) in [
            (NvmlFault::NotLoaded, ["not loaded", "modprobe nvidia"]),
            (NvmlFault::Denied, ["may not", "/dev/nvidia*"]),
            (NvmlFault::Mismatch, ["two versions", "restart"]),
            (NvmlFault::Silent(10), ["in 10 s", "xid"]),
            (NvmlFault::Other("unknown".to_owned()), ["unknown", "nvidia-smi"]),
        ] {
            expect(&instead(&without(fault)), "NVML", Problem, &words);
        }
        let closed = DriverFacts {
            closed: vec!["/dev/nvidia-uvm".into()],
            ..driver(CUDA)
        };
        expect(
            &real(&closed),
            "device files",
            Problem,
            &["/dev/nvidia-uvm", "modprobe"],
        );
        expect(
            &instead(&driver(CUDA)),
            "driver",
            Problem,
            &["lists no GPU", "--gpus all"],
        );
    }

    #[test]
    fn without_a_driver_software_gpus_are_used() {
        let none = DriverFacts {
            libraries: Vec::new(),
            module: None,
            ..without(NvmlFault::Missing)
        };
        let found = instead(&none);
        expect(
            &found,
            "driver",
            Note,
            &["no NVIDIA driver", "software GPUs", "driver 580"],
        );
        let found = check(&GpuChoice::Nothing("MGB_SOFTGPU=0".to_owned()), &none, &none);
        expect(&found, "driver", Problem, &["MGB_SOFTGPU=0", "unset MGB_SOFTGPU"]);
        assert!(!format!("{found:?}").contains("run on software"));
        let found = check(
            &GpuChoice::Broken("lib/softgpu is missing".to_owned()),
            &none,
            &none,
        );
        expect(&found, "driver", Problem, &["lib/softgpu", "make build"]);
    }

    #[test]
    fn software_gpus_that_were_chosen_are_fine() {
        let chosen = GpuChoice::Chosen("MGB_SOFTGPU is set".to_owned());
        let found = check(&chosen, &without(NvmlFault::Missing), &driver(CUDA));
        expect(&found, "driver", Fine, &["MGB_SOFTGPU is set", "not speed"]);
        let broken = without(NvmlFault::NotLoaded);
        expect(
            &check(&chosen, &broken, &broken),
            "driver",
            Problem,
            &["SOFTGPU_DEVICES"],
        );
    }

    #[test]
    fn the_named_driver_has_to_be_one() {
        let mut facts = driver(CUDA);
        facts.named = Some("/nowhere".into());
        facts.libraries[0].fault = Some("does not exist".to_owned());
        let found = real(&facts);
        expect(
            &found,
            "MGB_DRIVER",
            Problem,
            &["/nowhere", "does not exist", "unset MGB_DRIVER"],
        );
        assert_eq!(found.len(), 1, "it is said once: {found:#?}");
        facts.libraries[0].fault = None;
        assert_eq!(real(&facts).len(), 1);
        expect(&real(&facts), "driver", Fine, &[]);
    }
}
