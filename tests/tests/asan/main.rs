//! The conformance set with AddressSanitizer: programs, their kernels and softgpu are all built with it, and
//! nothing is found; what is planted is.
//!
//! These tests need a softgpu of their own, which `make asan` builds, and are left out elsewhere.

use std::path::Path;
use std::time::Duration;

use mgb_tests::built;
use mgb_tests::conformance::{parse, programs, wrong};
use mgb_tests::node::PrivateNode;
use mgb_tests::prefix::{bin, prefix, repository};
use mgb_tests::process::{Ended, RunningProgram, command, run};

/// A program has up to fifty cases, and each takes a few times as long as without.
const PROGRAM_TIMEOUT: Duration = Duration::from_secs(600);

/// What a report has in it, leaks included.
const REPORT: &str = "Sanitizer";

fn instrumented(node: &PrivateNode, program: &Path, arguments: &[&str]) -> Ended {
    run_within(node, program, arguments, &[])
}

/// Runs a program on softgpu with AddressSanitizer, with more of an environment.
fn run_within(node: &PrivateNode, program: &Path, arguments: &[&str], environment: &[(&str, &str)]) -> Ended {
    let softgpu = prefix().join("asan/softgpu");
    assert!(
        softgpu.join("libcudart.so.13").exists(),
        "no softgpu with AddressSanitizer: run `make asan`"
    );
    let mut command = node.command(program, arguments);
    command
        .env("LD_LIBRARY_PATH", softgpu)
        .env("MGB", "off")
        .env("SOFTGPU_TIME", "off")
        // Else local variables lie elsewhere, and are not in the space that kernels may ask about.
        .env("ASAN_OPTIONS", "detect_stack_use_after_return=0")
        .envs(environment.iter().copied());
    RunningProgram::start(&mut command).end_within(PROGRAM_TIMEOUT)
}

#[test]
#[ignore = "run by make asan, which builds what it needs"]
fn the_conformance_set_is_clean() {
    all_clean(
        "programs, kernels and softgpu",
        &built::conformance_with_asan(),
        None,
    );
}

/// Kernels that are looked at have stacks; here they are what they are otherwise, coroutines among them.
#[test]
#[ignore = "run by make asan, which builds what it needs"]
fn softgpu_is_clean_under_programs_as_they_are() {
    // Of the clang that the wrapper uses.
    let ask = ["-print-file-name=libclang_rt.asan-x86_64.so"];
    let runtime = run(&mut command(bin("mgb-clang"), &ask)).success();
    all_clean("softgpu alone", &built::conformance(), Some(runtime.trim()));
}

/// Programs without AddressSanitizer bring the runtime by `preload`.
fn all_clean(what: &str, folder: &Path, preload: Option<&str>) {
    let node = PrivateNode::without_mgbd("1x2GiB");
    let (mut clean, mut unclean) = (0, Vec::new());
    for program in programs() {
        let preloaded = preload.map(|runtime| ("LD_PRELOAD", runtime));
        let environment: Vec<_> = preloaded.into_iter().chain(program.model()).collect();
        let ended = run_within(&node, &folder.join(&program.name), &[], &environment);
        if ended.stderr.contains(REPORT) {
            unclean.push(format!("{}:\n{}", program.name, ended.stderr));
            continue;
        }
        let found = parse(&ended.success());
        let wrong = wrong(&program, &found);
        clean += found.len().saturating_sub(wrong.len());
        unclean.extend(wrong);
    }
    eprintln!("{clean} cases ran clean, AddressSanitizer in {what}");
    assert!(unclean.is_empty(), "{}", unclean.join("\n"));
}

#[test]
#[ignore = "run by make asan, which builds what it needs"]
fn what_is_planted_is_found() {
    let node = PrivateNode::without_mgbd("1x64MiB");
    let program = node.folder().join("plants");
    let mut compile = node.command(bin("mgb-clang++"), &["--offload-arch=sm_90"]);
    compile.args(built::ASAN.split(' '));
    let source = repository().join("tests/tests/asan/plants.cu");
    run(compile.arg(source).arg("-o").arg(&program)).success();
    let ended = instrumented(&node, &program, &["nothing"]);
    assert_eq!(ended.stderr, "");
    assert_eq!(ended.success(), "cudaSuccess\n");
    let plants = [
        (
            "local array",
            "stack-buffer-overflow",
            "softgpu.entry._Z11local_array",
        ),
        ("loop", "stack-buffer-overflow", "softgpu.entry._Z4loop"),
        ("copy", "heap-buffer-overflow", "softgpu::transfer"),
    ];
    for (plant, kind, place) in plants {
        instrumented(&node, &program, &[plant]).failure(&["AddressSanitizer", kind, place]);
    }
}
