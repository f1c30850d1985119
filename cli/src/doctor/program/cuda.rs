//! How a program comes under mgbd: rebuilt with MGB, or through the driver front; and which CUDA runtime it
//! has.

use std::collections::BTreeSet;

use mgb_command::check_result::Finding;
use mgb_command::table::plural;
use mgb_core::libraries::{DRIVER, USE_CUDA};

use super::facts::{Executable, ObjectFacts, ProgramFacts};

/// The start of the name of MGB's runtime: packagers of Python's wheels put a number into it.
const OURS: [&str; 2] = ["libmgb_rt.", "libmgb_rt-"];
const RUNTIME: &str = "libcudart.so.";
/// The runtime that software GPUs have.
const SOFTWARE: u32 = 13;
const WAY: &str = "way to mgbd";

/// Checks how the program uses CUDA.
pub fn check(facts: &ProgramFacts, program: &Executable) -> Vec<Finding> {
    let Some(own) = program.objects.first() else {
        return Vec::new();
    };
    let mut findings = missing(program);
    let rebuilt = program.objects.iter().find(|object| needs(object, is_ours));
    match rebuilt {
        Some(object) => findings.extend(with_mgb(facts, program, object, own)),
        None => findings.push(plain(facts, program)),
    }
    findings.extend(outside_mps(facts, program));
    findings.extend(
        runtimes(program)
            .into_iter()
            .filter_map(|runtime| too_new(facts, runtime)),
    );
    findings
}

/// Whose kernels launch kernels stays outside MPS.
fn outside_mps(facts: &ProgramFacts, program: &Executable) -> Option<Finding> {
    let object = program.objects.iter().find(|object| object.launches_kernels)?;
    let text = format!(
        "kernels of {} launch kernels, which MPS refuses: it uses its GPU outside MPS, in turns with the programs \
         beside it",
        object.file_name()
    );
    (!facts.software).then(|| Finding::note("MPS", text))
}

/// Whether a library is MGB's runtime.
fn is_ours(name: &str) -> bool {
    OURS.iter().any(|start| name.starts_with(start))
}

fn needs(object: &ObjectFacts, is_it: impl Fn(&str) -> bool) -> bool {
    object.needed.iter().any(|needed| is_it(needed.file_name()))
}

/// Libraries without which it does not start.
fn missing(program: &Executable) -> Vec<Finding> {
    let lacks = |object: &ObjectFacts| {
        let names = object.needed.iter().filter(|needed| needed.path.is_none());
        names.map(|needed| needed.name.clone()).collect::<Vec<_>>()
    };
    let all: BTreeSet<String> = program.objects.iter().flat_map(lacks).collect();
    let found = all.into_iter().map(|name| {
        let way_out = if is_ours(&name) {
            "put the folder `lib` of MGB into LD_LIBRARY_PATH, or build the program anew"
        } else {
            "install it, or put its folder into LD_LIBRARY_PATH"
        };
        Finding::problem(
            "libraries",
            format!("{name} is not found: the program does not start"),
        )
        .way_out(way_out)
    });
    found.collect()
}

fn with_mgb(
    facts: &ProgramFacts,
    program: &Executable,
    object: &ObjectFacts,
    own: &ObjectFacts,
) -> Vec<Finding> {
    let is_own = object.path == own.path;
    let what = if is_own {
        "rebuilt with MGB".to_owned()
    } else {
        format!("its library {} is rebuilt with MGB", object.file_name())
    };
    let tasks = program.tasks.map_or_else(String::new, |(tasks, lazy)| {
        format!(
            ", {}, {lazy} of them lazy (`mgb explain` says why)",
            plural(tasks, "task")
        )
    });
    let mut findings = Vec::new();
    let runtime = program.objects.iter().find(|object| is_ours(object.file_name()));
    // One that is missing is named already.
    if let Some(runtime) = runtime {
        let path = runtime.path.display();
        let other = match runtime.protocol {
            Some(version) if version == facts.protocol => None,
            Some(version) => Some(format!("version {version} of the protocol")),
            None => Some("an older version of the protocol, which it does not note".to_owned()),
        };
        findings.push(match other {
            None => Finding::ok(WAY, format!("{what}{tasks}; its runtime is {path}")),
            Some(other) => Finding::problem(
                WAY,
                format!(
                    "{what}, but its runtime {path} speaks {other}, this mgb's mgbd {}: it runs natively",
                    facts.protocol
                ),
            )
            .way_out("use the libmgb_rt.so of this MGB (LD_LIBRARY_PATH), or build the program anew"),
        });
    }
    findings.extend(open(program));
    findings
}

