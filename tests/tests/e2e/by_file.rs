//! `mgb nvcc` where clang does not take a source and NVIDIA's nvcc does: that source goes to nvcc, all others
//! to clang, and what comes of both links into one program.

use std::process::Command;

use mgb_tests::node::PrivateNode;
use mgb_tests::prefix::{bin, prefix};
use mgb_tests::process::run;

use crate::keep_nvcc::explained;
use crate::wrapper::check_program;

/// Braces that a macro puts into a launch, which are no expression to clang, and no text that `mgb nvcc` sees.
const DIALECT: &str = "\
__global__ void add(int *values, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) values[i] += 1;
}
#define GRID {4, 1, 1}
int dialect() {
  int n = 1024, *values; if (cudaMalloc(&values, n * sizeof *values) != cudaSuccess) return 1;
  add<<<GRID, 256>>>(values, n);
  cudaFree(values);
  return cudaGetLastError() != cudaSuccess;
}
";
const PLAIN: &str = "\
#include <cstdio>
#ifdef CALLS
int dialect();
#else
int dialect() { return 0; }
#endif
__global__ void twice(int *value) { *value *= 2; }
int main() {
  int *value;
  if (cudaMalloc(&value, sizeof *value) != cudaSuccess) return 1;
  twice<<<1, 1>>>(value);
  cudaFree(value);
  puts(\"plain\");
  return dialect();
}
";
const BY_NVCC: &str = "mgb nvcc: dialect.cu: compiled by NVIDIA's nvcc";
const WHY: &str = ": clang does not take it (dialect.cu:8:9: error: expected expression)\n";

fn node() -> PrivateNode {
    let node = PrivateNode::start("1x64MiB", "mgb");
    node.write("dialect.cu", DIALECT);
    node.write("plain.cu", PLAIN);
    node
}

/// `words` are separated by blanks.
fn nvcc(node: &PrivateNode, words: &str) -> Command {
    let mut command = node.command(bin("mgb-nvcc"), &["-arch=sm_90", "-O2"]);
    command.current_dir(node.folder()).args(words.split(' '));
    command
}

#[test]
fn a_source_that_only_nvcc_takes_goes_to_nvcc() {
    let node = node();
    let said = |words: &str| {
        let ended = run(&mut nvcc(&node, words));
        assert_eq!(ended.code(), 0, "{ended:?}");
        ended.stderr
    };
    assert_eq!(said("-c dialect.cu -o dialect.o"), format!("{BY_NVCC}{WHY}"));
    assert_eq!(said("-c plain.cu -DCALLS"), "");
    assert_eq!(said("dialect.o plain.o -o app"), "");
    let text = explained(&node.folder().join("app"));
    assert!(
        text.contains("dialect.cu: 1 task (1 static, 0 lazy)")
            && text.matches("movable nothing").count() == 2,
        "{text}"
    );
    check_program(&node.folder().join("app"));
    // Software GPUs run clang's kernels, and name those that they cannot run.
    let ended = run(&mut node.command(node.folder().join("app"), &[]));
    assert_eq!((ended.code(), ended.stdout.as_str()), (1, "plain\n"), "{ended:?}");
    assert!(ended.stderr.contains("has no host code"), "{ended:?}");

    // It is decided for as long as the source stays as it is.
    assert_eq!(
        said("-c dialect.cu -o dialect.o"),
        format!("{BY_NVCC}, as before\n")
    );
    assert_eq!(said("-DX -c dialect.cu -o dialect.o"), format!("{BY_NVCC}{WHY}"));
    node.write("dialect.cu", &DIALECT.replace("{4, 1, 1}", "4"));
    assert_eq!(said("-c dialect.cu -o dialect.o"), "");
    assert!(!node.folder().join("dialect.o.by-nvcc").exists());
    said("dialect.o plain.o -o app");
    let ended = run(&mut node.command(node.folder().join("app"), &[]));
    assert_eq!(ended.success(), "plain\n");
}

#[test]
fn in_one_step_with_the_link() {
    let node = node();
    // With words that only the link has a use for, and one that a shell would read.
    let words = "-DCALLS dialect.cu plain.cu -Xcompiler -DNAME=\\\"x\\\" -Xlinker -rpath,/nowhere -lm -o app";
    let ended = run(&mut nvcc(&node, words));
    assert_eq!((ended.code(), ended.stderr), (0, format!("{BY_NVCC}{WHY}")));
    let text = explained(&node.folder().join("app"));
    assert!(
        text.contains("dialect.cu: 1 task") && text.contains("plain.cu: 1 task"),
        "{text}"
    );
    let left: Vec<_> = std::fs::read_dir(node.folder())
        .expect("can be read")
        .flatten()
        .filter(|entry| {
            entry
                .path()
                .extension()
                .is_some_and(|e| e == "o" || e == "by-nvcc")
        })
        .collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn what_neither_takes_is_clangs_error() {
    let node = node();
    node.write("wrong.cu", "int x = y;\n");
    let text =
        run(&mut nvcc(&node, "-c wrong.cu")).failure(&["wrong.cu:1:9: error: use of undeclared", "either"]);
    assert_eq!(text.matches("error").count(), 2, "clang's, and its count: {text}");
    // A missing function of the host is the link's error, said once.
    let text = run(&mut nvcc(&node, "plain.cu -DCALLS -o app")).failure(&["dialect()"]);
    assert_eq!(text.matches("undefined reference").count(), 1, "{text}");
}

#[test]
fn without_nvcc_it_is_said_what_is_missing() {
    let node = node();
    let mut off = nvcc(&node, "-c dialect.cu");
    let text = run(off.env("MGB_KEEP_NVCC", "0")).failure(&["expected expression"]);
    assert!(!text.contains("nvcc"), "{text}");
    let mut none = nvcc(&node, "-c dialect.cu");
    none.env("MGB_NVCC", prefix().join("no such nvcc"));
    run(&mut none).failure(&["expected expression", "NVIDIA's nvcc may", "MGB_NVCC="]);
    assert!(!node.folder().join("dialect.o").exists());
}
