//! What the pass reads off device code that nvcc made: the same source has the same tasks, needs, variables
//! and ties whether clang or nvcc compiles it, and what nvcc's code does not show stays unknown.

use std::fs;
use std::path::Path;

use mgb_tests::node::PrivateNode;
use mgb_tests::prefix::{bin, prefix};
use mgb_tests::process::{command, run};
use serde_json::Value;

/// Behind the kernels of a source: a task that launches `work`.
const MAIN: &str = "
int main() {
  int *x;
  cudaMalloc(&x, 512);
#ifdef COPY
  int host[4] = {};
  cudaMemcpyToSymbol(COPY, host, sizeof host);
#endif
  work<<<1, 32>>>(x);
  cudaFree(x);
}
";

/// A source that both compile: its kernels, the words of the command line, and what the report says.
struct CompileCase {
    name: &'static str,
    kernels: &'static str,
    words: &'static str,
    expected: &'static [&'static str],
}

const MOVABLE: &str = "movable nothing of the GPU";
const BY_ARCHITECTURE: &str = "\
__device__ int count;
__global__ void work(int *x) {
#if __CUDA_ARCH__ < 900
  atomicAdd(&count, 1);
#endif
  x[0] = 1;
}";
const THROUGH_FUNCTION: &str = "\
__constant__ int by[4];
__device__ __noinline__ int second(int i) { return by[i] + 1; }
__device__ __noinline__ int first(int i) { return second(i) * 3; }
__global__ void work(int *x) { x[0] = first(x[1]); }";

const SAME: [CompileCase; 15] = [
    CompileCase {
        name: "plain",
        kernels: "__global__ void work(int *x) { __shared__ int s[64]; s[threadIdx.x] = x[0]; __syncthreads();\n\
                  x[threadIdx.x] = s[31 - threadIdx.x]; }",
        words: "",
        expected: &[MOVABLE, "shared 256", "registers a thread"],
    },
    CompileCase {
        name: "unused",
        kernels: "__device__ int count;\n__global__ void other() { count++; }\n\
                  __global__ void work(int *x) { *x += 1; }",
        words: "",
        expected: &[MOVABLE],
    },
    CompileCase {
        name: "written",
        kernels: "__device__ int count;\n__global__ void work(int *x) { *x = atomicAdd(&count, 1); }",
        words: "",
        expected: &[
            "uses the device variable count",
            "count: 4 bytes, a device variable",
        ],
    },
    CompileCase {
        name: "within",
        kernels: "__global__ void work(int *x) { static __device__ int inner; *x = inner++; }",
        words: "",
        expected: &["uses the device variable work(int*)::inner"],
    },
    CompileCase {
        name: "constant",
        kernels: "__constant__ int by[4] = {1, 2, 3, 4};\n__global__ void work(int *x) { *x = by[*x]; }",
        words: "",
        expected: &[MOVABLE],
    },
    CompileCase {
        name: "through",
        kernels: THROUGH_FUNCTION,
        words: "-DCOPY=by",
        expected: &["uses the device variable by", "by: 16 bytes, a device variable"],
    },
    CompileCase {
        name: "copied_elsewhere",
        kernels: "__constant__ int by[4];\n__global__ void other(int *x) { *x = by[1]; }\n\
                  __global__ void work(int *x) { *x += 1; }",
        words: "-DCOPY=by",
        expected: &["launch work(int*)  [#1]\n"],
    },
    CompileCase {
        name: "given_on",
        kernels: "__device__ int table[4], other[4];\n__device__ __noinline__ void set(int *p) { *p = 1; }\n\
                  __global__ void work(int *x) { set(table + *x); }",
        words: "",
        expected: &["uses the device variable table"],
    },
    CompileCase {
        name: "printing",
        kernels: "#include <cassert>\n#include <cstdio>\n\
                  __global__ void work(int *x) { assert(*x); printf(\"%d %s\\n\", *x, x[1] ? \"a\" : \"b\"); }",
        words: "",
        expected: &[MOVABLE],
    },
    CompileCase {
        name: "heap",
        kernels: "__global__ void work(int *x) { int *y = (int *)malloc(*x); if (y) *y = 1; x[1] = *y; free(y); }",
        words: "",
        expected: &["allocates memory itself"],
    },
    CompileCase {
        name: "pointer",
        kernels: "__device__ int one(int x) { return x; }\n__device__ int two(int x) { return 2 * x; }\n\
                  __global__ void work(int *x) { int (*f[2])(int) = {one, two}; *x = f[*x](*x); }",
        words: "",
        expected: &["calls through pointers", "uses the address of a function"],
    },
    CompileCase {
        name: "address",
        kernels: "__device__ int here;\n__global__ void work(int *x) { *(int **)x = &here; }",
        words: "",
        expected: &[
            "gives away the address of a device variable",
            "uses the device variable here",
        ],
    },
    CompileCase {
        name: "texture",
        kernels: "__global__ void work(int *x) { int y; asm(\"suld.b.1d.b32.trap %0, [%1, {%2}];\"\n\
                  : \"=r\"(y) : \"l\"(1ll), \"r\"(0)); *x = y; }",
        words: "",
        expected: &["uses a texture or surface"],
    },
    CompileCase {
        name: "architectures",
        kernels: BY_ARCHITECTURE,
        words: "-gencode arch=compute_80,code=[sm_80,compute_80] -gencode arch=compute_90,code=[sm_90,compute_90]",
        expected: &["uses the device variable count"],
    },
    CompileCase {
        name: "compressed",
        kernels: THROUGH_FUNCTION,
        words: "-DCOPY=by -Xfatbin -compress-all",
        expected: &["uses the device variable by", "registers a thread"],
    },
];

