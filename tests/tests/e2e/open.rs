//! Closed or open: a program through which device pointers reach code that MGB did not compile is found to be
//! open, by the pass or by lazyrt, whichever way that code came to it, and such code can use the pointers at
//! once.

use std::path::{Path, PathBuf};

use mgb_tests::node::PrivateNode;
use mgb_tests::prefix::{bin, prefix};
use mgb_tests::process::{RunningProgram, run};
use mgb_tests::trace;

/// Allocates, has `other` fill the memory, and looks at what came.
const MAIN: &str = r#"
#include <cuda_runtime.h>
#include <cstdio>
extern "C" int other(void *memory, size_t bytes);
int main() {
  unsigned char *memory, byte = 0;
  if (cudaMalloc(&memory, 4096) != cudaSuccess || other(memory, 4096) != 0) return 1;
  if (cudaMemcpy(&byte, memory + 4095, 1, cudaMemcpyDeviceToHost) != cudaSuccess) return 2;
  printf("%d\n", byte);
  return cudaFree(memory) != cudaSuccess;
}
"#;
const FILLS: &str = r#"
#include <cuda_runtime.h>
extern "C" int other(void *memory, size_t bytes) { return cudaMemset(memory, 7, bytes); }
"#;
const DOES_NOTHING: &str = r#"
#include <cstddef>
extern "C" int other(void *, size_t) { return 0; }
"#;

/// A node, and what is built in its folder.
struct Workshop {
    node: PrivateNode,
}

impl Workshop {
    fn new() -> Self {
        Self {
            node: PrivateNode::start("1x64MiB", "mgb"),
        }
    }

    /// Compiles a source, with MGB or as somebody else would, to an object.
    fn compile(&self, name: &str, source: &str, with_mgb: bool) -> PathBuf {
        let source = self.node.write(&format!("{name}.cpp"), source);
        let object = self.node.folder().join(format!("{name}.o"));
        let mut compile = self.compiler(with_mgb);
        compile.args(["-O1", "-fPIC", "-c", "-isystem"]);
        compile
            .arg(prefix().join("cuda/include"))
            .arg(&source)
            .arg("-o")
            .arg(&object);
        run(&mut compile).success();
        object
    }

    fn compiler(&self, with_mgb: bool) -> std::process::Command {
        if with_mgb {
            self.node.command(bin("mgb-clang++"), &[])
        } else {
            self.node.command("c++", &[])
        }
    }

    /// Links as somebody else would.
    fn library(&self, object: &Path, libraries: &[&str]) -> PathBuf {
        let library = object.with_file_name("libother.so");
        let mut link = self.compiler(false);
        link.arg("-shared")
            .arg(object)
            .arg("-o")
            .arg(&library)
            .arg("-L")
            .arg(prefix().join("cuda/lib64"));
        run(link.args(libraries)).success();
        library
    }

    /// Links with MGB.
    fn link(&self, parts: &[PathBuf]) -> PathBuf {
        let program = self.node.folder().join("program");
        let mut link = self.compiler(true);
        link.args(parts)
            .arg("-o")
            .arg(&program)
            .args(["-ldl", "-lpthread"]);
        run(link.arg(format!("-Wl,-rpath,{}", self.node.folder().display()))).success();
        program
    }

    /// Links with MGB, runs, and gives what the program printed and why it was open.
    fn run(&self, parts: &[PathBuf]) -> (String, Option<String>) {
        let (printed, process) = self.run_traced(parts);
        (printed, process.open)
    }

    /// The same, with all that its line of trace says.
    fn run_traced(&self, parts: &[PathBuf]) -> (String, trace::TracedProcess) {
        let program = self.link(parts);
        let file = self.node.folder().join("trace");
        let _ = std::fs::remove_file(&file);
        let ended = run(self.node.command(&program, &[]).env("MGB_TRACE", &file));
        let printed = ended.success().to_owned();
        let mut processes = trace::read(&file).expect("the trace can be read");
        (printed, processes.pop().expect("there is a line"))
    }
}

#[test]
fn what_mgb_compiled_alone_is_closed() {
    let workshop = Workshop::new();
    let parts = [
        workshop.compile("main", MAIN, true),
        workshop.compile("other", FILLS, true),
    ];
    assert_eq!(workshop.run(&parts), ("7\n".to_owned(), None));
}

