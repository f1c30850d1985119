//! Memory that libraries take beside a program's tasks: what they took once is there for them the next time.

use std::fs;
use std::process::Command;

use mgb_tests::node::Node;
use mgb_tests::process::{Running, run};
use mgb_tests::wait;

const MIB: u64 = 1 << 20;

/// Holds 32 MiB, then, when the first file is there, takes 64 MiB as libraries do, past the runtime; ends with the second.
const SOURCE: &str = r#"#include <cstdio>
#include <dlfcn.h>
#include <unistd.h>
__global__ void work(int *x) { x[threadIdx.x] += 1; }
static void wait_for(const char *file) {
  while (access(file, F_OK) != 0)
    usleep(1000);
}
int main(int, char **files) {
  int *x;
  cudaMalloc(&x, 32 << 20);
  cudaMemset(x, 0, 32 << 20);
  work<<<1, 32>>>(x);
  cudaDeviceSynchronize();
  wait_for(files[1]);
  void *driver = dlopen("libcuda.so.1", RTLD_NOW);
  auto allocate = reinterpret_cast<int (*)(size_t *, size_t)>(dlsym(driver, "cuMemAlloc_v2"));
  size_t workspace;
  int error = allocate(&workspace, 64 << 20);
  if (error != 0) {
    fprintf(stderr, "the library has no memory (%d)\n", error);
    return 1;
  }
  wait_for(files[2]);
  work<<<1, 32>>>(x);
  cudaFree(x);
  return 0;
}
"#;

/// Wants 100 MiB.
const NEIGHBOUR: &str = "__global__ void work(int *x) { x[threadIdx.x] += 1; }
int main() {
  int *x;
  cudaMalloc(&x, 100 << 20);
  work<<<1, 32>>>(x);
  cudaFree(x);
  return cudaDeviceSynchronize();
}
";

#[test]
fn a_neighbour_does_not_take_what_a_library_will_need() {
    // 190 MiB: the library's program and its workspace fit, and its tasks beside the neighbour, but not all three.
    let node = Node::start("1x190MiB:ctx=2MiB", "mgb");
    let build = |name: &str, text: &str| {
        let source = node.write(&format!("{name}.cu"), text);
        let program = node.folder().join(name);
        let mut command = node.mgb(&["clang++", "-O1"]);
        run(command.arg(source).args(["-ldl", "-o"]).arg(&program)).success();
        program
    };
    let (with_library, neighbour) = (build("library", SOURCE), build("neighbour", NEIGHBOUR));
    let start = |program: &std::path::Path, turn: u32| {
        let files = ["takes", "ends"].map(|file| node.folder().join(format!("{file}{turn}")));
        let mut command: Command = node.mgb(&["run"]);
        (Running::start(command.arg(program).args(&files)), files)
    };
    let gpu = || node.view().gpus[0].clone();
    let touch = |file: &std::path::Path| fs::write(file, "").expect("a temporary folder can be written");

    let (first, files) = start(&with_library, 1);
    touch(&files[0]);
    wait::until("the overhead is seen", || {
        (gpu().overhead_bytes >= 64 * MIB).then_some(())
    });
    assert_eq!(gpu().foreign_bytes / MIB, 0, "{:?}", gpu());
    touch(&files[1]);
    first.end().success();
    node.wait_until_empty();

    let (second, files) = start(&with_library, 2);
    wait::until("it holds its memory", || {
        (gpu().reserved_bytes >= 32 * MIB).then_some(())
    });
    assert!(gpu().headroom_bytes >= 63 * MIB, "{:?}", gpu());
    let (waits, _) = start(&neighbour, 0);
    wait::until("the neighbour waits", || {
        (!node.view().queue.is_empty()).then_some(())
    });
    touch(&files[0]);
    wait::until("it is taken", || (gpu().headroom_bytes == 0).then_some(()));
    touch(&files[1]);
    second.end().success();
    waits.end().success();
    node.wait_until_empty();
}
