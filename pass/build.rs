//! Builds the C++ files, the one that registers the pass and its helpers, against the LLVM that llvm-sys
//! links.
use std::process::Command;

/// The features, with the version of llvm-sys and the major version of LLVM that each stands for.
const LLVMS: [(&str, u32, u32); 4] = [
    ("CARGO_FEATURE_LLVM19", 191, 19),
    ("CARGO_FEATURE_LLVM20", 201, 20),
    ("CARGO_FEATURE_LLVM21", 211, 21),
    ("CARGO_FEATURE_LLVM22", 221, 22),
];

fn main() {
    println!("cargo::rerun-if-changed=cpp");
    let chosen: Vec<_> = LLVMS
        .into_iter()
        .filter(|(feature, ..)| std::env::var_os(feature).is_some())
        .collect();
    let [(_, sys, major)] = chosen[..] else {
        panic!(
            "choose one LLVM for mgb-pass: --no-default-features --features llvm19 (or llvm20, llvm21, llvm22)"
        );
    };
    let prefix = format!("LLVM_SYS_{sys}_PREFIX");
    println!("cargo::rerun-if-env-changed={prefix}");
    let config = std::env::var(prefix)
        .map(|prefix| format!("{prefix}/bin/llvm-config"))
        .unwrap_or_else(|_| format!("llvm-config-{major}"));
    let output = Command::new(&config)
        .arg("--includedir")
        .output()
        .unwrap_or_else(|e| panic!("failed to run {config}: {e}; install llvm-{major}-dev (make setup)"));
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
        .file("cpp/older.cpp")
        .compile("mgb_plugin");
}