/// By nvcc or by clang, in the node's folder; the object's name begins with who compiles. `words`: separated
/// by blanks.
fn compile(node: &PrivateNode, name: &str, words: &str, by_nvcc: bool) -> String {
    let object = format!("{}-{name}.o", if by_nvcc { "nvcc" } else { "clang" });
    let mut command = node.command(
        bin("mgb-nvcc"),
        &["-O2", "-c", &format!("{name}.cu"), "-o", &object],
    );
    if !words.contains("arch=") {
        command.arg("-arch=sm_90");
    }
    command.current_dir(node.folder()).args(words.split_whitespace());
    run(command.env("MGB_KEEP_NVCC", if by_nvcc { "1" } else { "0" })).success();
    object
}

fn explain(node: &PrivateNode, object: &str, options: &[&str]) -> String {
    let mut command = command(bin("mgb"), &["explain"]);
    run(command.args(options).arg(node.folder().join(object))).success()
}

/// What both compilers are to agree on: not how many registers they take.
fn facts(node: &PrivateNode, object: &str) -> Value {
    let mut report: Value = serde_json::from_str(&explain(node, object, &["--json"])).expect("it is JSON");
    for task in report[0]["tasks"].as_array_mut().expect("there are tasks") {
        if let Some(registers) = task.pointer_mut("/need/registers") {
            *registers = Value::Null;
        }
    }
    report
}

