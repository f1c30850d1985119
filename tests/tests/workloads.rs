//! The workloads of the evaluation (`benches/workloads`) on software GPUs, at tiny sizes: what
//! `benches/README.md` promises of each of them.

use std::fs;
use std::process::Command;

use mgb_tests::built;
use mgb_tests::node::PrivateNode;
use mgb_tests::prefix::repository;
use mgb_tests::process::RunningProgram;
use mgb_tests::trace;

/// Each program, with a size and options at which a software GPU is done in a moment.
const RUNS: [&[&str]; 12] = [
    &["alignment", "1MiB", "--steps", "2"],
    &["backprop", "2MiB", "--steps", "2"],
    &["boxes", "1MiB", "--steps", "2"],
    &["busy", "1MiB", "--steps", "50", "--blocks", "33", "--chain", "50"],
    &["diffusion_image", "2MiB", "--steps", "2"],
    &["diffusion_region", "2MiB", "--steps", "2"],
    &["nn_detect", "4MiB", "--steps", "2"],
    &["nn_generate", "1MiB", "--steps", "10"],
    &["nn_predict", "4MiB", "--steps", "2"],
    &["nn_train", "2MiB", "--steps", "3"],
    &["search", "1MiB", "--steps", "2"],
    &["wavelet", "2MiB", "--steps", "2"],
];

fn program(name: &str, arguments: &[&str], node: &PrivateNode) -> Command {
    let mut command = node.command(built::workloads().join(name), arguments);
    command.env("SOFTGPU_TIME", "off").env("MGB", "require");
    command
}

fn mib(size: &str) -> u64 {
    size.trim_end_matches("MiB").parse::<u64>().expect("a size") << 20
}

#[test]
fn every_workload_is_there() {
    let mut names: Vec<_> = fs::read_dir(repository().join("benches/workloads"))
        .expect("can be read")
        .map(|entry| entry.expect("can be read").path())
        .filter(|path| path.extension().is_some_and(|e| e == "cu"))
        .map(|path| path.file_stem().expect("a name").to_string_lossy().into_owned())
        .collect();
    names.sort();
    assert_eq!(names, RUNS.map(|run| run[0]));
}

#[test]
fn workloads_are_static_and_need_what_they_were_told() {
    let node = PrivateNode::start("1x64MiB", "mgb");
    for run in RUNS {
        let [name, size, ..] = run else { unreachable!() };
        let file = node.folder().join(format!("{name}.trace"));
        let mut command = program(name, &run[1..], &node);
        let output = RunningProgram::start(command.env("MGB_TRACE", &file))
            .end()
            .success();
        let rest = output.strip_prefix(&format!("{name}: ok, checksum "));
        let digits = rest.unwrap_or_else(|| panic!("{output}")).trim_end();
        assert!(
            digits.len() == 8 && u32::from_str_radix(digits, 16).is_ok(),
            "{output}"
        );

        let processes = trace::read(&file).expect("a trace");
        let [process] = &processes[..] else {
            panic!("{processes:?}")
        };
        let [task] = &process.tasks[..] else {
            panic!("{name}: {:?}", process.tasks)
        };
        assert!(!task.lazy, "{name}");
        assert_eq!(task.need_peak, task.seen_peak, "{name}");
        // Matrices of whole tiles come no nearer to so small a size.
        let told = mib(size);
        assert!(
            task.need_peak <= told && task.need_peak > told / 10 * 8,
            "{name}: {}",
            task.need_peak
        );

        let again = RunningProgram::start(program(name, &run[1..], &node).env("MGB", "off")).end();
        assert_eq!(again.success(), output, "{name} natively");
    }
    node.wait_until_empty();
}

#[test]
fn the_seed_decides_the_result() {
    let node = PrivateNode::start("1x64MiB", "mgb");
    let with = |seed: &str| {
        let arguments = ["1MiB", "--steps", "1", "--seed", seed];
        RunningProgram::start(&mut program("search", &arguments, &node))
            .end()
            .success()
    };
    assert_eq!(with("1"), with("1"));
    assert_ne!(with("1"), with("2"));
}

#[test]
fn a_profile_is_a_line_of_its_own() {
    let node = PrivateNode::start("1x64MiB", "mgb");
    let arguments = ["2MiB", "--steps", "2", "--profile"];
    let output = RunningProgram::start(&mut program("diffusion_region", &arguments, &node))
        .end()
        .success();
    let (profile, result) = output.split_once('\n').expect("two lines");
    assert!(result.starts_with("diffusion_region: ok, "), "{output}");
    let profile: serde_json::Value = serde_json::from_str(profile).expect("JSON");
    assert_eq!(profile["program"], "diffusion_region");
    assert_eq!(profile["bytes"], 2 << 20);
    // The matrix goes in and out in each step: 24 bytes a pixel are taken, 4 of them copied.
    let copied = profile["bytes_in"].as_u64().expect("a number");
    assert_eq!(profile["bytes_out"].as_u64(), Some(copied));
    assert!(copied > (2 << 20) / 6 * 2 * 9 / 10, "{profile}");
    for phase in ["start_s", "host_s", "memory_s", "copies_s", "kernels_s"] {
        assert!(
            profile[phase].as_f64().is_some_and(|s| s > 0.0),
            "{phase}: {profile}"
        );
    }
}

#[test]
fn what_goes_wrong_has_its_exit_code() {
    let node = PrivateNode::start("1x64MiB", "mgb");
    for arguments in [
        &[][..],
        &["many"],
        &["1MiB", "--step", "2"],
        &["1MiB", "--steps"],
        &["1MiB", "--steps", "0"],
        &["64"],
    ] {
        let ended = RunningProgram::start(&mut program("boxes", arguments, &node)).end();
        assert_eq!(ended.code(), 2, "{arguments:?}");
    }
    let ended = RunningProgram::start(program("backprop", &["100MiB"], &node).env("MGB", "off")).end();
    assert_eq!(ended.code(), 3);
    assert!(
        ended
            .stderr
            .contains("cudaMalloc failed: cudaErrorMemoryAllocation"),
        "{}",
        ended.stderr
    );
}
