//! A GPU that fails under a program: the program says so as it ends, whether it looks or not.

use std::process::Command;

use mgb_tests::node::Node;
use mgb_tests::process::run;

/// Launches once and ends as `END` says, with 0 in any case.
const SOURCE: &str = "__global__ void work(int *x) { x[threadIdx.x] += 1; }
int main() {
  int *x, y[32];
  cudaMalloc(&x, 128);
  work<<<1, 32>>>(x);
#if END == 1
  cudaMemcpy(y, x, 128, cudaMemcpyDeviceToHost);
#elif END == 2
  cudaMemcpy(y, x, 128, cudaMemcpyDeviceToHost);
  cudaDeviceReset();
#elif END == 3
  cudaMemcpy(y, x, 128, cudaMemcpyDeviceToHost);
  cudaDeviceReset();
  return cudaMalloc(&x, 128) || cudaMemset(x, 0, 128) || cudaMemcpy(y, x, 128, cudaMemcpyDeviceToHost);
#endif
  return 0;
}
";

fn with_failing(command: &mut Command) -> &mut Command {
    command.env("SOFTGPU_FAIL", "ecc@kernel=1")
}

#[test]
fn a_program_says_that_its_gpu_has_failed() {
    let node = Node::start("1x64MiB", "mgb");
    let source = node.write("careless.cu", SOURCE);
    let path = |of: &std::path::Path| of.to_str().expect("paths of tests are UTF-8").to_owned();
    // It never asks; it copies and does not look; it resets the device as it ends; it does so and begins
    // anew, and has so seen to it: all works again.
    for (end, says) in [(0, true), (1, true), (2, true), (3, false)] {
        let program = path(&node.folder().join(format!("careless{end}")));
        let define = format!("-DEND={end}");
        run(&mut node.mgb(&["clang++", "-O1", &define, &path(&source), "-o", &program])).success();
        let ended = run(with_failing(&mut node.mgb(&["run", &program])));
        assert_eq!(ended.code(), 0, "{end}: {ended:?}");
        let line = "mgb: the GPU failed under this program (CUDA error 214)";
        assert_eq!(ended.stderr.contains(line), says, "{end}: {ended:?}");
        let well = run(&mut node.mgb(&["run", &program]));
        assert!(!well.stderr.contains("failed"), "{end}: {well:?}");
    }
    node.wait_until_empty();
}
