//! Makes, from the catalogue, what `src/cudart` and `src/driver` do not write by hand: the `_ptsz` and
//! `_ptds` forms of their functions, and stubs for what libcudart exports and softgpu does not have. What it
//! has is found in its sources, so that there is no list to keep.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::Path;

fn main() {
    println!("cargo::rerun-if-changed=src/cudart");
    println!("cargo::rerun-if-changed=src/driver");
    println!("cargo::rerun-if-changed=build.rs");
    let written = written(Path::new("src/cudart"), &["cuda", "__cuda"]);
    let mut refused = BTreeSet::new();
    let (mut forms, mut stubs) = (String::new(), String::new());
    for entry in mgb_catalogue::all()
        .iter()
        .filter(|entry| entry.exported && !written.contains(entry.name))
    {
        let base = entry.base.filter(|base| written.contains(*base));
        let types = || entry.params.iter().map(|param| param.ty);
        match base.and_then(|base| form(entry.name, base, types())) {
            Some(form) => forms.push_str(&form),
            None => {
                let reason = mgb_catalogue::softgpu::refusal(entry.name);
                let reason = reason.unwrap_or_else(|| {
                    panic!(
                        "softgpu has no {0}, and catalogue/data/softgpu.txt no reason for that: write one of them",
                        entry.name
                    )
                });
                refused.insert(entry.name);
                stubs.push_str(&stub(entry.name, reason));
            }
        }
    }
    let unused: Vec<_> = mgb_catalogue::softgpu::unused(|name| refused.contains(name)).collect();
    assert!(
        unused.is_empty(),
        "softgpu has what catalogue/data/softgpu.txt says it refuses: {unused:?}"
    );
    for name in &written {
        assert!(
            mgb_catalogue::softgpu::refusal(name).is_none(),
            "softgpu has {name}, which catalogue/data/softgpu.txt says it refuses"
        );
    }
    let out = std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR");
    for (file, text) in [
        ("forms.rs", forms),
        ("stubs.rs", stubs),
        ("driver_forms.rs", driver_forms()),
    ] {
        let path = Path::new(&out).join(file);
        std::fs::write(&path, text).unwrap_or_else(|e| panic!("failed to write {}: {e}", path.display()));
    }
}

/// The forms of the driver's functions, and the table of them.
fn driver_forms() -> String {
    let written = written(Path::new("src/driver"), &["cu"]);
    let (mut forms, mut table) = (String::new(), String::new());
    for function in mgb_catalogue::driver::all() {
        let Some(base) = function.base.filter(|base| written.contains(*base)) else {
            continue;
        };
        let name = function.name;
        let types = function.params.iter().map(|param| param.ty);
        let form = form(name, base, types)
            .unwrap_or_else(|| panic!("{name} has an argument whose type in Rust build.rs does not know"));
        forms.push_str(&form);
        let _ = writeln!(
            table,
            "    Export {{ name: \"{name}\", address: {name} as *const c_void }},"
        );
    }
    format!("{forms}/// These functions.\npub static EXPORTS: &[Export] = &[\n{table}];\n")
}

/// The names of functions with these beginnings that the sources define: `fn cuda…(`, for example.
fn written(folder: &Path, beginnings: &[&str]) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let files =
        std::fs::read_dir(folder).unwrap_or_else(|e| panic!("failed to list {}: {e}", folder.display()));
    for file in files.flatten() {
        let text = std::fs::read_to_string(file.path())
            .unwrap_or_else(|e| panic!("failed to read {}: {e}", file.path().display()));
        for line in text.lines() {
            let Some((_, after)) = line.split_once("fn ") else {
                continue;
            };
            let Some((name, _)) = after.split_once('(') else {
                continue;
            };
            if beginnings.iter().any(|beginning| name.starts_with(beginning)) {
                names.insert(name.to_owned());
            }
        }
    }
    names
}

/// A form of a function, if the types of its arguments are known.
fn form<'a>(name: &str, base: &str, types: impl Iterator<Item = &'a str>) -> Option<String> {
    let types: Vec<&str> = types.map(rust_type).collect::<Option<_>>()?;
    let list = |separator: &str, item: &dyn Fn(usize) -> String| {
        (0..types.len()).map(item).collect::<Vec<_>>().join(separator)
    };
    let declared = list(", ", &|at| format!("a{at}: {}", types[at]));
    let passed = list(", ", &|at| format!("a{at}"));
    let mut text = String::new();
    let _ = write!(
        text,
        "/// CUDA's `{base}`, with the thread's own default stream.\n\
         /// \n/// # Safety\n/// As for `{base}`.\n\
         #[allow(clippy::too_many_arguments)]\n\
         #[unsafe(no_mangle)]\n\
         pub unsafe extern \"C\" fn {name}({declared}) -> i32 {{\n    \
             unsafe extern \"C\" {{\n        fn {base}({declared}) -> i32;\n    }}\n    \
             // SAFETY: the same arguments for the same function.\n    \
             with_own_default(|| unsafe {{ {base}({passed}) }})\n}}\n\n"
    );
    Some(text)
}

/// How a C type of the catalogue is passed.
fn rust_type(c: &str) -> Option<&'static str> {
    Some(match c {
        "size_t" => "usize",
        "int" => "i32",
        "unsigned int" | "unsigned" => "u32",
        "unsigned long long" => "u64",
        "unsigned char" => "u8",
        "unsigned short" => "u16",
        "CUdeviceptr" | "CUstream" | "CUevent" | "CUcontext" | "CUfunction" | "CUgraph" | "CUgraphExec"
        | "CUmemoryPool" => "usize",
        "CUstreamCaptureMode" => "u32",
        "dim3" => "Dim3",
        "struct cudaMemLocation" => "MemLocation",
        "struct cudaExtent" => "CudaExtent",
        "struct cudaPitchedPtr" => "PitchedPtr",
        "cudaHostFn_t" | "cudaStreamCallback_t" => "*mut c_void",
        _ if c.ends_with('*') => "*mut c_void",
        _ if c.starts_with("enum ") || c.ends_with("ID") => "i32",
        _ if c.ends_with("_t") => "*mut c_void",
        _ => return None,
    })
}

fn stub(name: &str, reason: &str) -> String {
    format!(
        "/// Not supported.\n#[unsafe(no_mangle)]\npub extern \"C\" fn {name}() -> i32 {{\n    not_supported(\"{name}\", \"{reason}\")\n}}\n\n"
    )
}