/// What makes a rebuilt program stay on one GPU.
fn open(program: &Executable) -> Option<Finding> {
    let by_itself = program.objects.iter().skip(1).find_map(|object| {
        let name = object.file_name();
        let uses = USE_CUDA.iter().any(|library| name.starts_with(library));
        let plain =
            needs(object, |name| name.starts_with(RUNTIME)) && !needs(object, is_ours) && !is_ours(name);
        (uses || plain).then(|| format!("loads {name}, which uses CUDA by itself"))
    });
    let later = || {
        let loads = |object: &&ObjectFacts| object.loads && needs(object, is_ours);
        let object = program.objects.iter().find(loads)?;
        Some(format!(
            "may load libraries that use CUDA ({} calls dlopen)",
            object.file_name()
        ))
    };
    let why = by_itself.or_else(later)?;
    Some(
        Finding::note(
            "one GPU",
            format!("it {why}: each of its devices stays on the GPU of its first allocation"),
        )
        .way_out("docs/LIMITS.md, \"What binds a process to one GPU\""),
    )
}

fn plain(facts: &ProgramFacts, program: &Executable) -> Finding {
    let runtimes = runtimes(program);
    let uses_driver = program
        .objects
        .iter()
        .any(|object| needs(object, |name| name == DRIVER));
    let linked_in = program
        .objects
        .iter()
        .find(|object| !object.names_driver.is_empty() && !object.file_name().starts_with(RUNTIME));
    let how = if !runtimes.is_empty() {
        let names: Vec<String> = runtimes
            .iter()
            .map(|version| format!("{RUNTIME}{version}"))
            .collect();
        format!("the CUDA runtime ({})", names.join(", "))
    } else if uses_driver {
        "the driver API".to_owned()
    } else if let Some(object) = linked_in {
        format!(
            "a CUDA runtime in {}, or the driver that it loads itself",
            object.file_name()
        )
    } else {
        return Finding::ok(
            WAY,
            "no CUDA is seen in it; what it loads or starts later comes under mgbd by the driver front",
        );
    };
    // The other runtimes ask for modules, and kernels that nvcc compiled are not host code.
    let has_kernels = program.objects.iter().any(|object| object.device_code);
    let other_runtime = runtimes.iter().any(|&version| version != SOFTWARE);
    let is_soft = facts.software && (has_kernels || linked_in.is_some() || other_runtime);
    if is_soft {
        let text = format!(
            "not rebuilt, with {how}: software GPUs run kernels of `mgb clang` and `mgb nvcc` only, with CUDA \
             {SOFTWARE}'s runtime as a library"
        );
        return Finding::note(WAY, text)
            .way_out("build it with MGB to run it here; on real GPUs it works as it is");
    }
    Finding::ok(
        WAY,
        format!("not rebuilt, with {how}: under `mgb run` the driver front serves it"),
    )
}

/// The versions of the CUDA runtimes that it loads as libraries.
fn runtimes(program: &Executable) -> BTreeSet<u32> {
    let needed = program.objects.iter().flat_map(|object| &object.needed);
    let version = |name: &str| name.strip_prefix(RUNTIME)?.split('.').next()?.parse().ok();
    needed.filter_map(|needed| version(needed.file_name())).collect()
}

fn too_new(facts: &ProgramFacts, runtime: u32) -> Option<Finding> {
    let (major, minor) = facts.cuda?;
    (i64::from(runtime) > i64::from(major)).then(|| {
        let text =
            format!("it uses CUDA {runtime}'s runtime, and the driver supports CUDA {major}.{minor} only");
        Finding::problem("runtime", text).way_out(format!(
            "install a driver for CUDA {runtime}, or build the program with CUDA {major}"
        ))
    })
}

#[cfg(test)]
mod tests {
    use mgb_command::check_result::Severity::{Note, Ok as Fine, Problem};
    use mgb_command::check_result::expect;

    use super::super::facts::samples::{executable, object, program};
    use super::*;

    fn found(facts: &ProgramFacts, executable: &Executable) -> Vec<Finding> {
        check(facts, executable)
    }

    fn real(executable: &Executable) -> Vec<Finding> {
        found(&program(executable.clone()), executable)
    }

    fn soft(executable: &Executable) -> Vec<Finding> {
        let facts = ProgramFacts {
            software: true,
            ..program(executable.clone())
        };
        found(&facts, executable)
    }

    fn runtime(protocol: Option<u32>) -> ObjectFacts {
        ObjectFacts {
            protocol,
            ..object("libmgb_rt.so", &["libc.so.6"])
        }
    }

    fn rebuilt(protocol: Option<u32>) -> Executable {
        let app = object("app", &["libmgb_rt.so", "libcudart.so.13"]);
        Executable {
            tasks: Some((3, 1)),
            ..executable(vec![app, runtime(protocol)])
        }
    }

    #[test]
    fn a_rebuilt_program_says_what_the_pass_found() {
        let found = real(&rebuilt(Some(8)));
        expect(
            &found,
            "way to mgbd",
            Fine,
            &["rebuilt with MGB, 3 tasks, 1 of them lazy", "/lib/libmgb_rt.so"],
        );
        assert_eq!(found.len(), 1);
        let library = object("libkernels.so", &["libmgb_rt-0a1b.so"]);
        let wheel = ObjectFacts {
            protocol: Some(8),
            ..object("libmgb_rt-0a1b.so", &[])
        };
        let app = object("app", &["libkernels.so"]);
        let found = real(&executable(vec![app, library, wheel]));
        expect(&found, "way to mgbd", Fine, &["its library libkernels.so"]);
    }

