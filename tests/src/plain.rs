//! Programs without MGB's runtime, as plain clang or nvcc would have made them, but with kernels for software
//! GPUs: what one calls of lazyrt is CUDA's function of that name again, and its tasks begin nowhere.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::compiled;
use crate::prefix::softgpu_libraries;
use crate::process::run;

/// What stands in for the probes of static tasks.
const STUBS: &str = "extern \"C\" { long plain_task_begin() { return 0; } long plain_task_begin_in() { return 0; } \
                     void plain_task_end() {} void plain_task_use() {} void plain_task_use_in() {} }\n";

/// The program that is made of `source` with `flags`, in the folder of its object.
///
/// # Panics
///
/// When it cannot be compiled; the message has what the compiler said.
pub fn program(source: &Path, flags: &[&str]) -> PathBuf {
    let object = compiled::program(source, &[flags, &["-std=c++17", "-c"]].concat());
    // Several tests may make the same one at once, and run it: each makes its own, which takes the name at
    // once.
    let beside = |name: &str| object.with_file_name(format!("{}-{name}", std::process::id()));
    let symbols = run(Command::new("nm").args(["-u", "-P"]).arg(&object)).success();
    let names = symbols.lines().filter_map(|line| line.split_whitespace().next());
    let renamed = names.filter_map(|name| {
        let plain = name.strip_prefix("mgb_")?;
        let own = if plain.starts_with("task_") { "plain_" } else { "" };
        Some(format!("{name} {own}{plain}\n"))
    });
    write(&beside("symbols"), &renamed.collect::<String>());
    write(&beside("stubs.cpp"), STUBS);
    let (new, own) = (beside("plain.o"), beside("plain"));
    let rename = format!("--redefine-syms={}", beside("symbols").display());
    run(Command::new("objcopy").arg(rename).arg(&object).arg(&new)).success();
    let runtime = softgpu_libraries().join("libcudart.so.13");
    let mut link = Command::new("g++");
    link.args([&new, &beside("stubs.cpp"), &runtime]);
    run(link.args(["-lpthread", "-ldl", "-o"]).arg(&own)).success();
    let linked = object.with_file_name("plain");
    fs::rename(&own, &linked).expect("a file of this folder can be renamed");
    for name in ["symbols", "stubs.cpp", "plain.o"] {
        // What is left is written over the next time.
        let _ = fs::remove_file(beside(name));
    }
    linked
}

fn write(file: &Path, text: &str) {
    fs::write(file, text).expect("the target folder can be written");
}
