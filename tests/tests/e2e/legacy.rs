//! `--mgb-legacy`: sources written for CUDA 11 and before compile with CUDA 13, by clang and by nvcc, and do
//! what they did.

use std::process::Command;

use mgb_tests::node::PrivateNode;
use mgb_tests::prefix::bin;
use mgb_tests::process::run;

use crate::wrapper::check_program;

/// One call of each kind that software GPUs can run.
const CALLS: &str = r#"
#include <cstdio>
__global__ void count(int *values) { values[threadIdx.x] = threadIdx.x; }
int main() {
  int devices, *values;
  size_t limit, edges = 9, found = 9;
  cudaDeviceProp prop = {};
  struct cudaDeviceProp other;
  cudaPointerAttributes attributes;
  if (cudaGetDeviceProperties(&prop, 0) != cudaSuccess || cudaGetDeviceProperties(&other, 0) != cudaSuccess) return 1;
  int clock = 0, memory = 0, width = 0;
  cudaDeviceGetAttribute(&clock, cudaDevAttrClockRate, 0);
  cudaDeviceGetAttribute(&memory, cudaDevAttrMemoryClockRate, 0);
  cudaDeviceGetAttribute(&width, cudaDevAttrMaxTexture1DLinearWidth, 0);
  if (prop.clockRate != clock || clock == 0 || other.memoryClockRate != memory || prop.maxTexture1DLinear != width) return 2;
  if (prop.multiProcessorCount <= 0 || prop.computeMode != cudaComputeModeDefault) return 3;
  if (cudaGetDeviceProperties(&prop, 99) != cudaErrorInvalidDevice || prop.clockRate != 0) return 4;
  cudaGetLastError();
  if (cudaMallocManaged(&values, 256) != cudaSuccess) return 5;
  if (cudaMemAdvise(values, 256, cudaMemAdviseSetPreferredLocation, cudaCpuDeviceId) != cudaSuccess) return 6;
  if (cudaMemPrefetchAsync(values, 256, 0, 0) != cudaSuccess || cudaMemPrefetchAsync(values, 256, cudaCpuDeviceId) != cudaSuccess) return 7;
  count<<<1, 64>>>(values);
  if (cudaThreadSynchronize() != cudaSuccess || values[63] != 63) return 8;
  if (cudaPointerGetAttributes(&attributes, values) != cudaSuccess || !attributes.isManaged || attributes.memoryType != cudaMemoryTypeDevice) return 9;
  if (cudaPointerGetAttributes(&attributes, &devices) != cudaErrorInvalidValue) return 10;
  cudaGraph_t graph;
  cudaGraphNode_t nodes[2], one;
  cudaGraphCreate(&graph, 0);
  cudaGraphAddEmptyNode(&nodes[0], graph, nullptr, 0);
  cudaGraphAddEmptyNode(&nodes[1], graph, nullptr, 0);
  if (cudaGraphAddDependencies(graph, &nodes[0], &nodes[1], 1) != cudaSuccess) return 11;
  if (cudaGraphGetEdges(graph, nullptr, nullptr, &edges) != cudaSuccess || edges != 1) return 12;
  found = 1;
  if (cudaGraphNodeGetDependencies(nodes[1], &one, &found) != cudaSuccess || found != 1 || one != nodes[0]) return 13;
  if (cudaGraphNodeGetDependentNodes(nodes[0], &one, &found) != cudaSuccess || found != 1 || one != nodes[1]) return 14;
  if (cudaGraphRemoveDependencies(graph, &nodes[0], &nodes[1], 1) != cudaSuccess) return 15;
  cudaGraphDestroy(graph);
  cudaStreamCaptureStatus status;
  if (cudaStreamGetCaptureInfo_v2(0, &status) != cudaSuccess || status != cudaStreamCaptureStatusNone) return 16;
  if (cudaThreadGetLimit(&limit, cudaLimitStackSize) != cudaSuccess || cudaThreadSetLimit(cudaLimitStackSize, limit) != cudaSuccess) return 17;
  if (cudaFree(values) != cudaSuccess || cudaThreadExit() != cudaSuccess) return 18;
  puts("as before");
}
"#;

/// Texture references of all kinds; what they read of nothing is of no account.
const TEXTURES: &str = r#"
texture<float, 1, cudaReadModeElementType> line;
texture<int2> pairs;
texture<uchar4, 2, cudaReadModeNormalizedFloat> image;
texture<short, cudaTextureType3D, cudaReadModeNormalizedFloat> volume(1, cudaFilterModeLinear, cudaAddressModeWrap);
__global__ void sample(float *out) {
  int i = threadIdx.x;
  float4 color = tex2D(image, i, 0);
  out[i] = tex1Dfetch(line, i) + tex1D(line, i) + tex1Dfetch(pairs, i).y + color.x + tex3D(volume, i, 0, 0);
}
int main() {
  float *memory;
  size_t offset;
  cudaArray_t array = nullptr;
  cudaChannelFormatDesc format = cudaCreateChannelDesc<uchar4>();
  cudaMalloc(&memory, 4096);
  line.normalized = 0;
  image.filterMode = cudaFilterModeLinear;
  image.addressMode[0] = cudaAddressModeClamp;
  int failed = cudaBindTexture(0, line, memory, 4096) + cudaBindTexture(&offset, pairs, memory);
  failed += cudaBindTexture2D(&offset, image, memory, format, 32, 32, 128) + cudaBindTextureToArray(volume, array);
  failed += cudaBindTextureToArray(volume, array, format);
  sample<<<1, 32>>>(memory);
  cudaUnbindTexture(line);
  return failed == 0;
}
"#;