    #[test]
    fn a_runtime_of_another_version_is_a_problem() {
        expect(
            &real(&rebuilt(Some(7))),
            "way to mgbd",
            Problem,
            &["version 7", "mgbd 8", "natively"],
        );
        expect(
            &real(&rebuilt(None)),
            "way to mgbd",
            Problem,
            &["older version", "LD_LIBRARY_PATH"],
        );
    }

    #[test]
    fn libraries_that_are_missing_are_named() {
        let mut gone = rebuilt(Some(8));
        gone.objects.truncate(1);
        gone.objects[0].needed[0].path = None;
        let found = real(&gone);
        expect(
            &found,
            "libraries",
            Problem,
            &["libmgb_rt.so is not found", "`lib` of MGB"],
        );
        assert!(!found.iter().any(|finding| finding.name == "way to mgbd"));
        let mut plain = executable(vec![object("app", &["libx.so"])]);
        plain.objects[0].needed[0].path = None;
        expect(
            &real(&plain),
            "libraries",
            Problem,
            &["libx.so is not found", "install it"],
        );
    }

    #[test]
    fn a_plain_program_goes_through_the_front() {
        for (object, words) in [
            (object("app", &["libcudart.so.12"]), "libcudart.so.12"),
            (object("app", &["libcuda.so.1"]), "the driver API"),
            (
                ObjectFacts {
                    names_driver: vec!["libcuda.so.1".to_owned()],
                    device_code: true,
                    ..object("app", &[])
                },
                "a CUDA runtime in app",
            ),
        ] {
            let plain = executable(vec![object]);
            expect(
                &real(&plain),
                "way to mgbd",
                Fine,
                &["not rebuilt", words, "front serves it"],
            );
        }
        let none = executable(vec![object("app", &["libc.so.6"])]);
        expect(&real(&none), "way to mgbd", Fine, &["no CUDA is seen"]);
        expect(&soft(&none), "way to mgbd", Fine, &["no CUDA is seen"]);
    }

    #[test]
    fn whose_kernels_launch_kernels_stays_outside_mps() {
        let nested = ObjectFacts {
            launches_kernels: true,
            ..object("libnested.so", &[])
        };
        let both = executable(vec![object("app", &["libcuda.so.1"]), nested]);
        expect(
            &real(&both),
            "MPS",
            Note,
            &["kernels of libnested.so", "outside MPS"],
        );
        let without = executable(vec![object("app", &["libcuda.so.1"])]);
        for findings in [soft(&both), real(&without)] {
            assert!(
                !findings.iter().any(|finding| finding.name == "MPS"),
                "{findings:?}"
            );
        }
    }

    #[test]
    fn software_gpus_run_kernels_of_their_own_only() {
        let nvcc = ObjectFacts {
            device_code: true,
            ..object("app", &["libcudart.so.13"])
        };
        let linked_in = ObjectFacts {
            names_driver: vec!["libcuda.so.1".to_owned()],
            ..object("app", &[])
        };
        for object in [nvcc, linked_in, object("app", &["libcudart.so.12"])] {
            expect(
                &soft(&executable(vec![object])),
                "way to mgbd",
                Note,
                &["software GPUs", "real GPUs"],
            );
        }
        let copies = executable(vec![object("app", &["libcudart.so.13"])]);
        expect(&soft(&copies), "way to mgbd", Fine, &["front serves it"]);
    }

    #[test]
    fn a_runtime_newer_than_the_driver_is_a_problem() {
        let plain = executable(vec![object("app", &["libcudart.so.13"])]);
        let older = ProgramFacts {
            cuda: Some((12, 4)),
            ..program(plain.clone())
        };
        expect(
            &found(&older, &plain),
            "runtime",
            Problem,
            &["CUDA 13's", "CUDA 12.4"],
        );
        let unknown = ProgramFacts { cuda: None, ..older };
        assert!(
            !found(&unknown, &plain)
                .iter()
                .any(|finding| finding.name == "runtime")
        );
    }

    #[test]
    fn what_makes_a_rebuilt_program_open_is_a_note() {
        let mut with_blas = rebuilt(Some(8));
        with_blas.objects.push(object("libcublas.so.13", &[]));
        expect(
            &real(&with_blas),
            "one GPU",
            Note,
            &["libcublas.so.13", "docs/LIMITS.md"],
        );
        let mut with_plain = rebuilt(Some(8));
        with_plain
            .objects
            .push(object("libother.so", &["libcudart.so.13"]));
        expect(&real(&with_plain), "one GPU", Note, &["libother.so"]);
        let mut loads = rebuilt(Some(8));
        loads.objects[0].loads = true;
        expect(&real(&loads), "one GPU", Note, &["app calls dlopen"]);
    }
}