/// As nvcc links it: MPS refuses such modules.
#[test]
fn a_program_whose_kernels_launch_kernels_stays_outside_mps() {
    let sources = "__attribute__((section(\"__nv_module_id\"), used)) static const char sources[] = \
                   \"_0_22_cuda_device_runtime_cu_0\";\n";
    let workshop = Workshop::new();
    let parts = ["main", "other"].map(|name| {
        let source = if name == "main" { MAIN } else { FILLS };
        workshop.compile(name, source, true)
    });
    let (_, process) = workshop.run_traced(&parts);
    assert_eq!(process.outside_mps, None);
    let nested = workshop.compile("nested", sources, false);
    let (printed, process) = workshop.run_traced(&[&parts[..], &[nested]].concat());
    let why = "kernels of program launch kernels, which MPS refuses";
    assert_eq!(
        (printed.as_str(), process.outside_mps.as_deref()),
        ("7\n", Some(why))
    );
}

#[test]
fn a_program_that_may_load_libraries_is_open() {
    let workshop = Workshop::new();
    let other = "#include <dlfcn.h>\n#include <cstddef>\nextern \"C\" int other(void *, size_t) { return !dlopen(nullptr, RTLD_NOW); }\n";
    let main = workshop.compile("main", MAIN, true);
    // In a module without CUDA the pass says nothing; whoever compiled it, lazyrt sees it in the program.
    for with_mgb in [true, false] {
        let (_, why) = workshop.run(&[main.clone(), workshop.compile("other", other, with_mgb)]);
        assert_eq!(
            why.as_deref(),
            Some("the program may load a library that uses CUDA (dlopen)")
        );
    }
}

#[test]
fn an_archive_that_calls_the_runtime_is_seen() {
    let workshop = Workshop::new();
    let main = workshop.compile("main", MAIN, true);
    let other = workshop.compile("other", FILLS, false);
    let archive = other.with_file_name("libother.a");
    let mut pack = workshop.node.command("ar", &["rcs"]);
    run(pack.arg(&archive).arg(&other)).success();
    let (printed, why) = workshop.run(&[main, archive]);
    assert_eq!(printed, "7\n");
    assert_eq!(
        why.as_deref(),
        Some("the program calls cudaMemset from an object that was not built with MGB")
    );
}

#[test]
fn an_archive_that_calls_the_driver_is_seen() {
    let workshop = Workshop::new();
    let main = workshop.compile("main", MAIN, true);
    let other = "#include <cuda.h>\nextern \"C\" int other(void *memory, size_t bytes) { return cuMemsetD8((CUdeviceptr)memory, 7, bytes); }\n";
    let other = workshop.compile("other", other, false);
    // A machine without a GPU has no other driver to link with.
    let driver = prefix().join("lib/softgpu/libcuda.so.1");
    let (printed, why) = workshop.run(&[main, other, driver]);
    assert_eq!(printed, "7\n");
    assert_eq!(
        why.as_deref(),
        Some("the program calls the CUDA driver API (cuMemsetD8_v2)")
    );
}

#[test]
fn a_library_that_was_not_built_with_mgb_is_seen() {
    let workshop = Workshop::new();
    let main = workshop.compile("main", MAIN, true);
    let library = workshop.library(&workshop.compile("other", FILLS, false), &["-l:libcudart.so.13"]);
    let (printed, why) = workshop.run(&[main, library]);
    assert_eq!(printed, "7\n");
    assert_eq!(
        why.as_deref(),
        Some("libother.so uses the CUDA runtime and was not built with MGB")
    );
}

#[test]
fn a_library_with_a_runtime_of_its_own_is_seen() {
    let workshop = Workshop::new();
    let main = workshop.compile("main", MAIN, true);
    // It is not called: its runtime is NVIDIA's, not the software GPU's.
    let other = format!("{}\n{}", FILLS.replace("other", "unused"), DOES_NOTHING);
    let runtime = [
        "-Wl,--exclude-libs,ALL",
        "-lcudart_static",
        "-ldl",
        "-lrt",
        "-lpthread",
    ];
    let library = workshop.library(&workshop.compile("other", &other, false), &runtime);
    let (_, why) = workshop.run(&[main, library]);
    assert_eq!(
        why.as_deref(),
        Some("libother.so has a CUDA runtime of its own, or loads the driver")
    );
}