/// What references of every kind read of what is bound to them, one after the other.
const BOUND: &str = r#"
#include <cstdio>
texture<float, 1, cudaReadModeElementType> line;
texture<int2> pairs;
static texture<uchar4, 2, cudaReadModeNormalizedFloat> image;
texture<float, cudaTextureType3D> volume(1, cudaFilterModeLinear, cudaAddressModeWrap);
__global__ void sample(float *out) {
  int i = threadIdx.x;
  out[i] = tex1Dfetch(line, i);
  out[32 + i] = tex1Dfetch(pairs, i).y;
  out[64 + i] = tex2D(image, i % 8, i / 8).y * 255;
  out[96 + i] = tex3D(volume, (i % 4 + 1) / 4.0f, (i / 4 % 2 + 0.5f) / 2, (i / 8 % 2 + 0.5f) / 2);
}
int main() {
  float floats[64], *out, *memory, found[128];
  unsigned char bytes[128];
  for (int i = 0; i < 64; i++) floats[i] = i * i;
  for (int i = 0; i < 128; i++) bytes[i] = 2 * i;
  size_t pitch;
  char *rows;
  cudaArray_t array;
  cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
  cudaMalloc(&memory, sizeof floats);
  cudaMalloc(&out, sizeof found);
  cudaMemcpy(memory, floats, sizeof floats, cudaMemcpyHostToDevice);
  cudaMallocPitch(&rows, &pitch, 32, 4);
  cudaMemcpy2D(rows, pitch, bytes, 32, 32, 4, cudaMemcpyHostToDevice);
  cudaExtent extent = make_cudaExtent(4, 2, 2);
  cudaMalloc3DArray(&array, &format, extent);
  cudaMemcpy3DParms copy = {};
  copy.srcPtr = make_cudaPitchedPtr(floats, 16, 4, 2);
  copy.dstArray = array;
  copy.extent = extent;
  copy.kind = cudaMemcpyHostToDevice;
  cudaMemcpy3D(&copy);
  size_t offset = 9;
  int failed = cudaBindTexture(&offset, line, memory, sizeof floats) + cudaBindTexture(0, pairs, memory);
  failed += cudaBindTexture2D(0, image, rows, cudaCreateChannelDesc<uchar4>(), 8, 4, pitch);
  failed += cudaBindTextureToArray(volume, array, format);
  if (failed || offset) return 1;
  sample<<<1, 32>>>(out);
  if (cudaMemcpy(found, out, sizeof found, cudaMemcpyDeviceToHost)) return 2;
  for (int i = 0; i < 32; i++) {
    int second, x = i % 4, rest = i / 4 % 4 * 4;
    __builtin_memcpy(&second, &floats[2 * i + 1], 4);
    if (found[i] != floats[i] || found[32 + i] != float(second)) return 3;
    if (__builtin_fabsf(found[64 + i] - bytes[4 * i + 1]) > 0.01f) return 4;
    if (found[96 + i] != (floats[rest + x] + floats[rest + (x + 1) % 4]) / 2) return 5;
  }
  cudaUnbindTexture(&line);
  if (cudaBindTexture(0, &line, out, &format, sizeof found) || cudaBindTextureToArray(&volume, array, &format)) return 6;
  sample<<<1, 32>>>(memory);
  cudaMemcpy(floats, memory, 128, cudaMemcpyDeviceToHost);
  if (floats[31] != found[31] || cudaUnbindTexture(line) || cudaUnbindTexture(line)) return 7;
  puts("as bound");
}
"#;

fn node() -> PrivateNode {
    let node = PrivateNode::start("1x64MiB", "mgb");
    node.write("calls.cu", CALLS);
    node.write("textures.cu", TEXTURES);
    node.write("bound.cu", BOUND);
    node.write(
        "host.c",
        "int cudaDeviceSynchronize(void);\nint host(void) { return cudaThreadSynchronize(); }\n",
    );
    node
}

/// Compiles one of the sources to an object; `words` are separated by blanks.
fn compile(node: &PrivateNode, wrapper: &str, source: &str, words: &str) -> Command {
    let mut command = node.command(bin(wrapper), &["-c", source, "-o"]);
    let words = words.split(' ').filter(|word| !word.is_empty());
    command
        .current_dir(node.folder())
        .arg(format!("{source}.o"))
        .args(words);
    command
}

