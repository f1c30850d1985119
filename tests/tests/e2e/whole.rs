//! Programs of several files with `-flto`: the pass runs in the linker and sees them all.

use std::path::{Path, PathBuf};
use std::process::Command;

use mgb_tests::node::PrivateNode;
use mgb_tests::prefix::{bin, prefix};
use mgb_tests::process::run;
use mgb_tests::report;

use crate::wrapper::check_program;

fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/e2e/whole")
}

/// The program made in a fresh folder of the node, with these flags for compiles and for the link.
fn made(node: &PrivateNode, compile: &str, link: &str, more: &[&str]) -> PathBuf {
    let folder = node.folder().join(format!("made{}", compile.replace(' ', "")));
    std::fs::create_dir(&folder).expect("a fresh folder");
    let mut make = Command::new("make");
    make.arg("-C")
        .arg(&folder)
        .arg("-f")
        .arg(sources().join("Makefile"));
    make.arg(format!("SOURCES={}", sources().display()));
    make.arg(format!("CXX={}", bin("mgb-clang++").display()));
    make.arg(format!("CXXFLAGS={compile}"))
        .arg(format!("LDFLAGS={link}"));
    make.args(more).args(["-j2", "--no-print-directory"]);
    for variable in ["MAKEFLAGS", "MAKELEVEL", "MFLAGS"] {
        make.env_remove(variable);
    }
    run(make.env("MGB_CUDA_ARCH", "sm_90")).success();
    folder.join("whole")
}

/// The source, kind and peak of each task.
fn tasks(program: &Path) -> Vec<(String, String, Option<String>)> {
    let modules = report::read(program).expect("the program has a report");
    let of = |module: report::ModuleReport| {
        let source = module.source;
        module
            .tasks
            .into_iter()
            .map(move |task| (source.clone(), task.kind, task.need.peak))
    };
    modules.into_iter().flat_map(of).collect()
}

fn count(program: &Path, kind: &str) -> usize {
    tasks(program).iter().filter(|(_, one, _)| one == kind).count()
}

#[track_caller]
fn check(node: &PrivateNode, program: &Path) {
    check_program(program);
    assert_eq!(run(&mut node.command(program, &["1000"])).success(), "PASS\n");
}

#[test]
fn files_become_one_program_under_make() {
    let node = PrivateNode::start("2x64MiB", "mgb");
    let apart = made(&node, "-O2", "", &[]);
    assert_eq!(count(&apart, "static"), 0, "{:?}", tasks(&apart));
    check(&node, &apart);
    for level in ["-O0 -g -flto", "-O2 -flto"] {
        let whole = made(&node, level, "-O2 -flto", &[]);
        let found = tasks(&whole);
        // fields' task and folds', of main.cpp alone, whose inlined ops are in the other files.
        assert!(count(&whole, "static") >= 2, "{level}: {found:?}");
        assert!(
            found.iter().all(|(source, ..)| source.ends_with("main.cpp")),
            "{level}: {found:?}"
        );
        check(&node, &whole);
    }
}

#[test]
fn files_become_one_program_under_cmake() {
    let node = PrivateNode::start("2x64MiB", "mgb");
    let build = node.folder().join("cmake");
    let mut configure = node.command(
        "cmake",
        &["-DCMAKE_CUDA_ARCHITECTURES=90", "-DCMAKE_BUILD_TYPE=Release"],
    );
    configure.arg("-DCMAKE_CUDA_FLAGS=--offload-arch=sm_90 -flto");
    configure.arg("-DCMAKE_CXX_FLAGS=-flto");
    // CMake takes the first llvm-ar that it finds, perhaps of an LLVM that cannot read the objects.
    configure.args([
        "-DCMAKE_AR=/usr/lib/llvm-22/bin/llvm-ar",
        "-DCMAKE_RANLIB=/usr/lib/llvm-22/bin/llvm-ranlib",
    ]);
    configure.arg(format!("-DCUDAToolkit_ROOT={}", prefix().join("cuda").display()));
    configure.arg("-S").arg(sources()).arg("-B").arg(&build);
    configure.arg(format!("-DCMAKE_CUDA_COMPILER={}", bin("mgb-clang++").display()));
    configure.arg(format!("-DCMAKE_CXX_COMPILER={}", bin("mgb-clang++").display()));
    run(&mut configure).success();
    run(node.command("cmake", &["--build"]).arg(&build)).success();
    let program = build.join("whole");
    assert!(count(&program, "static") >= 2, "{:?}", tasks(&program));
    check(&node, &program);
}

