//! Programs with textures and surfaces: the same natively and under MGB, alone and where memory is short; and
//! what they get wrong has a name.

use mgb_tests::node::PrivateNode;
use mgb_tests::process::{RunningProgram, run};

/// Reads an image by a texture of an array, writes what it reads by a surface, and looks the result up by a
/// texture of linear memory, which has been somewhere else meanwhile. Prints sums, which a model checks.
const SOURCE: &str = r#"
#include <cstdio>
#include <cstdlib>
#include <vector>
#define CHECK(call) do { cudaError_t code = call; if (code) { printf("%s: %s\n", #call, cudaGetErrorName(code)); exit(2); } } while (0)
const int kSide = 64;
__global__ void turn(cudaTextureObject_t image, cudaSurfaceObject_t turned) {
  int x = blockIdx.x * 16 + threadIdx.x, y = blockIdx.y * 16 + threadIdx.y;
  surf2Dwrite(tex2D<float>(image, (y + 1.0f) / kSide, (kSide - 1 - x + 0.5f) / kSide), turned, x * 4, y);
}
__global__ void look(cudaTextureObject_t table, const int *at, int *out) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  out[i] = tex1Dfetch<int>(table, at[i]);
}
int main(int argc, char **argv) {
  const int n = atoi(argv[1]) << 18, side = kSide * kSide;
  std::vector<float> image(side), turned(side);
  for (int i = 0; i < side; i++) image[i] = float(i * 37 % 1000);
  cudaArray_t from, to;
  cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
  CHECK(cudaMallocArray(&from, &format, kSide, kSide));
  CHECK(cudaMallocArray(&to, &format, kSide, kSide, cudaArraySurfaceLoadStore));
  CHECK(cudaMemcpy2DToArray(from, 0, 0, image.data(), 4 * kSide, 4 * kSide, kSide, cudaMemcpyHostToDevice));
  cudaResourceDesc resource = {};
  resource.resType = cudaResourceTypeArray;
  resource.res.array.array = from;
  cudaTextureDesc settings = {};
  settings.addressMode[0] = settings.addressMode[1] = cudaAddressModeWrap;
  settings.filterMode = cudaFilterModeLinear;
  settings.normalizedCoords = 1;
  cudaTextureObject_t read, table;
  cudaSurfaceObject_t written;
  CHECK(cudaCreateTextureObject(&read, &resource, &settings, nullptr));
  resource.res.array.array = to;
  CHECK(cudaCreateSurfaceObject(&written, &resource));

  std::vector<int> values(n), places(n), found(n);
  for (int i = 0; i < n; i++) values[i] = i * 7 + 1, places[i] = (i * 11ll + 5) % n;
  int *device_values, *device_places;
  CHECK(cudaMalloc(&device_values, n * 4ll));
  CHECK(cudaMemcpy(device_values, values.data(), n * 4ll, cudaMemcpyHostToDevice));
  cudaResourceDesc linear = {};
  linear.resType = cudaResourceTypeLinear;
  linear.res.linear.devPtr = device_values;
  linear.res.linear.desc = cudaCreateChannelDesc<int>();
  linear.res.linear.sizeInBytes = n * 4ll;
  cudaTextureDesc plain = {};
  CHECK(cudaCreateTextureObject(&table, &linear, &plain, nullptr));
  CHECK(cudaMalloc(&device_places, n * 4ll));
  CHECK(cudaMemcpy(device_places, places.data(), n * 4ll, cudaMemcpyHostToDevice));

  for (int round = 0; round < 4; round++) {
    turn<<<dim3(4, 4), dim3(16, 16)>>>(read, written);
    look<<<n / 256, 256>>>(table, device_places, device_places);
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpy(found.data(), device_places, n * 4ll, cudaMemcpyDeviceToHost));
    CHECK(cudaMemcpy(device_places, places.data(), n * 4ll, cudaMemcpyHostToDevice));
    for (int i = 0; i < n; i++) if (found[i] != values[places[i]]) return printf("round %d: found[%d] is %d\n", round, i, found[i]), 1;
  }
  CHECK(cudaMemcpy2DFromArray(turned.data(), 4 * kSide, to, 0, 0, 4 * kSide, kSide, cudaMemcpyDeviceToHost));
  double sum = 0;
  for (int y = 0; y < kSide; y++)
    for (int x = 0; x < kSide; x++) {
      const float *row = &image[(kSide - 1 - x) * kSide];
      if (turned[y * kSide + x] != (row[y] + row[(y + 1) % kSide]) / 2) return printf("(%d, %d) is %g\n", x, y, turned[y * kSide + x]), 1;
      sum += turned[y * kSide + x];
    }
  CHECK(cudaDestroyTextureObject(read));
  CHECK(cudaDestroyTextureObject(table));
  CHECK(cudaDestroySurfaceObject(written));
  CHECK(cudaFreeArray(from));
  CHECK(cudaFreeArray(to));
  CHECK(cudaFree(device_values));
  CHECK(cudaFree(device_places));
  printf("sum %.1f\n", sum);
}
"#;

