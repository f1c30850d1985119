//! What `-v` and `-dryrun` print: the settings and steps, in the form in which nvcc prints its own, since
//! CMake and others read it.

use std::fmt::Write;

use mgb_command::prefix::Prefix;

use super::table::Stop;
use super::translate::CompilePlan;
use crate::clang::cmake::LINKER;
use crate::cuda::Cuda;

/// The lines, each with the mark that nvcc puts before what it says of itself.
pub fn text(plan: &CompilePlan, cuda: &Cuda, prefix: &Prefix, arch: &str) -> String {
    let mut text = String::new();
    let root = cuda.root.display();
    let libraries = format!("\"-L{}\"", cuda.lib.display());
    let mut line = |words: String| {
        let _ = writeln!(text, "#$ {words}");
    };
    line(format!("TOP={root}"));
    line(format!("NVVMIR_LIBRARY_DIR={root}/nvvm/libdevice"));
    line(format!("PATH={}:{root}/bin", prefix.path().join("bin").display()));
    line(format!("INCLUDES=\"-I{root}/include\""));
    line(format!("LIBRARIES={libraries}"));
    for note in &plan.notes {
        line(format!("mgb nvcc: {note}"));
    }
    if plan.targets.is_empty() {
        line(format!(
            "mgb nvcc: device code with -arch compute_{}",
            arch.trim_start_matches("sm_")
        ));
    }
    for target in &plan.targets {
        line(format!(
            "mgb nvcc: device code with -arch compute_{}",
            target.number
        ));
    }
    let bin = prefix.path().join("bin");
    let clang = bin.join("mgb-clang++");
    let words: Vec<String> = plan.words.iter().map(|word| quoted(word)).collect();
    match plan.stop {
        // Also how to link without nvcc, which is what CMake reads it for.
        Stop::Link => line(format!(
            "\"{}\" {} {libraries} -lcudart",
            bin.join(LINKER).display(),
            words.join(" ")
        )),
        Stop::DeviceLink => {
            line("mgb nvcc: an empty object, since no device code is linked across files".into())
        }
        _ => line(format!("\"{}\" {}", clang.display(), words.join(" "))),
    }
    text
}

fn quoted(word: &str) -> String {
    shlex::try_quote(word).map_or_else(|_| word.to_owned(), |quoted| quoted.into_owned())
}
