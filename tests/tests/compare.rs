//! The comparer (`tests/compare`): a folder of two programs, of which one builds and one does not.

use std::fs;
use std::path::Path;
use std::time::Duration;

use mgb_tests::prefix::{prefix, repository};
use mgb_tests::process::{RunningProgram, command};
use serde_json::Value;

const COMPARE_TIMEOUT: Duration = Duration::from_secs(300);

const GOOD: &str = r#"
#include <cstdio>
__global__ void add(int *to) { atomicAdd(to, 1); }
int main() {
    int *sum, result = 0;
    cudaMalloc(&sum, sizeof(int));
    cudaMemset(sum, 0, sizeof(int));
    add<<<2, 32>>>(sum);
    cudaMemcpy(&result, sum, sizeof(int), cudaMemcpyDeviceToHost);
    cudaFree(sum);
    std::printf("sum %d\n", result);
}
"#;

const MAKEFILE: &str =
    "program: program.cu\n\tnvcc -O1 -arch=sm_20 -Xcompiler -Wall $< -o $@\n\nrun: program\n\t./program\n";

fn program(folder: &Path, source: &str) {
    fs::create_dir(folder).expect("a temporary folder can be written");
    fs::write(folder.join("Makefile"), MAKEFILE).expect("a temporary folder can be written");
    fs::write(folder.join("program.cu"), source).expect("a temporary folder can be written");
}

#[test]
fn a_program_that_does_not_build_is_in_the_table_with_the_others() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let suite = folder.path().join("suite");
    fs::create_dir(&suite).expect("a temporary folder can be written");
    program(&suite.join("bad"), "int main() { return undeclared; }\n");
    program(&suite.join("good"), GOOD);
    let json = folder.path().join("out.json");
    let text = |path: &Path| path.to_str().expect("paths of tests are UTF-8").to_owned();
    let script = repository().join("tests/compare/compare.py");
    let arguments = [
        text(&script),
        text(&suite),
        "--run".into(),
        "--json".into(),
        text(&json),
    ];
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let mut compare = command("python3", &arguments);
    let table = RunningProgram::start(
        compare
            .env("MGB_PREFIX", prefix())
            .env("PYTHONDONTWRITEBYTECODE", "1"),
    )
    .end_within(COMPARE_TIMEOUT)
    .success();
    for words in [
        "2 programs: 1 build with the plain compiler, 1 of them with MGB",
        "undeclared",
        "launch sites in own code: 1, static 1 (100.0 %), lazy 0",
        "runs: 1 same",
        "need against the peak seen: 1 equal, 0 above, 0 below",
    ] {
        assert!(table.contains(words), "{words} is not in:\n{table}");
    }
    let all: Value = serde_json::from_slice(&fs::read(&json).expect("it was written")).expect("it is JSON");
    assert_eq!(all["totals"]["both"], 1, "{all}");
    assert_eq!(all["programs"][0]["name"], "bad", "{all}");
    assert_eq!(all["programs"][0]["plain"]["built"], false, "{all}");
}
