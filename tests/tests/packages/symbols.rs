//! What a release needs of a system: nothing later than glibc 2.34.

use std::fs;

use mgb_tests::prefix::{prefix, repository};
use mgb_tests::process::{Ended, command, run};

fn check(folder: &std::path::Path) -> Ended {
    run(command(repository().join("tools/symbols.sh"), &[]).arg(folder))
}

#[test]
fn nothing_needs_a_later_glibc() {
    let root = tempfile::tempdir().unwrap();
    let mut layout = command(repository().join("tools/layout.sh"), &[]);
    layout.arg(prefix()).arg(root.path());
    run(layout.args(["/usr", "run", "clang", "slurm"])).success();
    let said = check(root.path()).success();
    // mgb, mgbd, the pass, the runtime, the front, software GPUs and their BLAS, Slurm's plugin.
    assert!(said.contains("symbols: 8 files"), "{said}");
}

#[test]
fn a_program_that_needs_a_later_one_is_named_with_its_symbol() {
    let folder = tempfile::tempdir().unwrap();
    check(folder.path()).failure(&["holds no program or library"]);
    // A library of a later glibc, as one that is linked on a later system needs it.
    let (map, library) = (folder.path().join("map"), folder.path().join("libc.so"));
    fs::write(&map, "GLIBC_2.99 { global: later; };\n").unwrap();
    let source = folder.path().join("part.c");
    fs::write(&source, "int later(void) { return 0; }\n").unwrap();
    let mut cc = command("cc", &["-shared", "-fPIC", "-o"]);
    cc.arg(&library).arg(&source);
    run(cc.arg(format!("-Wl,--version-script={}", map.display()))).success();
    fs::write(&source, "int later(void);\nint main(void) { return later(); }\n").unwrap();
    let programs = folder.path().join("programs");
    fs::create_dir(&programs).unwrap();
    let mut cc = command("cc", &["-o"]);
    run(cc.arg(programs.join("a program")).arg(&source).arg(&library)).success();
    check(&programs).failure(&["a program needs later of GLIBC 2.99", "build on Debian 12"]);
}