#[test]
fn explain_names_the_file_of_each_line() {
    let node = PrivateNode::start("2x64MiB", "mgb");
    let program = made(&node, "-O1 -flto", "-flto", &[]);
    let explain = |file: &Path| node.mgb(&["explain", file.to_str().expect("paths of tests are UTF-8")]);
    let shown = run(&mut explain(&program)).success();
    for part in ["memory.cpp:7 ", "fold.cu:15 ", "field.cu:28 ", "4 * n bytes"] {
        assert!(shown.contains(part), "no {part}:\n{shown}");
    }
    let object = program.with_file_name("fold.o");
    run(&mut explain(&object)).failure(&["fold.o", "-flto"]);
}

#[test]
fn files_of_either_kind_are_linked_together() {
    let node = PrivateNode::start("2x64MiB", "mgb");
    let program = made(&node, "-O2 -flto", "-flto", &["CPP_FLAGS=-fno-lto"]);
    // main.cpp sees nothing of the others, and they nothing of it.
    assert_eq!(count(&program, "static"), 0, "{:?}", tasks(&program));
    check(&node, &program);
    let thin = made(&node, "-O2 -flto=thin", "-fuse-ld=lld -flto=thin", &[]);
    assert_eq!(count(&thin, "static"), 0, "{:?}", tasks(&thin));
    check(&node, &thin);
}

#[test]
fn shared_libraries_and_partial_links_are_whole_for_themselves() {
    let node = PrivateNode::start("2x64MiB", "mgb");
    let first = made(&node, "-O2 -fPIC -flto", "-flto", &[]);
    let folder = first.parent().expect("is in a folder");
    let clang = |words: &[&str]| {
        let mut clang = node.command(bin("mgb-clang++"), words);
        run(clang.current_dir(folder)).success();
    };
    clang(&[
        "-flto",
        "-shared",
        "field.o",
        "fold.o",
        "memory.o",
        "-o",
        "libparts.so",
    ]);
    clang(&[
        "-flto",
        "main.o",
        "-L.",
        "-l:libparts.so",
        "-Wl,-rpath,$ORIGIN",
        "-o",
        "shared",
    ]);
    let ended = run(&mut node.command(folder.join("shared"), &["1000"]));
    assert_eq!(ended.success(), "PASS\n");
    clang(&["-flto", "-r", "field.o", "fold.o", "memory.o", "-o", "parts.o"]);
    clang(&["-flto", "main.o", "parts.o", "-o", "partial"]);
    check(&node, &folder.join("partial"));
}

#[test]
fn only_lld_links_what_is_left_to_the_link() {
    let node = PrivateNode::without_mgbd("1x64MiB");
    let source = node.write(
        "one.cu",
        "#include <cuda_runtime.h>\nint main() { return cudaFree(nullptr); }\n",
    );
    let object = node.folder().join("one.o");
    let mut compile = node.command(bin("mgb-clang++"), &["--offload-arch=sm_90", "-flto", "-c"]);
    run(compile.arg(&source).arg("-o").arg(&object)).success();
    let program = node.folder().join("one");
    let mut link = node.command(bin("mgb-clang++"), &["-o"]);
    run(link.arg(&program).arg(&object)).success();
    check_program(&program);
    let mut link = node.command(bin("mgb-clang++"), &["-fuse-ld=bfd", "-o", "/dev/null"]);
    run(link.arg(&object)).failure(&["-fuse-ld=bfd", "only lld"]);
}
