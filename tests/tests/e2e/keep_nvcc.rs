//! `mgb nvcc --keep-nvcc`: NVIDIA's own nvcc with `mgb-clang++` as its host compiler. What it builds has
//! tasks as clang's programs have; software GPUs, which run host code of clang's making, say that they cannot
//! run it.

use std::fs;
use std::path::Path;
use std::process::Command;

use mgb_tests::node::PrivateNode;
use mgb_tests::prefix::{bin, prefix, repository};
use mgb_tests::process::{Ended, command, run};

use crate::wrapper::check_program;

/// A device function and a variable of another file: nvcc links device code.
const LINKED: &str = "\
__device__ int offset = 3;
__device__ int half(int value) { return value / 2 + offset; }
";

const APP: &str = "\
#include <cstdio>
extern __device__ int half(int);
template <class T> __global__ void halve(T *values, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) values[i] = half(values[i]);
}
__global__ void add(int *values, int n, int x) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) values[i] += x;
}
int main(int argc, char **) {
  int n = argc * 1000, *values;
  cudaMalloc(&values, n * sizeof *values);
  cudaMemset(values, 0, n * sizeof *values);
  halve<int><<<(n + 255) / 256, 256>>>(values, n);
  add<<<(n + 255) / 256, 256>>>(values, n, 7);
  cudaFree(values);
  std::puts(cudaGetErrorString(cudaGetLastError()));
}
";

/// The command in the node's folder; `words` are separated by blanks.
fn nvcc(node: &PrivateNode, words: &str) -> Command {
    let mut command = node.command(bin("mgb-nvcc"), &["--keep-nvcc", "-arch=sm_90"]);
    command.current_dir(node.folder()).args(words.split(' '));
    command
}

pub fn explained(file: &Path) -> String {
    run(command(bin("mgb"), &["explain"]).arg(file)).success()
}

fn node() -> PrivateNode {
    let nvcc = prefix().join("cuda/bin/nvcc");
    assert!(nvcc.is_file(), "{} is missing: run `make setup`", nvcc.display());
    let node = PrivateNode::start("1x64MiB", "mgb");
    node.write("app.cu", APP);
    node.write("linked.cu", LINKED);
    node.write("host.c", "int c_code(void) { int class = 1; return class; }\n");
    node
}

/// What a software GPU makes of a program that holds no host code for its kernels: an error by name, and no
/// crash.
fn check_refusal(ended: Ended) {
    assert!(
        ended.status.code().is_some(),
        "ended by a signal: {}",
        ended.stderr
    );
    assert!(ended.stderr.contains("has no host code"), "{}", ended.stderr);
    assert!(ended.stdout.contains("function"), "{}", ended.stdout);
}

#[test]
fn tasks_are_static_and_device_code_is_linked_across_files() {
    let node = node();
    run(&mut nvcc(&node, "-O2 -rdc=true app.cu linked.cu host.c -o app")).success();
    let program = node.folder().join("app");
    check_program(&program);
    let text = explained(&program);
    assert!(text.contains("app.cu: 1 task (1 static, 0 lazy)"), "{text}");
    assert!(text.contains("launch void halve<int>(int*, int)  [#1]"), "{text}");
    assert!(
        text.contains("line 16 launch add(int*, int, int)  [#1]"),
        "{text}"
    );
    // The kernel calls a function of the other file.
    assert!(text.contains("may use device variables of other files"), "{text}");
    check_refusal(run(&mut node.command(&program, &[])));
}

#[test]
fn under_make_with_the_steps_apart() {
    let node = node();
    let makefile = "\
app: app.o linked.o host.o
\t$(NVCC) -arch=sm_90 -dlink app.o linked.o -o device.o
\t$(CXX) $^ device.o -o $@ -lcudadevrt -lcudart_static -L$(CUDA)/lib64
%.o: %.cu
\t$(NVCC) -arch=sm_90 -O3 -std=c++17 -ccbin g++ --cudart=static -Xcompiler -fPIC,-Wall,-Werror,-fno-gnu-unique -dc $< -o $@
";
    node.write("Makefile", makefile);
    let mut make = node.command("make", &["MGB_KEEP_NVCC=1"]);
    make.env("MGB_KEEP_NVCC", "1").current_dir(node.folder());
    make.arg(format!("NVCC={}", bin("mgb-nvcc").display()));
    make.arg(format!("CXX={}", bin("mgb-clang++").display()));
    make.arg(format!("CUDA={}", prefix().join("cuda").display()));
    let ended = run(&mut make);
    assert_eq!(ended.stderr, "", "a build without warnings");
    ended.success();
    check_program(&node.folder().join("app"));
    check_refusal(run(&mut node.command(node.folder().join("app"), &[])));
}

