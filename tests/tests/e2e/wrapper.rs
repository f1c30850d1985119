//! The wrapper where people put it: under make with compile and link steps apart or together, under CMake,
//! and on its own command lines.

use std::path::{Path, PathBuf};

use mgb_tests::built;
use mgb_tests::node::PrivateNode;
use mgb_tests::prefix::{bin, prefix, repository};
use mgb_tests::process::{command, run};
use object::Object;

/// The shared libraries that a program names.
fn needed(program: &Path) -> Vec<String> {
    let ended = run(&mut command(
        "readelf",
        &["-d", program.to_str().expect("paths of tests are UTF-8")],
    ));
    let lines = ended.success();
    lines
        .lines()
        .filter(|l| l.contains("(NEEDED)"))
        .filter_map(|l| Some(l.split_once('[')?.1.trim_end_matches(']').to_owned()))
        .collect()
}

/// Checks that a program holds what MGB put there: the report, the runtime and one, shared libcudart.
pub fn check_program(program: &Path) {
    let bytes = std::fs::read(program).expect("the program was built");
    let file = object::File::parse(&*bytes).expect("is a program");
    assert!(
        file.section_by_name(".mgb.report").is_some(),
        "{}: no report",
        program.display()
    );
    let needed = needed(program);
    assert!(needed.iter().any(|l| l.starts_with("libmgb_rt.so")), "{needed:?}");
    assert_eq!(
        needed.iter().filter(|l| l.starts_with("libcudart")).count(),
        1,
        "{needed:?}"
    );
    assert!(needed.iter().any(|l| l == "libcudart.so.13"), "{needed:?}");
}

/// Runs `vecadd` on the node, and checks what it prints.
pub fn check_output(node: &PrivateNode, program: &Path) {
    let ended = run(&mut node.command(program, &["1000"]));
    assert_eq!(ended.success(), "vecadd: n=1000 PASS\n");
}

#[test]
fn compile_and_link_together() {
    let node = PrivateNode::start("1x64MiB", "mgb");
    let program = built::program("vecadd");
    check_program(&program);
    check_output(&node, &program);
}

#[test]
fn compile_and_link_apart() {
    let node = PrivateNode::start("1x64MiB", "mgb");
    let program = node.folder().join("apart/vecadd");
    let mut make = built::make("examples", "-O1", &node.folder().join("apart"));
    run(make.arg("LINK=apart").arg(&program)).success();
    check_program(&program);
    check_output(&node, &program);
}

#[test]
fn under_cmake() {
    assert!(which("cmake").is_some(), "cmake is missing: run `make setup`");
    let node = PrivateNode::start("1x64MiB", "mgb");
    let build = node.folder().join("cmake");
    let mut configure = node.command("cmake", &["-DCMAKE_CUDA_ARCHITECTURES=90"]);
    configure.arg("-DCMAKE_CUDA_FLAGS=--offload-arch=sm_90");
    configure.arg(format!("-DCUDAToolkit_ROOT={}", prefix().join("cuda").display()));
    configure
        .arg("-S")
        .arg(repository().join("examples"))
        .arg("-B")
        .arg(&build);
    configure.arg(format!("-DCMAKE_CUDA_COMPILER={}", bin("mgb-clang++").display()));
    run(&mut configure).success();
    let mut compile = node.command("cmake", &["--build"]);
    run(compile.arg(&build).args(["--target", "vecadd"])).success();
    check_program(&build.join("vecadd"));
    check_output(&node, &build.join("vecadd"));
}

/// The object of an example, to be linked in several ways.
fn vecadd_object(node: &PrivateNode) -> PathBuf {
    let object = node.folder().join("vecadd.o");
    let mut compile = node.command(bin("mgb-clang++"), &["--offload-arch=sm_90", "-O1", "-c"]);
    run(compile
        .arg(repository().join("examples/vecadd.cu"))
        .arg("-o")
        .arg(&object))
    .success();
    object
}

#[test]
fn a_static_libcudart_becomes_the_shared_one() {
    let node = PrivateNode::start("1x64MiB", "mgb");
    let object = vecadd_object(&node);
    for library in ["-lcudart_static", "-l:libcudart_static.a", "-lcudart"] {
        let program = node.folder().join("vecadd");
        let mut link = node.command(bin("mgb-clang++"), &[]);
        run(link.arg(&object).arg(library).arg("-o").arg(&program)).success();
        check_program(&program);
    }
    check_output(&node, &node.folder().join("vecadd"));
}

#[test]
fn objects_are_linked_whatever_a_makefile_calls_cuda_path() {
    let node = PrivateNode::start("1x64MiB", "mgb");
    let object = vecadd_object(&node);
    let program = node.folder().join("vecadd");
    let mut link = node.command(bin("mgb-clang++"), &[]);
    run(link
        .arg(&object)
        .arg("-o")
        .arg(&program)
        .env("CUDA_PATH", "src/kernels"))
    .success();
    check_program(&program);
    check_output(&node, &program);
}

#[test]
fn programs_without_cuda_are_left_alone() {
    let node = PrivateNode::without_mgbd("1x64MiB");
    let source = node.write(
        "hello.c",
        "#include <stdio.h>\nint main(void) { puts(\"hello\"); return 0; }\n",
    );
    let object = node.folder().join("hello.o");
    run(node
        .command(bin("mgb-clang"), &["-c"])
        .arg(&source)
        .arg("-o")
        .arg(&object))
    .success();
    let bytes = std::fs::read(&object).expect("the object was built");
    let file = object::File::parse(&*bytes).expect("is an object");
    assert!(file.section_by_name(".mgb.report").is_none());
}

#[test]
fn errors_of_the_compiler_pass_through() {
    let node = PrivateNode::without_mgbd("1x64MiB");
    let source = node.write("broken.cu", "int main() { return missing; }\n");
    let mut compile = node.command(bin("mgb-clang++"), &["-c"]);
    run(compile.arg(&source)).failure(&["broken.cu:1", "missing"]);
}

fn which(program: &str) -> Option<std::path::PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|folder| folder.join(program))
        .find(|file| file.is_file())
}

/// clang ignores the word, and would make host memory of such a variable.
#[test]
fn managed_variables_are_refused() {
    let node = PrivateNode::without_mgbd("1x64MiB");
    let uses = |word: &str| {
        format!(
            "{word} int shared_by_both[4];\n__global__ void work(int *x) {{ x[0] = 1; }}\n\
             int main() {{ work<<<1, 1>>>(shared_by_both); }}\n"
        )
    };
    for word in [
        "__managed__",
        "static __device__ __managed__",
        "extern __managed__",
    ] {
        node.write("managed.cu", &uses(word));
        let mut compile = node.command(bin("mgb-clang++"), &["--offload-arch=sm_90", "-c", "managed.cu"]);
        run(compile.current_dir(node.folder())).failure(&[
            "managed.cu:1:",
            "clang has no __managed__ variables",
            "cudaMallocManaged",
            "--keep-nvcc",
        ]);
    }
    // The word alone is nobody's fault.
    node.write(
        "plain.cu",
        "#ifdef __managed__\n__global__ void work() {}\n#endif\n",
    );
    let mut compile = node.command(
        bin("mgb-clang++"),
        &["--offload-arch=sm_90", "-Werror", "-c", "plain.cu"],
    );
    let ended = run(compile.current_dir(node.folder()));
    assert_eq!(ended.stderr, "");
    ended.success();
}