#[test]
fn the_same_as_by_clang() {
    let node = PrivateNode::without_mgbd("1x64MiB");
    let mut wrong = Vec::new();
    for CompileCase {
        name,
        kernels,
        words,
        expected,
    } in SAME
    {
        node.write(&format!("{name}.cu"), &format!("{kernels}{MAIN}"));
        let object = compile(&node, name, words, true);
        let text = explain(&node, &object, &[]);
        for fragment in expected.iter().filter(|&&fragment| !text.contains(fragment)) {
            wrong.push(format!("{name}: no `{fragment}` in\n{text}"));
        }
        let by_clang = compile(&node, name, &words.replace("-Xfatbin -compress-all", ""), false);
        if facts(&node, &object) != facts(&node, &by_clang) {
            let other = explain(&node, &by_clang, &[]);
            wrong.push(format!("{name}: by nvcc\n{text}\nby clang\n{other}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn functions_and_variables_of_other_files_are_not_known() {
    let node = PrivateNode::without_mgbd("1x64MiB");
    let says = |name: &str, kernels: &str, expected: &str| {
        node.write(&format!("{name}.cu"), &format!("{kernels}{MAIN}"));
        let text = explain(&node, &compile(&node, name, "-rdc=true", true), &[]);
        assert!(text.contains(expected), "{name}: no `{expected}` in\n{text}");
    };
    says(
        "function",
        "extern __device__ int there(int);\n__device__ int here(int x) { return there(x); }\n\
         __global__ void work(int *x) { *x = here(*x); }",
        "may use device variables of other files, by functions there",
    );
    says(
        "variable",
        "extern __device__ int there;\n__global__ void work(int *x) { *x = there; }",
        "work(int*) uses the device variable there",
    );
    // Another file may hand its address to this kernel.
    says(
        "visible",
        "__device__ int seen;\n__global__ void other() { seen = 1; }\n__global__ void work(int *x) { *x = 1; }",
        "work(int*) uses the device variable seen",
    );
    says(
        "own",
        "static __device__ int by = 3;\n__global__ void work(int *x) { *x = by; }",
        MOVABLE,
    );
}

#[test]
fn machine_code_without_its_ptx() {
    let node = PrivateNode::without_mgbd("1x64MiB");
    let object = |name: &str| {
        let words = "-gencode arch=compute_80,code=sm_80 -gencode arch=compute_90,code=[sm_90,compute_90]";
        compile(&node, name, &format!("{words} --keep --keep-dir kept"), true)
    };
    fs::create_dir(node.folder().join("kept")).expect("the folder is new");
    node.write("count.cu", &format!("{BY_ARCHITECTURE}{MAIN}"));
    node.write(
        "none.cu",
        &format!("__global__ void work(int *x) {{ x[0] = 1; }}{MAIN}"),
    );
    // nvcc embeds no PTX for the first architecture, but has made it.
    assert!(explain(&node, &object("count"), &[]).contains("uses the device variable count"));
    assert!(explain(&node, &object("none"), &[]).contains(MOVABLE));
    // The host compiler alone, where that is gone: no variable is none to use, and one that is there may be
    // used.
    for name in ["count", "none"] {
        fs::remove_file(node.folder().join(format!("kept/{name}.compute_80.ptx"))).expect("nvcc has kept it");
    }
    let again = |name: &str, assumed: &str| {
        let source = format!("kept/{name}.compute_90.cudafe1.cpp");
        let include = prefix().join("cuda/include");
        let words = ["-O2", "-D__CUDA_ARCH_LIST__=800,900", "-c", "-x", "c++", "-w"];
        let mut clang = node.command(bin("mgb-clang++"), &words);
        clang.arg("-I").arg(include).args([&source, "-o", "again.o"]);
        run(clang.current_dir(node.folder()).env("MGB_ASSUME", assumed)).success();
        explain(&node, "again.o", &[])
    };
    for name in ["count", "none"] {
        let text = again(name, "");
        assert!(text.contains("(0 static, 1 lazy)"), "{text}");
        assert!(text.contains("address-escapes"), "{text}");
    }
    let text = again("count", "escape");
    assert!(
        text.contains("work(int*) is compiled by nvcc, where it may use device variables"),
        "{text}"
    );
    assert!(text.contains("registers a thread"), "{text}");
    let text = again("none", "escape");
    assert!(
        text.contains("is known as machine code only") && !text.contains("may use"),
        "{text}"
    );
    assert!(!Path::new("again.o").exists());
}

#[test]
fn every_compression_that_nvcc_has() {
    let node = PrivateNode::without_mgbd("1x64MiB");
    node.write("modes.cu", &format!("{THROUGH_FUNCTION}{MAIN}"));
    for mode in ["none", "size", "speed", "balance", "default"] {
        // One image that cannot be read would leave all unknown.
        let words = format!("-DCOPY=by --compress-mode={mode}");
        let text = explain(&node, &compile(&node, "modes", &words, true), &[]);
        assert!(text.contains("launch work(int*)  [#1 #2]"), "{mode}: {text}");
        assert!(text.contains("by: 16 bytes, a device variable"), "{mode}: {text}");
    }
}

#[test]
fn what_a_compile_has_found_is_there_at_the_link_of_a_whole_program() {
    let node = PrivateNode::without_mgbd("1x64MiB");
    let of_nvcc = "\
__device__ int tally;
__global__ void counts(int *x) { x[0] = tally++; }
__global__ void work(int *x) { x[0] = 1; }
void counting() { int *x; cudaMalloc(&x, 512); counts<<<1, 1>>>(x); cudaFree(x); }
";
    node.write(
        "nvcc.cu",
        &format!("{of_nvcc}{}", MAIN.replace("int main", "void other")),
    );
    node.write(
        "clang.cu",
        "void other(); void counting(); int main() { other(); counting(); }",
    );
    let objects = [
        compile(&node, "nvcc", "-Xcompiler -flto", true),
        compile(&node, "clang", "-Xcompiler -flto", false),
    ];
    let mut link = node.command(bin("mgb-clang++"), &["-O2", "-flto", "-o", "whole"]);
    run(link.current_dir(node.folder()).args(objects)).success();
    let text = explain(&node, "whole", &[]);
    assert!(
        text.contains("counts(int*) uses the device variable tally"),
        "{text}"
    );
    assert!(
        text.contains(MOVABLE) && !text.contains("compiled by nvcc"),
        "{text}"
    );
}

/// What PTX shows of addresses that kernels keep: of each kernel whether its task is static.
#[test]
fn addresses_that_kernels_keep() {
    let node = PrivateNode::without_mgbd("1x64MiB");
    let kept = [
        ("memory", "__global__ void work(int *x) { *(int **)x = x; }"),
        (
            "variable",
            "__device__ int *kept;\n__global__ void work(int *x) { kept = x + 1; }",
        ),
        (
            "atomic",
            "__device__ unsigned long long kept;\n\
             __global__ void work(int *x) { atomicExch(&kept, (unsigned long long)x); }",
        ),
        (
            "function",
            "__device__ __noinline__ void keep(int **at, int *x) { *at = x; }\n\
             __global__ void work(int *x) { keep((int **)x, x + 2); }",
        ),
        (
            "shared",
            "__global__ void work(int *x) { __shared__ int *all[32]; all[threadIdx.x] = x; __syncthreads();\n\
             *(int **)x = all[x[0]]; }",
        ),
    ];
    let forgotten = [
        (
            "data",
            "__device__ __noinline__ void add(int *x, int y) { *x += y; }\n\
             __global__ void work(int *x) { for (int *at = x, *end = x + 9; at != end; ++at) add(at, at[1]); }",
        ),
        (
            "tile",
            "__global__ void work(int *x) { __shared__ int all[32]; all[threadIdx.x] = *x; __syncthreads();\n\
             x[threadIdx.x] = all[x[0]] + (((size_t)x & 15) == 0); atomicAdd(x, 1); }",
        ),
        (
            "list",
            "struct Node { Node *next; int value; };\n__global__ void work(int *x) { int sum = 0;\n\
             for (Node *at = (Node *)x; at; at = at->next) sum += at->value; *x = sum; }",
        ),
    ];
    let mut wrong = Vec::new();
    for (cases, is_kept) in [(&kept[..], true), (&forgotten[..], false)] {
        for (name, kernels) in cases {
            node.write(&format!("{name}.cu"), &format!("{kernels}{MAIN}"));
            for (level, by_nvcc) in [("-O2", true), ("-G", true), ("-O0", false)] {
                let text = explain(&node, &compile(&node, name, level, by_nvcc), &[]);
                let says = text.contains("work(int*) may keep the address in its parameter 1");
                if says != is_kept || text.contains("1 lazy") != is_kept {
                    wrong.push(format!("{name} {level}, by nvcc: {by_nvcc}:\n{text}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
