//! Whether tasks may move: proven from device code, or the reason why not.

use mgb_tests::node::PrivateNode;
use mgb_tests::process::run;

/// Kernels in files of their own each, since what a file's variables do concerns all its kernels.
const KERNELS: [(&str, &str, &str); 6] = [
    (
        "plain",
        "__global__ void work(int *x) { x[threadIdx.x] += 1; }",
        "movable nothing of the GPU",
    ),
    (
        "constant",
        "__constant__ int by = 3;\n__global__ void work(int *x) { x[threadIdx.x] += by; }",
        "movable nothing of the GPU",
    ),
    (
        "heap",
        "__global__ void work(int *x) { int *y = (int *)malloc(4); if (y) *y = 1; free(y); *x = 1; }",
        "allocates memory itself",
    ),
    (
        "pointer",
        "__device__ int one(int x) { return x; }\n__device__ int two(int x) { return 2 * x; }\n\
         __global__ void work(int *x) { int (*f)(int) = *x ? one : two; *x = f(*x); }",
        "calls through pointers",
    ),
    (
        "address",
        "__device__ int here;\n__global__ void work(int *x) { *(int **)x = &here; }",
        "gives away the address of a device variable",
    ),
    (
        "texture",
        "__global__ void work(int *x) { int y; asm(\"suld.b.1d.b32.trap %0, [%1, {%2}];\" : \"=r\"(y) : \"l\"(1ll), \"r\"(0)); *x = y; }",
        "uses a texture or surface",
    ),
];

#[test]
fn what_is_proven_from_device_code_is_said() {
    let node = PrivateNode::without_mgbd("1x64MiB");
    let mut wrong = Vec::new();
    for (name, kernel, expected) in KERNELS {
        let source = node.write(
            &format!("{name}.cu"),
            &format!(
                "{kernel}\nint main() {{\n  int *x;\n  cudaMalloc(&x, 128);\n  work<<<1, 1>>>(x);\n  cudaFree(x);\n}}\n"
            ),
        );
        let text = |path: &std::path::Path| path.to_str().expect("paths of tests are UTF-8").to_owned();
        let object = text(&source.with_extension("o"));
        let words = ["clang++", "-O1", "-c", &text(&source), "-o", &object];
        run(&mut node.mgb(&words)).success();
        let shown = run(&mut node.mgb(&["explain", &object])).success();
        if !shown.contains(expected) || !shown.contains("task 1 in main, static") {
            wrong.push(format!("{name}: no `{expected}` in\n{shown}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
