//! `mgb-nvcc` where people put nvcc: under make, under CMake with its probe, with separate compilation, and
//! on its own command lines.

use std::fs;

use mgb_tests::node::PrivateNode;
use mgb_tests::prefix::{bin, prefix, repository};
use mgb_tests::process::{command, run};

use crate::wrapper::{check_output, check_program};

/// A makefile as projects written for nvcc have it.
const MAKEFILE: &str = "\
NVCC ?= nvcc
FLAGS = -O2 -std=c++17 -lineinfo --expt-relaxed-constexpr -Xcompiler -fPIC,-Wall -m64 \\
  -gencode arch=compute_80,code=sm_80 -gencode arch=compute_90,code=[sm_90,compute_90]

all: vecadd split
vecadd: vecadd.o
\t$(NVCC) $(FLAGS) -cudart static $< -o $@ -lm
split: main.o init.o
\t$(NVCC) -arch=sm_90 -dlink $^ -o linked.o
\t$(NVCC) -arch=sm_90 $^ linked.o -o $@ -L/nowhere -lcudadevrt
vecadd.o: $(EXAMPLES)/vecadd.cu
\t$(NVCC) $(FLAGS) -MD -MT $@ -MF vecadd.d -c $< -o $@
%.o: $(EXAMPLES)/init_run_split/%.cu
\t$(NVCC) $(FLAGS) -dc $< -o $@
";

#[test]
fn under_make() {
    let node = PrivateNode::start("1x64MiB", "mgb");
    node.write("Makefile", MAKEFILE);
    let mut make = node.command("make", &["-j", "2"]);
    make.arg(format!("NVCC={}", bin("mgb-nvcc").display()));
    make.arg(format!("EXAMPLES={}", repository().join("examples").display()));
    let ended = run(make.arg("-C").arg(node.folder()));
    assert_eq!(ended.stderr, "", "a build without warnings");
    ended.success();
    let program = node.folder().join("vecadd");
    check_program(&program);
    check_output(&node, &program);
    let rules = fs::read_to_string(node.folder().join("vecadd.d")).expect("make's rules are written");
    assert!(
        rules.starts_with("vecadd.o:") && rules.contains("common.h"),
        "{rules}"
    );
    let split = node.folder().join("split");
    check_program(&split);
    let ended = run(&mut node.command(&split, &["60000", "3"]));
    assert_eq!(ended.success(), "init_run_split: n=60000 repetitions=3 PASS\n");
}

const PROJECT: &str = "\
cmake_minimum_required(VERSION 3.25)
project(nvcc_project LANGUAGES CXX CUDA)
add_library(scale SHARED scale.cu)
add_library(host STATIC host.cpp)
add_executable(app app.cu)
set_target_properties(app PROPERTIES CUDA_SEPARABLE_COMPILATION ON CUDA_STANDARD 17)
target_compile_options(app PRIVATE $<$<CUDA_COMPILER_ID:NVIDIA>:--expt-relaxed-constexpr -lineinfo>)
target_link_libraries(app scale host)
";

const SCALE: &str = "\
__global__ void times(int *value, int factor) { *value *= factor; }
void scale(int *value, int factor) { times<<<1, 1>>>(value, factor); }
";

