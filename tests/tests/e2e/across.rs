//! Device code that is linked across files (`-fgpu-rdc`): functions and variables of other files, in objects,
//! archives and shared libraries. Programs run as their kernels are linked, and what is missing is an error
//! of the link.

use std::process::Command;

use mgb_tests::node::PrivateNode;
use mgb_tests::prefix::{bin, prefix};
use mgb_tests::process::run;

/// Kernels that need another file's function and variables; a private one of a name that both files have.
const APP: &str = "\
#include <cstdio>
extern __device__ int scale(int);
extern __device__ int total;
extern __constant__ int base[2];
static __global__ void fill(int *x) { x[threadIdx.x] = 1; }
__global__ void work(int *x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) {
    x[i] = scale(i) + base[i % 2];
    atomicAdd(&total, 1);
  }
}
int finish(int *x);
int main() {
  const int n = 1000, constants[2] = {5, 6};
  int *x, *y, host[n], count = -1;
  if (cudaMalloc(&x, n * sizeof *x) || cudaMalloc(&y, 32 * sizeof *y)) return 1;
  if (cudaMemcpyToSymbol(base, constants, sizeof constants)) return 2;
  work<<<8, 128>>>(x, n);
  fill<<<1, 32>>>(y);
  if (cudaMemcpy(host, x, sizeof host, cudaMemcpyDeviceToHost)) return 3;
  for (int i = 0; i < n; i++)
    if (host[i] != 3 * i + 1 + constants[i % 2]) return 4;
  if (cudaMemcpy(host, y, 32 * sizeof *y, cudaMemcpyDeviceToHost) || host[31] != 1) return 5;
  if (cudaMemcpyFromSymbol(&count, total, sizeof count) || count != n) return 6;
  if (finish(y)) return 7;
  std::puts(\"PASS\");
}
";
const PARTS: &str = "\
__device__ int total;
__constant__ int base[2];
typedef int (*function)(int);
__device__ int thrice(int x) { return 3 * x; }
__device__ function table[1] = {thrice};
__device__ int scale(int x) { return table[0](x) + 1; }
static __global__ void fill(int *x) { x[threadIdx.x] = total; }
int finish(int *x) {
  int host[32];
  fill<<<1, 32>>>(x);
  return cudaMemcpy(host, x, sizeof host, cudaMemcpyDeviceToHost) || host[31] != 1000;
}
";
/// Another file of an archive, which nothing needs, and which needs what nobody has.
const SPARE: &str =
    "extern __device__ int nowhere(int);\n__device__ int spare(int x) { return nowhere(x); }\n";

/// A node with the sources, and what runs commands of clang in its folder.
fn node() -> PrivateNode {
    let node = PrivateNode::start("2x64MiB", "mgb");
    for (name, text) in [("app.cu", APP), ("parts.cu", PARTS), ("spare.cu", SPARE)] {
        node.write(name, text);
    }
    node
}

fn clang(node: &PrivateNode, words: &str) -> Command {
    let mut command = node.command(bin("mgb-clang++"), &["--offload-arch=sm_90"]);
    command.current_dir(node.folder()).args(words.split(' '));
    command
}

fn passes(node: &PrivateNode, program: &str) {
    let program = node.folder().join(program);
    let native = run(node.command(&program, &[]).env("MGB", "off"));
    let ended = run(node.command(&program, &[]).env("MGB", "require"));
    for ended in [native, ended] {
        assert_eq!(
            (ended.code(), ended.stdout.as_str()),
            (0, "PASS\n"),
            "{program:?}: {ended:?}"
        );
    }
}

#[test]
fn device_code_is_linked_across_files() {
    let node = node();
    run(&mut clang(&node, "-O2 -fgpu-rdc app.cu parts.cu -o together")).success();
    for file in ["app", "parts", "spare"] {
        run(&mut clang(&node, &format!("-O1 -fPIC -fgpu-rdc -c {file}.cu"))).success();
    }
    let archive = |name: &str, files: &[&str]| {
        let mut command = Command::new("ar");
        run(command.current_dir(node.folder()).args(["rcs", name]).args(files)).success();
    };
    archive("libparts.a", &["parts.o", "spare.o"]);
    run(&mut clang(&node, "app.o parts.o -o objects")).success();
    run(&mut clang(&node, "app.o libparts.a -o archive")).success();
    run(&mut clang(&node, "app.o -L . -lparts -o named")).success();
    run(&mut clang(&node, "-shared -fPIC app.o parts.o -o libapp.so")).success();
    let mut alone = Command::new("c++");
    alone
        .current_dir(node.folder())
        .args(["-shared", "app.o", "parts.o", "-o", "lacks.so"]);
    run(&mut alone).failure(&["mgb_device_code_is_not_linked"]);
    node.write("none.cpp", "");
    run(&mut clang(
        &node,
        "-Wno-unused-command-line-argument none.cpp -L. -lapp -Wl,-rpath,. -o shared",
    ))
    .success();
    // Bitcode, which only clang can read.
    run(&mut clang(&node, "-O2 -flto -fgpu-rdc app.cu parts.cu -o whole")).success();
    for file in ["app", "parts"] {
        run(&mut clang(
            &node,
            &format!("-O1 -flto -fgpu-rdc -c {file}.cu -o {file}-whole.o"),
        ))
        .success();
    }
    archive("libwhole.a", &["parts-whole.o", "spare.o"]);
    run(&mut clang(
        &node,
        "-flto app-whole.o -L . -lwhole -o whole-archive",
    ))
    .success();
    for program in [
        "together",
        "objects",
        "archive",
        "named",
        "whole",
        "whole-archive",
    ] {
        passes(&node, program);
    }
    let shared = run(node
        .command(node.folder().join("shared"), &[])
        .current_dir(node.folder()));
    assert_eq!(
        (shared.code(), shared.stdout.as_str()),
        (0, "PASS\n"),
        "{shared:?}"
    );
    node.wait_until_empty();
}

/// nvcc's command lines: the link of device code as a step of its own, or within the link.
#[test]
fn nvcc_links_device_code_in_its_ways() {
    let node = node();
    let nvcc = |words: &str| {
        let mut command = node.command(bin("mgb-nvcc"), &["-arch=sm_90"]);
        let ended = run(command.current_dir(node.folder()).args(words.split(' ')));
        assert_eq!(ended.stderr, "", "{words}");
        ended.success();
    };
    nvcc("-O2 -rdc=true app.cu parts.cu -o together");
    nvcc("-O2 -dc app.cu parts.cu spare.cu");
    nvcc("app.o parts.o -o objects -lcudadevrt");
    nvcc("-dlink app.o parts.o -o device.o -lcudadevrt");
    nvcc("app.o parts.o device.o -o steps -lcudadevrt");
    nvcc("-lib parts.o spare.o -o libparts.a");
    nvcc("-dlink app.o -L. -lparts -o named.o");
    nvcc("app.o named.o -L. -lparts -o named");
    // Any linker takes what -dlink made, and none links without.
    let plain = |words: &str| {
        let mut link = Command::new("c++");
        link.current_dir(node.folder()).args(words.split(' '));
        for folder in [prefix().join("lib"), prefix().join("cuda/lib64")] {
            link.arg(format!("-L{0}", folder.display()))
                .arg(format!("-Wl,-rpath,{}", folder.display()));
        }
        run(link.args(["-lmgb_rt", "-l:libcudart.so.13"]))
    };
    plain("app.o parts.o device.o -o plain").success();
    for words in [
        "app.o parts.o -o lacks",
        "-Wl,--gc-sections app.o parts.o -o lacks",
    ] {
        plain(words).failure(&["mgb_device_code_is_not_linked"]);
    }
    for program in ["together", "objects", "steps", "named", "plain"] {
        passes(&node, program);
    }
    node.wait_until_empty();
}

#[test]
fn what_is_missing_is_an_error_of_the_link() {
    let node = node();
    for words in ["-fgpu-rdc app.cu -o app", "-fgpu-rdc -c app.cu", "app.o -o app"] {
        let ended = run(&mut clang(&node, words));
        if words.contains(" -c ") {
            ended.success();
        } else {
            ended.failure(&["Undefined reference", "scale"]);
        }
    }
    assert!(!node.folder().join("app").exists());
    // Linked by a step of its own, which one object was not part of.
    node.write(
        "late.cu",
        "__global__ void late() {}\nvoid launch() { late<<<1, 1>>>(); }\n",
    );
    let nvcc = |words: &str| {
        let mut command = node.command(bin("mgb-nvcc"), &["-arch=sm_90"]);
        run(command.current_dir(node.folder()).args(words.split(' ')))
    };
    for words in [
        "-dc app.cu parts.cu late.cu",
        "-dlink app.o parts.o -o device.o",
        "app.o parts.o device.o -o complete",
    ] {
        nvcc(words).success();
    }
    nvcc("app.o parts.o late.o device.o -o app").failure(&["late.o", "-dlink"]);
    assert!(!node.folder().join("app").exists());
    assert!(prefix().join("cuda/bin/nvlink").is_file(), "set-up brings nvlink");
}

/// A task whose kernel reaches code of another file stays where the variables have their values.
#[test]
fn what_other_files_may_use_is_not_moved() {
    let node = node();
    node.write(
        "calls.cu",
        "extern __device__ int scale(int);
         __global__ void work(int *x) { *x = scale(*x); }
         int main() { int *x; cudaMalloc(&x, 4); work<<<1, 1>>>(x); cudaFree(x); }",
    );
    run(&mut clang(&node, "-O2 -fgpu-rdc -c calls.cu")).success();
    let object = node.folder().join("calls.o");
    let text = run(&mut node.mgb(&["explain", object.to_str().unwrap()])).success();
    assert!(text.contains("may use device variables of other files"), "{text}");
}

/// Kernels and variables that another file launches and names, and static ones that host code names only after a
/// kernel has used them.
const KERNELS: &str = "\
#include \"kernels.h\"
__device__ int calls;
__constant__ int step[2] = {3, 4};
static __device__ int own;
__global__ void raise(int *x) {
  x[threadIdx.x] += step[threadIdx.x % 2];
  if (threadIdx.x == 0) {
    calls++;
    own += 2;
  }
}
template <class T> __global__ void set(T *x, T value) { x[threadIdx.x] = value; }
template __global__ void set<int>(int *, int);
int own_value() {
  int value = -1;
  return cudaMemcpyFromSymbol(&value, own, sizeof value) ? -2 : value;
}
";
const HEADER: &str = "\
__global__ void raise(int *x);
template <class T> __global__ void set(T *x, T value);
extern template __global__ void set<int>(int *, int);
extern __device__ int calls;
extern __constant__ int step[2];
int own_value();
";
const LAUNCHES: &str = "\
#include <cstdio>
#include \"kernels.h\"
static __device__ int seen;
__global__ void look(int *x) { seen = x[1] + step[1]; }
int main() {
  int *x, host[32], count = -1, last = -1;
  cudaMalloc(&x, sizeof host);
  set<int><<<1, 32>>>(x, 10);
  raise<<<1, 32>>>(x);
  look<<<1, 1>>>(x);
  if (cudaMemcpy(host, x, sizeof host, cudaMemcpyDeviceToHost) || host[0] != 13 || host[31] != 14) return 1;
  if (cudaMemcpyFromSymbol(&count, calls, sizeof count) || count != 1) return 2;
  if (cudaMemcpyFromSymbol(&last, seen, sizeof last) || last != 18) return 3;
  if (own_value() != 2) return 4;
  std::puts(\"PASS\");
}
";

#[test]
fn kernels_of_a_header_are_launched_by_other_files() {
    let node = PrivateNode::start("1x64MiB", "mgb");
    node.write("kernels.h", HEADER);
    node.write("kernels.cu", KERNELS);
    node.write("launches.cu", LAUNCHES);
    // A file that has no device code of its own.
    let host_only = LAUNCHES
        .replace("static __device__ int seen;\n", "")
        .replace("__global__ void look(int *x) { seen = x[1] + step[1]; }\n", "")
        .replace("  look<<<1, 1>>>(x);\n", "")
        .replace(
            "  if (cudaMemcpyFromSymbol(&last, seen, sizeof last) || last != 18) return 3;\n",
            "",
        );
    node.write("host.cu", &host_only);
    for file in ["kernels", "launches", "host"] {
        run(&mut clang(&node, &format!("-O1 -fgpu-rdc -c {file}.cu"))).success();
    }
    run(&mut clang(&node, "launches.o kernels.o -o objects")).success();
    run(&mut clang(&node, "host.o kernels.o -o host")).success();
    run(Command::new("ar")
        .current_dir(node.folder())
        .args(["rcs", "libkernels.a", "kernels.o"]))
    .success();
    run(&mut clang(&node, "launches.o libkernels.a -o archive")).success();
    for program in ["objects", "host", "archive"] {
        passes(&node, program);
    }
}

#[test]
fn openmp_is_the_hosts() {
    let node = node();
    let parallel = "\
int main() {
  int sum = 0;
#pragma omp parallel for reduction(+ : sum)
  for (int i = 0; i < 10; i++) sum += i;
  return run() || sum != 45;
}
";
    let app = APP
        .replace("int main() {", "int run() {")
        .replace("std::puts(\"PASS\");", "std::puts(\"PASS\");\n  return 0;");
    node.write("parallel.cu", &format!("{app}{parallel}"));
    run(&mut clang(
        &node,
        "-fgpu-rdc -fopenmp parallel.cu parts.cu -o together",
    ))
    .success();
    run(&mut clang(&node, "-fgpu-rdc -fopenmp -c parallel.cu parts.cu")).success();
    run(&mut clang(&node, "-fopenmp parallel.o parts.o -o objects")).success();
    for program in ["together", "objects"] {
        passes(&node, program);
    }
}

#[test]
fn kernels_that_launch_kernels_are_named_at_the_link() {
    let node = PrivateNode::without_mgbd("1x64MiB");
    node.write(
        "parent.cu",
        "__global__ void child(int *x) { *x = 1; }\n\
         __global__ void parent(int *x) { child<<<1, 1>>>(x); }\n\
         int main() { parent<<<1, 1>>>(nullptr); }\n",
    );
    run(&mut clang(&node, "-fgpu-rdc parent.cu -o parent")).failure(&["launches kernels", "--keep-nvcc"]);
}