#[test]
fn a_library_that_comes_later_is_seen_at_the_next_allocation() {
    let workshop = Workshop::new();
    workshop.library(&workshop.compile("late", FILLS, false), &["-l:libcudart.so.13"]);
    let late = workshop.node.folder().join("liblate.so");
    std::fs::rename(workshop.node.folder().join("libother.so"), &late).expect("can be renamed");
    // A library without CUDA loads it.
    let loader = "#include <dlfcn.h>\nextern \"C\" void *load(const char *file) { return dlsym(dlopen(file, RTLD_NOW), \"other\"); }\n";
    let loader = workshop.library(&workshop.compile("loader", loader, false), &["-ldl"]);
    let main = MAIN
        .replace(
            "int other(void *memory, size_t bytes);",
            "void *load(const char *);",
        )
        .replace("cudaMalloc(&memory, 4096) != cudaSuccess ||", "")
        .replace(
            "other(memory, 4096)",
            "((int (*)(void *, size_t))load(LATE))((cudaMalloc(&memory, 4096), memory), 4096)",
        );
    let main = format!("#define LATE \"{}\"\n{main}", late.display());
    let (printed, why) = workshop.run(&[workshop.compile("main", &main, true), loader]);
    assert_eq!(printed, "7\n");
    assert_eq!(
        why.as_deref(),
        Some("liblate.so uses the CUDA runtime and was not built with MGB")
    );
}

/// Holds memory that `other` has filled, and asks for more once the other program holds its own, while a
/// thread of it goes on filling what is there. Looks at all bytes: whoever waits has to move what it holds,
/// and `other` must not touch it meanwhile.
const GROWS: &str = r#"
#include <cuda_runtime.h>
#include <atomic>
#include <cstdio>
#include <thread>
#include <unistd.h>
#include <vector>
extern "C" int other(void *memory, size_t bytes);
static bool right(unsigned char *memory, size_t bytes) {
  std::vector<unsigned char> back(bytes);
  if (cudaMemcpy(back.data(), memory, bytes, cudaMemcpyDeviceToHost) != cudaSuccess) return false;
  for (unsigned char byte : back)
    if (byte != 7) return false;
  return true;
}
int main(int argc, char **argv) {
  size_t bytes = size_t(24) << 20;
  unsigned char *first, *more;
  if (cudaMalloc(&first, bytes) != cudaSuccess || other(first, bytes) != 0) return 1;
  fclose(fopen(argv[1], "w"));
  while (access(argv[2], F_OK) != 0) usleep(1000);
  std::atomic<bool> stop(false);
  std::atomic<int> failed(0);
  std::thread fills([&] {
    while (!stop) {
      failed += other(first, bytes) != 0;
      usleep(200);
    }
  });
  bool has = cudaMalloc(&more, bytes) == cudaSuccess && other(more, bytes) == 0;
  stop = true;
  fills.join();
  if (!has || failed != 0) return 2;
  if (!right(first, bytes) || !right(more, bytes)) return 3;
  puts("right");
  return cudaFree(first) != cudaSuccess || cudaFree(more) != cudaSuccess;
}
"#;

/// The program in a workshop of its own.
fn grows() -> (Workshop, PathBuf) {
    let workshop = Workshop::new();
    let main = workshop.compile("main", GROWS, true);
    let library = workshop.library(&workshop.compile("other", FILLS, false), &["-l:libcudart.so.13"]);
    let program = workshop.link(&[main, library]);
    (workshop, program)
}

#[test]
fn open_programs_that_wait_for_each_other_are_swapped_by_the_driver_front() {
    let (workshop, program) = grows();
    let (program, node) = (program.display(), &workshop.node);
    let jobs = node.write("jobs.txt", &format!("{program} one two\n{program} two one\n"));
    let jobs = jobs.display().to_string();
    let ended = run(&mut node.mgb(&["batch", "--json", "-j", "2", &jobs]));
    let batch: serde_json::Value = serde_json::from_str(&ended.success()).expect("a summary");
    for job in 0..2 {
        assert_eq!(batch["jobs"][job]["exit_code"], 0, "{batch}");
    }
    let view = node.view();
    assert!(view.counts.swapped_out > 0, "{view:?}");
    node.wait_until_empty();
}

/// MGB's runtime loads the front where `mgb run` has not put it into the search path.
#[test]
fn open_programs_that_are_started_directly_have_the_driver_front() {
    let (workshop, program) = grows();
    let node = &workshop.node;
    let program = program.display().to_string();
    let start =
        |files: [&str; 2]| RunningProgram::start(node.command(&program, &files).current_dir(node.folder()));
    let both = [start(["one", "two"]), start(["two", "one"])];
    for running in both {
        let ended = running.end();
        assert_eq!((ended.code(), ended.stdout.as_str()), (0, "right\n"), "{ended:?}");
    }
    assert!(node.view().counts.swapped_out > 0);
    node.wait_until_empty();
}