const APP: &str = "\
#include <cstdio>
void scale(int *value, int factor);
int half(int value);
int main() {
  int value = 7, *there;
  if (cudaMalloc(&there, sizeof value) != cudaSuccess) return 1;
  cudaMemcpy(there, &value, sizeof value, cudaMemcpyHostToDevice);
  scale(there, 12);
  cudaMemcpy(&value, there, sizeof value, cudaMemcpyDeviceToHost);
  cudaFree(there);
  printf(\"%d\\n\", half(value));
}
";

/// A program that CMake links with the C++ compiler, which knows nothing of MGB.
const MIXED: &str = "\
cmake_minimum_required(VERSION 3.18)
project(mixed LANGUAGES CXX CUDA)
add_executable(app app.cu scale.cu host.cpp)
";

#[test]
fn under_cmake_any_compiler_links() {
    let node = PrivateNode::start("1x64MiB", "mgb");
    node.write("CMakeLists.txt", MIXED);
    node.write("scale.cu", SCALE);
    node.write("host.cpp", "int half(int value) { return value / 2; }\n");
    node.write("app.cu", APP);
    let build = node.folder().join("build");
    // Where a linker drops what no object names is up to the system.
    let mut configure = node.command("cmake", &["-DCMAKE_EXE_LINKER_FLAGS=-Wl,--as-needed"]);
    configure.arg("-DCMAKE_CXX_COMPILER=g++");
    configure.arg(format!("-DCMAKE_CUDA_COMPILER={}", bin("mgb-nvcc").display()));
    run(configure.arg("-S").arg(node.folder()).arg("-B").arg(&build)).success();
    run(node.command("cmake", &["--build"]).arg(&build)).success();
    let program = build.join("app");
    check_program(&program);
    let ended = run(node.command(&program, &[]).env("MGB", "require"));
    assert_eq!(ended.success(), "42\n");
}

#[test]
fn under_cmake_as_nvcc() {
    let node = PrivateNode::start("1x64MiB", "mgb");
    node.write("CMakeLists.txt", PROJECT);
    node.write("scale.cu", SCALE);
    node.write("host.cpp", "int half(int value) { return value / 2; }\n");
    node.write("app.cu", APP);
    let build = node.folder().join("build");
    let mut configure = node.command("cmake", &[]);
    configure.arg(format!("-DCMAKE_CUDA_COMPILER={}", bin("mgb-nvcc").display()));
    configure.arg(format!("-DCMAKE_CXX_COMPILER={}", bin("mgb-clang++").display()));
    let said = run(configure.arg("-S").arg(node.folder()).arg("-B").arg(&build)).success();
    assert!(
        said.contains("The CUDA compiler identification is NVIDIA 13."),
        "{said}"
    );
    run(node.command("cmake", &["--build"]).arg(&build)).success();
    check_program(&build.join("libscale.so"));
    let ended = run(&mut node.command(build.join("app"), &[]));
    assert_eq!(ended.success(), "42\n");
}

#[test]
fn other_steps() {
    let node = PrivateNode::without_mgbd("1x64MiB");
    let nvcc = |words: &str| {
        let mut command = node.command(bin("mgb-nvcc"), &[]);
        command.current_dir(node.folder()).args(words.split(' '));
        run(&mut command)
    };
    let made = |name: &str| fs::read(node.folder().join(name)).expect("the output is there");
    node.write("scale.cu", SCALE);
    node.write("options", "-arch=sm_90 -DNAME=\"a b\"\n-c scale.cu\n");
    nvcc("--options-file options -o scale.o").success();
    assert!(made("scale.o").starts_with(b"\x7fELF"));
    nvcc("-ptx -arch=compute_90 scale.cu").success();
    assert!(String::from_utf8_lossy(&made("scale.ptx")).contains(".target sm_90"));
    nvcc("-cubin -arch sm_90 scale.cu -o k").success();
    assert!(made("k").starts_with(b"\x7fELF"));
    nvcc("-lib -arch=sm_90 scale.cu -o libscale.a").success();
    assert!(made("libscale.a").starts_with(b"!<arch>"));
    assert!(nvcc("-M scale.cu").success().starts_with("scale.o: scale.cu"));
    assert!(
        nvcc("-E scale.cu")
            .success()
            .contains("void scale(int *value, int factor)")
    );
    let dry = nvcc("-dryrun -t4 -Xptxas -O2 scale.cu");
    assert!(
        dry.stderr.contains("left out -t4: ") || dry.stderr.contains("left out -t"),
        "{}",
        dry.stderr
    );
    assert!(dry.stderr.contains("-Xcuda-ptxas -O2"), "{}", dry.stderr);
}

#[test]
fn what_cannot_be_done_is_named() {
    let node = PrivateNode::without_mgbd("1x64MiB");
    let nvcc = |words: &str| {
        let mut command = node.command(bin("mgb-nvcc"), &[]);
        run(command.current_dir(node.folder()).args(words.split(' ')))
    };
    nvcc("-Wall a.cu").failure(&["mgb-nvcc: -Wall is not an option of nvcc", "-Xcompiler"]);
    nvcc("-run a.cu").failure(&["-run cannot be done", "mgb run"]);
    nvcc("-arch=sm_35 a.cu").failure(&["sm_35", "CUDA 13 has no code for it"]);
    // What no file defines is an error of the link.
    node.write(
        "uses.cu",
        "extern __device__ int other(int);\n__global__ void k(int *p) { *p = other(*p); }\nint main() {}\n",
    );
    nvcc("-dc -arch=sm_90 uses.cu -o uses.o").success();
    for words in ["uses.o -o uses", "-dlink uses.o -o linked.o"] {
        nvcc(words).failure(&["Undefined reference", "other"]);
    }
    // Nor does a source go to nvcc by itself where code is linked across files.
    node.write("wrong.cu", "__global__ void k() { this_is_nowhere(); }\n");
    nvcc("-dc -arch=sm_90 wrong.cu -o wrong.o").failure(&["this_is_nowhere", "--keep-nvcc"]);
}

#[test]
fn help_and_version() {
    let help = run(&mut command(bin("mgb"), &["nvcc", "--help"])).success();
    assert!(
        help.contains("Usage: mgb nvcc") && help.contains("-rdc=true"),
        "{help}"
    );
    let mut version = command(bin("mgb-nvcc"), &["-V"]);
    version.env("MGB_PREFIX", prefix());
    assert!(run(&mut version).success().contains("release 13."));
}

/// A standard of C++ is for the sources in C++, as it is with nvcc: by themselves and beside sources in C.
#[test]
fn c_has_no_standard_of_cplusplus() {
    let node = PrivateNode::without_mgbd("1x64MiB");
    node.write("half.c", "int half(int class) { return class / 2; }\n");
    node.write(
        "main.cu",
        "extern \"C\" int half(int);\nint main() { static_assert(__cplusplus >= 202002L); return half(4) - 2; }\n",
    );
    for words in [
        "-c half.c -o half.o",
        "main.cu half.o -o apart",
        "main.cu half.c -o together",
    ] {
        let mut command = node.command(bin("mgb-nvcc"), &["-arch=sm_90", "-std=c++20"]);
        let ended = run(command.current_dir(node.folder()).args(words.split(' ')));
        assert_eq!(ended.stderr, "", "{words}");
        ended.success();
    }
    for program in ["apart", "together"] {
        run(&mut node.command(node.folder().join(program), &[])).success();
    }
}

/// Host threads of OpenMP use the GPU, each with memory of its own.
const THREADS: &str = "\
#include <cstdio>
__global__ void add(int *value) { *value += 1; }
int main() {
  int sum = 0;
#pragma omp parallel for num_threads(4) reduction(+ : sum)
  for (int i = 0; i < 40; i++) {
    int *value, host = i;
    cudaMalloc(&value, sizeof *value);
    cudaMemcpy(value, &host, sizeof host, cudaMemcpyHostToDevice);
    add<<<1, 1>>>(value);
    cudaMemcpy(&host, value, sizeof host, cudaMemcpyDeviceToHost);
    cudaFree(value);
    sum += host;
  }
  std::printf(\"%d\\n\", sum);
}
";

#[test]
fn with_openmp() {
    let node = PrivateNode::start("1x64MiB", "mgb");
    node.write("threads.cu", THREADS);
    let build = |clang: Option<&str>| {
        let words = "-O2 -arch=sm_90 -Xcompiler -fopenmp threads.cu -o threads";
        let mut command = node.command(bin("mgb-nvcc"), &[]);
        command.current_dir(node.folder()).args(words.split(' '));
        if let Some(clang) = clang {
            command.env("MGB_CLANG", node.folder().join(clang));
        }
        run(&mut command)
    };
    let ended = build(None);
    assert_eq!(ended.stderr, "");
    ended.success();
    let ended = run(node
        .command(node.folder().join("threads"), &[])
        .env("MGB", "require"));
    assert_eq!(ended.success(), "820\n");
    node.wait_until_empty();
    // A clang that says where it has no OpenMP: what to install is named.
    let script =
        "#!/bin/sh\ncase $1 in -print-file-name=*) echo libomp.so; exit ;; esac\nexec clang++-22 \"$@\"\n";
    let clang = node.write("clang", script);
    fs::set_permissions(&clang, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let ended = build(Some("clang"));
    assert!(
        ended.stderr.contains("install the Debian package libomp-22-dev"),
        "{ended:?}"
    );
}

/// What nvcc's CUDA has and clang's lacks: `min` and `max` of the host, beside those of the source and of the
/// library, and atomic loads and stores.
const DIALECT: &str = "\
#include <algorithm>
#include <cstdio>
#include <type_traits>
namespace theirs {
template <class T> T min(T a, T b) { return a < b ? b : a; }
int wrong() { return min(1, 2); }
}
static short max(short, short) { return 77; }
__global__ void hand(unsigned long long *flag, float *value) {
  if (blockIdx.x == 0 && threadIdx.x == 0) {
    float half = 2.5f;
    __nv_atomic_store(value, &half, __NV_ATOMIC_RELAXED, __NV_THREAD_SCOPE_DEVICE);
    __nv_atomic_store_n(flag, 1, __NV_ATOMIC_RELEASE);
  } else if (threadIdx.x == 0) {
    while (__nv_atomic_load_n(flag, __NV_ATOMIC_ACQUIRE) == 0) {}
    float seen;
    __nv_atomic_load(value, &seen, __NV_ATOMIC_RELAXED, __NV_THREAD_SCOPE_SYSTEM);
    value[1] = max(seen, 1.f) + min(3, 4u);
  }
}
__global__ void store(float *value, int4 *four) {
  __stcs(value, 6);
  __stcg(value + 1, 7.5f);
  __stcg(four, make_int4(1, 2, 3, 4));
  __stcs(&four[1].x, 5);
}
template <class T> __global__ void quick(T *out) {
  register T sum = 1, other = 2;
  *out = sum + other;
}
int main() {
  register int unused = 0;
  (void)unused;
  using std::max;
  static_assert(std::is_same<decltype(min(1, 2u)), unsigned>::value && std::is_same<decltype(min(1.f, 2.)), double>::value &&
                std::is_same<decltype(min(1ll, 2ull)), unsigned long long>::value, \"as nvcc has it\");
  if (min(2, 1) != 1 || min(2.5f, 2) != 2 || min(NAN, 1.) != 1 || ::max(1., NAN) != 1 || ::max(3, 4.5) != 4.5) return 1;
  if (max(5, 6) != 6 || std::min(1, 2) != 1 || theirs::wrong() != 2 || ::max((short)1, (short)2) != 77) return 2;
  unsigned long long *flag;
  float *value, host[2];
  cudaMalloc(&flag, sizeof *flag);
  cudaMalloc(&value, sizeof host);
  cudaMemset(flag, 0, sizeof *flag);
  hand<<<2, 32>>>(flag, value);
  if (cudaMemcpy(host, value, sizeof host, cudaMemcpyDeviceToHost) || host[1] != 5.5f) return 3;
  quick<float><<<1, 1>>>(value);
  if (cudaMemcpy(host, value, sizeof host, cudaMemcpyDeviceToHost) || host[0] != 3) return 4;
  int4 *four, fours[2];
  cudaMalloc(&four, sizeof fours);
  int side = host[0] / 3;
  store<<<{side, 1, 1}, {1}>>>(value, four);
  if (cudaMemcpy(host, value, sizeof host, cudaMemcpyDeviceToHost) || host[0] != 6 || host[1] != 7.5f) return 5;
  if (cudaMemcpy(fours, four, sizeof fours, cudaMemcpyDeviceToHost) || fours[0].w != 4 || fours[1].x != 5) return 6;
  if (!isfinite(host[0]) || isnan(host[1]) || isinf(1.0) || time(nullptr) == 0 || clock() == -1) return 7;
  std::puts(\"PASS\");
}
";

#[test]
fn clang_takes_what_only_nvcc_has() {
    let node = PrivateNode::start("1x64MiB", "mgb");
    node.write("dialect.cu", DIALECT);
    let mut command = node.command(
        bin("mgb-nvcc"),
        &["-arch=sm_90", "-std=c++17", "dialect.cu", "-o", "dialect"],
    );
    let ended = run(command.current_dir(node.folder()).env("MGB_KEEP_NVCC", "0"));
    assert_eq!(ended.stderr, "");
    ended.success();
    let ended = run(&mut node.command(node.folder().join("dialect"), &[]));
    assert_eq!((ended.code(), ended.stdout.as_str()), (0, "PASS\n"), "{ended:?}");
}

/// What nvcc includes by itself: a source that includes nothing.
#[test]
fn headers_of_c_are_there_without_being_included() {
    let node = PrivateNode::without_mgbd("1x64MiB");
    node.write(
        "bare.cu",
        "int main() { time_t now = time(0); double x = 1; return !(isfinite(x) && localtime(&now) && clock() != -1); }\n",
    );
    let mut command = node.command(bin("mgb-nvcc"), &["-arch=sm_90", "-c", "bare.cu"]);
    run(command.current_dir(node.folder()).env("MGB_KEEP_NVCC", "0")).success();
}

#[test]
fn options_that_concern_outputs() {
    let node = PrivateNode::without_mgbd("1x64MiB");
    let nvcc = |words: &str| {
        let mut command = node.command(bin("mgb-nvcc"), &["-arch=sm_90"]);
        run(command.current_dir(node.folder()).args(words.split(' ')))
    };
    node.write("one.cu", "__global__ void one(int *x) { *x = 1; }\n");
    node.write(
        "two.cu",
        "__global__ void two(int *x) { *x = 2; }\nint main() {}\n",
    );
    fs::create_dir(node.folder().join("out")).expect("a folder can be made");
    let is_there = |name: &str| node.folder().join(name).is_file();
    nvcc("-c one.cu two.cu -odir out").success();
    assert!(is_there("out/one.o") && is_there("out/two.o") && !is_there("one.o"));
    nvcc("-ptx one.cu two.cu").success();
    assert!(is_there("one.ptx") && is_there("two.ptx"));
    nvcc("-dc one.cu two.cu -odir out").success();
    nvcc("out/one.o out/two.o -o linked").success();
    let ended = nvcc("-c -Xfatbin -compress-all -res-usage one.cu");
    assert!(ended.stderr.contains("registers"), "{}", ended.stderr);
    ended.success();
    nvcc("-Xcompiler -export-dynamic two.cu -o two").success();
    let symbols = run(command("readelf", &["--dyn-syms", "-W"]).arg(node.folder().join("two"))).success();
    assert!(symbols.contains(" main"), "its symbols are exported: {symbols}");
}