#[test]
fn what_was_dropped_does_what_it_did() {
    let node = node();
    for (wrapper, words) in [
        ("mgb-clang++", "--mgb-legacy --offload-arch=sm_90 -O1"),
        ("mgb-nvcc", "--mgb-legacy -arch=sm_90 -O1"),
        ("mgb-nvcc", "--mgb-legacy -arch=sm_90 -O1 -std=c++14"),
    ] {
        assert_eq!(run(&mut compile(&node, wrapper, "calls.cu", words)).success(), "");
        let program = node.folder().join("calls");
        let mut link = node.command(bin("mgb-clang++"), &["calls.cu.o", "-o"]);
        run(link.current_dir(node.folder()).arg(&program)).success();
        check_program(&program);
        assert_eq!(run(&mut node.command(&program, &[])).success(), "as before\n");
    }
}

#[test]
fn texture_references_read_what_is_bound() {
    let node = node();
    for (wrapper, words) in [
        ("mgb-clang++", "--mgb-legacy --offload-arch=sm_90 -O1"),
        ("mgb-nvcc", "--mgb-legacy -arch=sm_90 -O1"),
    ] {
        assert_eq!(run(&mut compile(&node, wrapper, "bound.cu", words)).success(), "");
        let program = node.folder().join("bound");
        let mut link = node.command(bin("mgb-clang++"), &["bound.cu.o", "-o"]);
        run(link.current_dir(node.folder()).arg(&program)).success();
        for mode in ["off", "require"] {
            let ended = run(node.command(&program, &[]).env("MGB", mode));
            assert_eq!(
                (ended.code(), ended.stdout.as_str()),
                (0, "as bound\n"),
                "{wrapper} {mode}: {}",
                ended.stderr
            );
        }
    }
}

#[test]
fn texture_references_and_c_compile() {
    let node = node();
    for (wrapper, source, words) in [
        ("mgb-clang++", "textures.cu", "--offload-arch=sm_90"),
        ("mgb-nvcc", "textures.cu", "-arch=sm_90"),
        ("mgb-nvcc", "textures.cu", "-arch=sm_90 --keep-nvcc"),
        ("mgb-nvcc", "calls.cu", "-arch=sm_90 --keep-nvcc"),
        ("mgb-clang", "host.c", "-Werror"),
    ] {
        let ended = run(compile(&node, wrapper, source, words).env("MGB_LEGACY", "1"));
        assert_eq!(
            (ended.code(), ended.stderr.as_str()),
            (0, ""),
            "{wrapper} {source} {words}"
        );
    }
}

#[test]
fn who_compiles_without_it_is_told() {
    let node = node();
    for nvcc in [None, Some("/no such nvcc")] {
        let mut command = compile(&node, "mgb-nvcc", "calls.cu", "-arch=sm_90");
        command.envs(nvcc.map(|nvcc| ("MGB_NVCC", nvcc)));
        run(&mut command).failure(&["--mgb-legacy, or MGB_LEGACY=1, brings back "]);
    }
}

/// A file without device code: what it includes of CUDA brings what was dropped, and its structures are those of
/// files with device code.
#[test]
fn files_without_device_code_get_it_with_cudas_headers() {
    let node = node();
    let device = "int clock_of(const cudaDeviceProp &prop) { return prop.clockRate; }\n";
    node.write("device.cu", device);
    for header in ["cuda_runtime.h", "cuda_runtime_api.h"] {
        let host = format!(
            "#include <{header}>\n#include <cstdio>\nint clock_of(const cudaDeviceProp &);\n\
             int main() {{\n  cudaDeviceProp prop;\n\
               if (cudaGetDeviceProperties(&prop, 0) || cudaThreadSynchronize()) return 1;\n\
               std::puts(prop.clockRate == clock_of(prop) ? \"PASS\" : \"FAIL\");\n}}\n"
        );
        node.write("host.cpp", &host);
        for wrapper in ["mgb-clang++", "mgb-nvcc"] {
            for (file, arch) in [("host.cpp", ""), ("device.cu", "-O1")] {
                let mut compile = node.command(bin(wrapper), &["--mgb-legacy", "-c", file]);
                compile.current_dir(node.folder()).env("MGB_KEEP_NVCC", "0");
                run(compile.args(arch.split_whitespace())).success();
            }
            let mut link = node.command(bin(wrapper), &["host.o", "device.o", "-o", "both"]);
            run(link.current_dir(node.folder())).success();
            let said = run(&mut node.command(node.folder().join("both"), &[])).success();
            assert_eq!(said, "PASS\n", "{header} {wrapper}");
        }
    }
    // A file that includes no CUDA may use CUDA's names.
    node.write(
        "plain.cpp",
        "struct cudaDeviceProp { int texture, dim3; };\nint main() { return cudaDeviceProp().dim3; }\n",
    );
    let mut compile = node.command(bin("mgb-clang++"), &["--mgb-legacy", "-c", "plain.cpp"]);
    run(compile.current_dir(node.folder())).success();
}
