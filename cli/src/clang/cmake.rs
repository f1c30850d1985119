//! What CMake learns of MGB's libraries, so that any compiler links programs with CUDA files.
//!
//! A program with C++ files CMake links with the C++ compiler, and takes the CUDA compiler's own libraries
//! from the linker's command line, which `-v` prints where it links a probe. It leaves out run paths and
//! libcudart, which it puts first: a linker that keeps needed libraries only drops that, since objects name
//! MGB's functions alone. CMake keeps what follows `-l`, and passes on what is an option as it is.

use std::ffi::OsStr;
use std::path::Path;

use super::parse::CommandLine;
use super::translate::{Parts, runtime_library};

/// The name of `mgb-clang++` by which CMake links what `mgb-nvcc` has compiled. Where clang is its CUDA
/// compiler, CMake has other compilers link the static libcudart.
pub const LINKER: &str = "mgb-nvcc-link";

/// The object that CMake links to learn of the libraries.
const PROBE: &str = "CMakeCUDACompilerABI.cu.o";

/// A linker's command line as CMake reads it, if this is the link that it asks with; it reads the first one
/// alone.
pub fn link_line(line: &CommandLine, parts: &Parts) -> Option<String> {
    let cuda = parts.cuda.as_ref()?;
    let called = std::env::args_os().next()?;
    let has = |wanted: &dyn Fn(&OsStr) -> bool| line.arguments.iter().any(|argument| wanted(&argument.word));
    let is_probe = |word: &OsStr| Path::new(word).file_name() == Some(OsStr::new(PROBE));
    let is_linker = Path::new(&called).file_name() == Some(OsStr::new(LINKER));
    if !is_linker || !line.links() || !has(&|word| word == "-v") || !has(&is_probe) {
        return None;
    }
    let runtime = match runtime_library(parts) {
        // By this name CMake leaves it out.
        "-lcudart" => "-l:libcudart.so",
        by_version => by_version,
    };
    let folders = [parts.prefix.lib(), cuda.lib.clone()];
    let folders = folders.map(|folder| format!("-L{0} -l-Wl,-rpath,{0}", folder.display()));
    // The last four are for programs that CMake links as C.
    Some(format!(
        " ld {} -lmgb_rt -l{runtime} -lstdc++ -lm -lgcc_s -lc",
        folders.join(" ")
    ))
}
