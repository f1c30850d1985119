//! Counts the catalogue against a real CUDA tree: its headers and its library.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use mgb_catalogue::{Class, Role, Treatment, all, driver, lookup};

/// The CUDA 13.0 tree; without one there is nothing to count against, which is a failure.
fn cuda() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let places: Vec<PathBuf> = std::env::var_os("CUDA_PATH")
        .map(PathBuf::from)
        .into_iter()
        .chain([here.join("../.cuda"), PathBuf::from("/usr/local/cuda")])
        .collect();
    places
        .iter()
        .find(|place| place.join("include/cuda_runtime_api.h").is_file())
        .unwrap_or_else(|| panic!("found no CUDA tree in {places:?}: set CUDA_PATH, or run `make setup`"))
        .clone()
}

/// Runs a generator on the tree, with more arguments.
fn generate(script: &str, arguments: &[&Path]) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tools").join(script);
    let status = Command::new("python3")
        .arg("-B")
        .arg(&script)
        .arg(cuda())
        .args(arguments)
        .status();
    let status = status.expect("failed to run python3: install it");
    assert!(
        status.success(),
        "{} failed on {}",
        script.display(),
        cuda().display()
    );
}

#[test]
fn api_json_is_what_the_tree_says() {
    let output = Path::new(env!("CARGO_TARGET_TMPDIR")).join("api.json");
    generate("generate.py", &[&output]);
    let fresh = std::fs::read_to_string(&output).unwrap();
    same_lines(&fresh, include_str!("../data/api.json"), "generate.py");
}

/// The driver's exports are those of a driver that this machine need not have: they are taken as kept.
#[test]
fn driver_json_is_what_the_header_says() {
    let symbols = Path::new(env!("CARGO_TARGET_TMPDIR")).join("driver.symbols");
    let exported = driver::all().iter().filter(|function| function.exported);
    let lines: String = exported
        .map(|function| format!("0 T {}\n", function.name))
        .collect();
    std::fs::write(&symbols, lines).unwrap();
    let output = Path::new(env!("CARGO_TARGET_TMPDIR")).join("driver.json");
    generate("generate_driver.py", &[&symbols, &output]);
    let fresh = std::fs::read_to_string(&output).unwrap();
    same_lines(&fresh, include_str!("../data/driver.json"), "generate_driver.py");
}

fn same_lines(fresh: &str, kept: &str, script: &str) {
    for (fresh, kept) in fresh.lines().zip(kept.lines()) {
        assert_eq!(
            fresh, kept,
            "the data are stale: run catalogue/tools/{script} on the tree"
        );
    }
    assert_eq!(fresh.len(), kept.len());
}

#[test]
fn the_drivers_functions_are_sorted_and_forms_have_the_arguments_of_their_base() {
    let all = driver::all();
    assert!(all.len() > 650, "{}", all.len());
    assert!(all.is_sorted_by(|a, b| a.name < b.name));
    let types = |function: &driver::DriverFunction| -> Vec<&str> {
        function.params.iter().map(|param| param.ty).collect()
    };
    for function in all.iter().filter(|function| function.declared) {
        if let Some(base) = function
            .base
            .and_then(driver::lookup)
            .filter(|base| base.declared)
        {
            assert_eq!(types(function), types(base), "{}", function.name);
        }
    }
    let alloc = driver::lookup("cuMemAlloc_v2").unwrap();
    assert_eq!(types(alloc), ["CUdeviceptr *", "size_t"]);
    assert!(
        driver::lookup("cuProfilerStart").is_some_and(|function| !function.declared && function.exported)
    );
}

/// Counted by other means than the generator's: grep's, and the dynamic linker's view of the library.
#[test]
fn every_declared_and_every_exported_function_has_an_entry() {
    let header = std::fs::read_to_string(cuda().join("include/cuda_runtime_api.h")).unwrap();
    let mut declared = BTreeSet::new();
    for line in header
        .lines()
        .filter(|line| line.starts_with("extern ") && line.contains("CUDARTAPI"))
    {
        let after = line.split("CUDARTAPI").nth(1).unwrap();
        let after = after.strip_prefix("_CDECL").unwrap_or(after).trim_start();
        declared.insert(after.split('(').next().unwrap().trim().to_owned());
    }
    assert!(declared.len() > 250, "read only {} declarations", declared.len());
    for name in &declared {
        assert!(
            lookup(name).is_some_and(|entry| entry.declared),
            "{name} is declared, but not in the table"
        );
    }

    let library = cuda().join("lib64/libcudart.so.13");
    let nm = Command::new("nm")
        .args(["-D", "--defined-only"])
        .arg(&library)
        .output()
        .expect("failed to run nm");
    let names = String::from_utf8(nm.stdout).unwrap();
    let exported: BTreeSet<&str> = names
        .lines()
        .filter_map(|line| line.split_once(" T "))
        .map(|(_, name)| name.split('@').next().unwrap())
        .collect();
    let table: BTreeSet<&str> = all()
        .iter()
        .filter(|entry| entry.exported)
        .map(|entry| entry.name)
        .collect();
    assert_eq!(exported, table);
    assert_eq!(exported.len(), 422);
}

#[test]
fn the_table_is_sorted_and_forms_follow_their_base() {
    assert!(all().windows(2).all(|pair| pair[0].name < pair[1].name));
    for entry in all() {
        assert_eq!(lookup(entry.name).unwrap().name, entry.name);
        let form = entry.name.ends_with("_ptsz") || entry.name.ends_with("_ptds");
        assert_eq!(entry.base.is_some(), form, "{}", entry.name);
        let Some(base) = entry.base else { continue };
        let base = lookup(base).unwrap();
        assert_eq!(entry.treatment, base.treatment);
        assert_eq!(entry.params.len(), base.params.len());
        assert_eq!(entry.ret, base.ret);
    }
    assert!(lookup("cudaThreadSynchronize").is_none());
}

#[test]
fn what_the_pass_relies_on_has_its_roles() {
    let position = |name: &str, role| lookup(name).unwrap().position(role);
    assert_eq!(position("cudaMalloc", Role::DevicePointerOut), Some(0));
    assert_eq!(position("cudaMalloc", Role::Size), Some(1));
    assert_eq!(position("cudaMemcpyAsync_ptsz", Role::Stream), Some(4));
    assert_eq!(position("__cudaPushCallConfiguration", Role::Block), Some(1));
    assert_eq!(
        lookup("cudaMemcpy")
            .unwrap()
            .positions(Role::DevicePointer)
            .collect::<Vec<_>>(),
        [0, 1]
    );
    for entry in all().iter().filter(|entry| entry.class == Class::Launch) {
        assert!(entry.position(Role::Kernel).is_some(), "{}", entry.name);
        assert!(entry.position(Role::KernelArguments).is_some(), "{}", entry.name);
        let configured = entry.position(Role::LaunchConfig).is_some();
        assert!(
            configured || entry.position(Role::Block).is_some(),
            "{}",
            entry.name
        );
    }
    for entry in all().iter().filter(|entry| entry.treatment == Treatment::Address) {
        let out = entry.position(Role::DevicePointerOut).is_some() && entry.position(Role::Size).is_some();
        assert!(out || entry.class == Class::Free, "{}", entry.name);
    }
}

#[test]
fn the_support_table_is_current() {
    let kept = include_str!("../../docs/SUPPORT.md");
    assert!(
        kept == mgb_catalogue::support::markdown(),
        "docs/SUPPORT.md is stale: run `make support`"
    );
}
