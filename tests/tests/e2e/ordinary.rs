//! Code without CUDA comes out of the pass as it would without it, bit by bit.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use mgb_tests::prefix::prefix;
use mgb_tests::process::RunningProgram;
use object::{Object, ObjectSymbol, SymbolKind};

const COMPILE_TIMEOUT: Duration = Duration::from_secs(300);

/// Compiles the file at a level, with the pass loaded or without.
fn compiled(source: &Path, level: &str, with_pass: bool, folder: &Path) -> Vec<u8> {
    let output = folder.join("ordinary.o");
    let mut compile = Command::new("clang++-22");
    compile.args(["-std=c++20", "-w", level, "-c"]);
    compile.arg(source).arg("-o").arg(&output);
    if with_pass {
        compile.arg(format!("-fpass-plugin={}/lib/libmgb_pass.so", prefix().display()));
    }
    // Clang alone may take most of a minute where other tests run beside it.
    RunningProgram::start(&mut compile)
        .end_within(COMPILE_TIMEOUT)
        .success();
    std::fs::read(output).expect("the object file can be read")
}

fn functions(object: &[u8]) -> usize {
    let object = object::File::parse(object).expect("an object file");
    let defined = object.symbols().filter(|symbol| symbol.is_definition());
    defined.filter(|symbol| symbol.kind() == SymbolKind::Text).count()
}

#[test]
fn thousands_of_ordinary_functions_stay_as_they_are() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/e2e/ordinary/ordinary.cpp");
    let folder = tempfile::tempdir().expect("a folder");
    for level in ["-O0", "-O2"] {
        let plain = compiled(&source, level, false, folder.path());
        let passed = compiled(&source, level, true, folder.path());
        let count = functions(&plain);
        assert!(count >= 2000, "only {count} functions at {level}");
        assert!(plain == passed, "{level}: the pass changed a file without CUDA");
    }
}
