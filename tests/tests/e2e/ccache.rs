//! ccache in front of the wrappers: what it gives back is the whole object, report, host kernels and all, and
//! a new pass makes new objects.

use std::fs;
use std::path::Path;

use mgb_tests::node::PrivateNode;
use mgb_tests::prefix::{bin, prefix, repository};
use mgb_tests::process::{command, run};

use crate::wrapper::{check_output, check_program};

/// Compiles vecadd by `compiler`, with ccache before it; gives whether ccache had it.
fn is_hit(node: &PrivateNode, compiler: &Path, options: &[&str], object: &str) -> bool {
    let ccache = |arguments: &[&str]| {
        let mut command = node.command("ccache", arguments);
        command.env("CCACHE_DIR", node.folder().join("cache"));
        command
    };
    run(&mut ccache(&["--zero-stats"])).success();
    let mut compile = ccache(&[]);
    compile.arg(compiler).args(options).arg("-c");
    compile.arg(repository().join("examples/vecadd.cu"));
    run(compile.arg("-o").arg(node.folder().join(object))).success();
    let stats = run(&mut ccache(&["--print-stats"])).success();
    let count = |name: &str| {
        let line = stats.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|number| number.trim().parse::<u32>().ok())
            .unwrap_or(0)
    };
    let hits = count("direct_cache_hit") + count("preprocessed_cache_hit");
    assert_eq!(hits + count("cache_miss"), 1, "ccache took the compile: {stats}");
    hits == 1
}

#[test]
fn a_second_build_is_the_first_one_again() {
    let node = PrivateNode::start("1x64MiB", "mgb");
    for (wrapper, options) in [
        ("mgb-clang++", ["--offload-arch=sm_90", "-O1"]),
        ("mgb-nvcc", ["-arch=sm_90", "-O1"]),
    ] {
        assert!(!is_hit(&node, &bin(wrapper), &options, "first.o"), "{wrapper}");
        assert!(is_hit(&node, &bin(wrapper), &options, "second.o"), "{wrapper}");
        let read = |name: &str| fs::read(node.folder().join(name)).expect("the object is there");
        assert!(read("first.o") == read("second.o"), "{wrapper}");
        let program = node.folder().join("vecadd");
        let mut link = node.command(bin(wrapper), &[]);
        run(link.arg(node.folder().join("second.o")).arg("-o").arg(&program)).success();
        check_program(&program);
        check_output(&node, &program);
        let report = run(command(bin("mgb"), &["explain"]).arg(&program)).success();
        assert!(report.contains("1 task (1 static, 0 lazy)"), "{report}");
    }
}

/// ccache knows a compiler by its size and time. `tools/stage.sh` gives the wrapper a new time with a new
/// pass.
#[test]
fn a_new_pass_is_a_new_compiler() {
    let node = PrivateNode::without_mgbd("1x64MiB");
    let copy = node.folder().join("prefix");
    fs::create_dir_all(copy.join("bin")).expect("a folder can be made");
    for part in ["lib", "include", "share", "cuda"] {
        std::os::unix::fs::symlink(prefix().join(part), copy.join(part)).expect("a link can be made");
    }
    let mgb = copy.join("bin/mgb");
    // By a program of its own: what this process has open for writing, tests beside this one hand to their
    // children.
    run(command("cp", &["-p"]).arg(bin("mgb")).arg(&mgb)).success();
    let wrapper = copy.join("bin/mgb-clang++");
    std::os::unix::fs::symlink("mgb", &wrapper).expect("a link can be made");
    let options = ["--offload-arch=sm_90", "-O1"];
    assert!(!is_hit(&node, &wrapper, &options, "first.o"));
    assert!(is_hit(&node, &wrapper, &options, "second.o"));
    run(command("touch", &[]).arg(&mgb)).success();
    assert!(!is_hit(&node, &wrapper, &options, "third.o"));
}