#[test]
fn every_step_is_nvccs_own() {
    let node = node();
    let made = |name: &str| fs::read(node.folder().join(name)).expect("the output is there");
    let vecadd = repository().join("examples/vecadd.cu");
    let vecadd = vecadd.to_str().expect("paths of tests are UTF-8");
    let step = |words: &str| run(&mut nvcc(&node, &words.replace("vecadd.cu", vecadd))).success();
    step("-c vecadd.cu -o vecadd.o");
    assert!(explained(&node.folder().join("vecadd.o")).contains("vecadd.cu: 1 task (1 static, 0 lazy)"));
    step("vecadd.o -o vecadd");
    check_program(&node.folder().join("vecadd"));
    assert!(step("-E vecadd.cu").contains("void add("));
    assert!(step("-M vecadd.cu").contains("common.h"));
    step("-MD -MF vecadd.d -c vecadd.cu -o vecadd.o");
    assert!(String::from_utf8_lossy(&made("vecadd.d")).contains("common.h"));
    step("-ptx vecadd.cu -o vecadd.ptx");
    assert!(String::from_utf8_lossy(&made("vecadd.ptx")).contains(".target sm_90"));
    step("-cubin vecadd.cu -o machine.code");
    assert!(made("machine.code").starts_with(b"\x7fELF"));
    step("-lib vecadd.cu -o libvecadd.a");
    assert!(made("libvecadd.a").starts_with(b"!<arch>"));
    let dry = run(&mut nvcc(&node, "--dryrun app.cu"));
    assert!(
        dry.stderr.contains("cudafe++") && dry.stderr.contains("mgb-clang++"),
        "{}",
        dry.stderr
    );
    assert!(step("--version").contains("NVIDIA"));
    nvcc_fails(&node, "-c no_such.cu", &["no_such.cu"]);
    nvcc_fails(&node, "--no-such-option app.cu", &["no-such-option"]);
}

fn nvcc_fails(node: &PrivateNode, words: &str, fragments: &[&str]) {
    run(&mut nvcc(node, words)).failure(fragments);
}

#[test]
fn an_nvcc_that_is_none_is_named() {
    let node = node();
    let mut itself = nvcc(&node, "app.cu");
    run(itself.env("MGB_NVCC", bin("mgb-nvcc"))).failure(&["MGB_NVCC=", "is not NVIDIA's nvcc"]);
    let mut other = nvcc(&node, "app.cu");
    run(other.env("MGB_NVCC", "/bin/true")).failure(&["/bin/true belongs to no toolkit"]);
}

/// Host code reaches a managed variable before any kernel is launched.
#[test]
fn managed_variables_are_refused_by_software_gpus_by_name() {
    let node = node();
    node.write(
        "managed.cu",
        "#include <cstdio>\n__managed__ int both[4] = {1, 2, 3, 4};\n\
         __global__ void work(int *x) { x[0] += both[1]; }\n\
         int main() {\n  both[2] = 5;\n  work<<<1, 1>>>(both);\n\
           std::printf(\"%d %s\\n\", both[2], cudaGetErrorString(cudaGetLastError()));\n}\n",
    );
    run(&mut nvcc(&node, "managed.cu -o managed")).success();
    let ended = run(&mut node.command(node.folder().join("managed"), &[]));
    assert!(ended.stderr.contains("managed variable both"), "{}", ended.stderr);
    assert!(ended.stdout.starts_with("5 "), "{}", ended.stdout);
    check_refusal(ended);
}
