//! CUDA 12's headers with CUDA 13's runtime: lazyrt's functions for what differs, and whole programs where
//! `MGB_TEST_CUDA12` names a toolkit of CUDA 12.

use std::collections::BTreeSet;
use std::path::PathBuf;

use mgb_catalogue::twelve;
use mgb_tests::node::PrivateNode;
use mgb_tests::prefix::{bin, prefix, repository};
use mgb_tests::process::run;
use object::{Object, ObjectSymbol};

use crate::wrapper::{check_output, check_program};

const BEGIN: &str = "mgb_cuda12_";

#[test]
fn lazyrt_has_what_the_pass_sends_there() {
    let bytes = std::fs::read(prefix().join("lib/libmgb_rt.so")).expect("the prefix is whole");
    let file = object::File::parse(&*bytes).expect("is a library");
    let exported: BTreeSet<&str> = file
        .dynamic_symbols()
        .filter_map(|symbol| symbol.name().ok()?.strip_prefix(BEGIN))
        .collect();
    assert_eq!(exported, twelve::bridged().collect());
}

/// Calls them as a program compiled with CUDA 12's headers does: with its structures, by their lengths there.
const CALLS: &str = "\
#include <cstdio>
#include <cstring>
extern \"C\" cudaError_t mgb_cuda12_cudaGetDeviceProperties_v2(void *, int);
extern \"C\" cudaError_t mgb_cuda12_cudaPointerGetAttributes(void *, const void *);
extern \"C\" cudaError_t mgb_cuda12_cudaGraphAddDependencies(cudaGraph_t, const cudaGraphNode_t *, const cudaGraphNode_t *, size_t);
extern \"C\" cudaError_t mgb_cuda12_cudaGraphGetEdges(cudaGraph_t, cudaGraphNode_t *, cudaGraphNode_t *, size_t *);
static int failed = 0;
static void check(bool right, const char *what) { if (!right) { printf(\"%s\\n\", what); failed = 1; } }
static bool is(const char *at, int expected) { int found; memcpy(&found, at, 4); return found == expected; }
int main() {
  char old[1032 + 8];
  memset(old, 0x55, sizeof old);
  check(mgb_cuda12_cudaGetDeviceProperties_v2(old, 0) == cudaSuccess, \"properties\");
  check(is(old + 1032, 0x55555555), \"properties are longer than CUDA 12's\");
  cudaDeviceProp now;
  cudaGetDeviceProperties(&now, 0);
  check(strcmp(old, now.name) == 0, \"name\");
  check(memcmp(old + 288, &now.totalGlobalMem, 8) == 0, \"totalGlobalMem\");
  check(is(old + 360, now.major) && is(old + 364, now.minor), \"major and minor\");
  check(is(old + 388, now.multiProcessorCount), \"multiProcessorCount\");
  check(is(old + 616, now.l2CacheSize), \"l2CacheSize\");
  check(is(old + 624, now.maxThreadsPerMultiProcessor), \"maxThreadsPerMultiProcessor\");
  check(memcmp(old + 640, &now.sharedMemPerMultiprocessor, 8) == 0, \"sharedMemPerMultiprocessor\");
  check(memcmp(old + 696, &now.sharedMemPerBlockOptin, 8) == 0, \"sharedMemPerBlockOptin\");
  int clock;
  cudaDeviceGetAttribute(&clock, cudaDevAttrClockRate, 0);
  check(is(old + 348, clock) && clock > 0, \"clockRate\");
  check(mgb_cuda12_cudaGetDeviceProperties_v2(old, 99) == cudaErrorInvalidDevice, \"no device\");
  char *memory;
  cudaMalloc(&memory, 64);
  memset(old, 0x55, sizeof old);
  check(mgb_cuda12_cudaPointerGetAttributes(old, memory) == cudaSuccess, \"attributes\");
  check(is(old, cudaMemoryTypeDevice) && memcmp(old + 8, &memory, 8) == 0, \"attributes of device memory\");
  check(is(old + 24, 0x55555555), \"attributes are longer than CUDA 12's\");
  cudaGetLastError();
  cudaGraph_t graph;
  cudaGraphNode_t one, two, from, to;
  size_t count = 1;
  cudaGraphCreate(&graph, 0);
  cudaGraphAddEmptyNode(&one, graph, nullptr, 0);
  cudaGraphAddEmptyNode(&two, graph, nullptr, 0);
  check(mgb_cuda12_cudaGraphAddDependencies(graph, &one, &two, 1) == cudaSuccess, \"dependency\");
  check(mgb_cuda12_cudaGraphGetEdges(graph, &from, &to, &count) == cudaSuccess, \"edges\");
  check(count == 1 && from == one && to == two, \"the edge\");
  puts(failed ? \"FAIL\" : \"PASS\");
  return failed;
}
";

#[test]
fn structures_are_turned() {
    let node = PrivateNode::start("1x64MiB", "mgb");
    let source = node.write("calls.cu", CALLS);
    let program = node.folder().join("calls");
    let mut compile = node.command(bin("mgb-clang++"), &["--offload-arch=sm_90"]);
    run(compile.arg(&source).arg("-o").arg(&program)).success();
    assert_eq!(run(&mut node.command(&program, &[])).success(), "PASS\n");
    let mut natively = node.command(&program, &[]);
    assert_eq!(run(natively.env("MGB", "off")).success(), "PASS\n");
}

/// What differs most often: properties, prefetching, the old names of the runtime's own functions.
const OLDER: &str = "\
#include <cstdio>
int main() {
  static_assert(CUDART_VERSION < 13000, \"CUDA 12's headers\");
  cudaDeviceProp properties;
  if (cudaGetDeviceProperties(&properties, 0) != cudaSuccess || properties.clockRate <= 0) return 1;
  cudaPointerAttributes attributes;
  int *memory;
  if (cudaMallocManaged(&memory, 1 << 20) != cudaSuccess) return 2;
  if (cudaPointerGetAttributes(&attributes, memory) != cudaSuccess) return 3;
  if (attributes.type != cudaMemoryTypeManaged) return 4;
  if (cudaMemPrefetchAsync(memory, 1 << 20, cudaCpuDeviceId) == cudaErrorInvalidValue) return 5;
  if (cudaThreadSynchronize() != cudaSuccess) return 6;
  cudaEvent_t a, b;
  float ms;
  cudaEventCreate(&a), cudaEventCreate(&b);
  cudaEventRecord(a), cudaEventRecord(b);
  cudaEventSynchronize(b);
  if (cudaEventElapsedTime(&ms, a, b) != cudaSuccess) return 7;
  puts(\"PASS\");
}
";

#[test]
fn programs_of_a_toolkit_of_cuda_12() {
    let Some(toolkit) = std::env::var_os("MGB_TEST_CUDA12").map(PathBuf::from) else {
        eprintln!("skipped: MGB_TEST_CUDA12 names no toolkit of CUDA 12");
        return;
    };
    let node = PrivateNode::start("1x64MiB", "mgb");
    let build = |wrapper: &str, words: &[&str], source: PathBuf, name: &str| {
        let program = node.folder().join(name);
        let mut compile = node.command(bin(wrapper), words);
        compile.env("CUDA_PATH", &toolkit);
        run(compile.arg(&source).arg("-o").arg(&program)).success();
        check_program(&program);
        program
    };
    let vecadd = repository().join("examples/vecadd.cu");
    let program = build(
        "mgb-clang++",
        &["--offload-arch=sm_90"],
        vecadd.clone(),
        "by_clang",
    );
    check_output(&node, &program);
    let program = build("mgb-nvcc", &["-arch=sm_90", "-lcudart"], vecadd, "by_nvcc");
    check_output(&node, &program);
    let older = node.write("older.cu", OLDER);
    let program = build("mgb-clang++", &["--offload-arch=sm_90"], older, "older");
    assert_eq!(run(&mut node.command(&program, &[])).success(), "PASS\n");
    let removed = node.write(
        "removed.cu",
        "int main() { double d = 0; return cudaSetDoubleForHost(&d); }\n",
    );
    let mut compile = node.command(bin("mgb-clang++"), &["--offload-arch=sm_90", "-c"]);
    run(compile
        .env("CUDA_PATH", &toolkit)
        .arg(&removed)
        .arg("-o")
        .arg(node.folder().join("removed.o")))
    .failure(&["cudaSetDoubleForHost of CUDA 12.", "CUDA 13 removed it"]);
}