/// Does what the argument says, of what a GPU leaves undefined or answers with a code alone.
const WRONG: &str = r#"
#include <cstdio>
#include <cstring>
__global__ void write(cudaSurfaceObject_t to, int x) { surf1Dwrite(7, to, x); }
__global__ void sample(cudaTextureObject_t from, float *to) { *to = tex1D<float>(from, 0.5f); }
__global__ void plane(cudaTextureObject_t from, float *to) { *to = tex2DLayered<float>(from, 0.5f, 0.5f, 0); }
int main(int, char **argv) {
  const char *what = argv[1];
  float *memory;
  cudaArray_t array;
  cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
  cudaMalloc(&memory, 4096);
  cudaMallocArray(&array, &format, 16, 0, cudaArraySurfaceLoadStore);
  cudaResourceDesc of_array = {}, linear = {};
  of_array.resType = cudaResourceTypeArray;
  of_array.res.array.array = array;
  linear.resType = cudaResourceTypeLinear;
  linear.res.linear.devPtr = memory;
  linear.res.linear.desc = format;
  linear.res.linear.sizeInBytes = 4096;
  cudaTextureDesc settings = {};
  cudaTextureObject_t texture, line;
  cudaSurfaceObject_t surface;
  if (cudaCreateTextureObject(&texture, &of_array, &settings, nullptr) || cudaCreateSurfaceObject(&surface, &of_array) ||
      cudaCreateTextureObject(&line, &linear, &settings, nullptr)) return 2;
  if (!strcmp(what, "outside")) write<<<1, 1>>>(surface, 64);
  if (!strcmp(what, "unscaled")) write<<<1, 1>>>(surface, 3);
  if (!strcmp(what, "linear")) sample<<<1, 1>>>(line, memory);
  if (!strcmp(what, "shape")) plane<<<1, 1>>>(texture, memory);
  if (!strcmp(what, "kind")) sample<<<1, 1>>>(surface, memory);
  if (!strcmp(what, "destroyed")) {
    cudaDestroyTextureObject(texture);
    sample<<<1, 1>>>(texture, memory);
  }
  if (!strcmp(what, "mipmaps")) {
    cudaMipmappedArray_t levels;
    cudaExtent extent = {16, 16, 0};
    printf("%s\n", cudaGetErrorName(cudaMallocMipmappedArray(&levels, &format, extent, 2)));
    return 0;
  }
  printf("%s\n", cudaGetErrorName(cudaDeviceSynchronize()));
}
"#;

fn build(node: &PrivateNode, source: &str) -> String {
    let source = node.write("source.cu", source);
    let program = node.folder().join("program");
    let path = |of: &std::path::Path| of.to_str().expect("paths of tests are UTF-8").to_owned();
    let words = [
        "clang++",
        "-O1",
        "-std=c++17",
        &path(&source),
        "-o",
        &path(&program),
    ];
    run(&mut node.mgb(&words)).success();
    path(&program)
}

#[test]
fn textures_read_the_same_natively_and_under_mgb() {
    let node = PrivateNode::start("1x64MiB", "mgb");
    let program = build(&node, SOURCE);
    let natively = run(node.command(&program, &["2"]).env("MGB", "off")).success();
    assert!(natively.starts_with("sum "), "{natively}");
    let under = run(node.command(&program, &["2"]).env("MGB", "require")).success();
    assert_eq!(under, natively);
    node.wait_until_empty();
}

/// Each holds 24 MiB of 40: they take turns, and what a texture reads has been in the host meanwhile.
#[test]
fn textures_read_the_same_where_memory_is_short() {
    let node = PrivateNode::start("1x40MiB", "mgb");
    let program = build(&node, SOURCE);
    let start = || RunningProgram::start(node.command(&program, &["12"]).env("MGB", "require"));
    let running = [start(), start(), start()];
    let printed = running.map(|one| one.end().success());
    assert!(printed.iter().all(|text| text.starts_with("sum ")), "{printed:?}");
    node.wait_until_empty();
}

#[test]
fn what_a_program_gets_wrong_has_a_name() {
    let node = PrivateNode::without_mgbd("1x64MiB");
    let program = build(&node, WRONG);
    for (what, code, says) in [
        ("outside", "cudaErrorLaunchFailure", "none at byte 64"),
        (
            "unscaled",
            "cudaErrorLaunchFailure",
            "no multiple of 4: x counts bytes",
        ),
        ("linear", "cudaErrorLaunchFailure", "which only tex1Dfetch reads"),
        (
            "shape",
            "cudaErrorLaunchFailure",
            "the instruction is for layered 2-D textures",
        ),
        ("kind", "cudaErrorLaunchFailure", "is a surface object"),
        (
            "destroyed",
            "cudaErrorLaunchFailure",
            "was never created, or is destroyed",
        ),
        ("mipmaps", "cudaErrorNotSupported", "a texture has one level"),
    ] {
        let ended = run(node.command(&program, &[what]).env("MGB", "off"));
        assert_eq!(ended.stdout.trim(), code, "{what}: {}", ended.stderr);
        assert!(ended.stderr.contains(says), "{what}: {}", ended.stderr);
    }
}
