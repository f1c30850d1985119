//! Builds the C++ files, the one that registers the pass and its helpers, against the LLVM that llvm-sys links.
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=cpp");
    println!("cargo::rerun-if-env-changed=LLVM_SYS_221_PREFIX");
    let config = std::env::var("LLVM_SYS_221_PREFIX")
        .map(|prefix| format!("{prefix}/bin/llvm-config"))
        .unwrap_or_else(|_| "llvm-config-22".to_owned());
    let output = Command::new(&config)
        .arg("--includedir")
        .output()
        .unwrap_or_else(|e| panic!("failed to run {config}: {e}; install llvm-22-dev (make setup)"));
    let include = String::from_utf8(output.stdout).expect("llvm-config prints UTF-8");
    cc::Build::new()
        .cpp(true)
        .std("c++17")
        .flag("-fno-rtti")
        .flag("-fno-exceptions")
        .flag("-isystem")
        .flag(include.trim())
        .define("_GNU_SOURCE", None)
        .file("cpp/plugin.cpp")
        .file("cpp/helpers.cpp")
        .file("cpp/device.cpp")
        .compile("mgb_plugin");
}
