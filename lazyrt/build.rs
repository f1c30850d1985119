//! Writes the table of the runtime's functions and a trampoline for each one that lazyrt does not treat
//! itself, from the catalogue.

use std::fmt::Write;
use std::path::Path;

use mgb_catalogue::{Class, Role, RuntimeFunction, Treatment};

/// Functions whose absence from the program's libcudart is an error of the loader. One strong reference is
/// enough for linkers to keep libcudart beside lazyrt; the others are weak, so that a runtime of another
/// minor version still loads.
const STRONG: &[&str] = &["cudaMalloc", "cudaLaunchKernel"];

/// Functions that lazyrt's own tests define: in their program one symbol would be weak and not, if the
/// compiler put both into one object.
const OF_TESTS: &[&str] = &["cudaGraphAddDependencies"];

/// Families whose functions never look at memory objects, neither during the call nor later: a swap need
/// not wait for them.
const BLIND: &[&str] = &[
    "stream",
    "event",
    "device",
    "occupancy",
    "error",
    "version",
    "log",
    "profiler",
    "registration",
];

/// Families of native functions that never reach the driver: they may run before it is known whether the
/// process is under MGB, and with which MPS.
const INERT: &[&str] = &["registration", "launch", "error"];

fn own() -> &'static [&'static str] {
    include!("src/own.rs")
}

fn is_own(entry: &RuntimeFunction) -> bool {
    own().contains(&entry.plain_name())
}

/// Whether the runtime initialises the driver for the function: not for versions, and not for a descriptor that
/// is made of its arguments, which answers no code either.
fn initialises(entry: &RuntimeFunction) -> bool {
    !INERT.contains(&entry.family) && entry.family != "version" && entry.name != "cudaCreateChannelDesc"
}

fn touches(entry: &RuntimeFunction) -> bool {
    (!BLIND.contains(&entry.family) && entry.class != Class::Query)
        || entry.position(Role::DevicePointer).is_some()
        || entry.position(Role::DevicePointerOut).is_some()
}

/// Whether it makes or changes a graph's copy.
fn copies(entry: &RuntimeFunction) -> bool {
    entry.name.contains("MemcpyNode") && !entry.name.ends_with("GetParams")
}

/// Where its arguments are that streams, events or devices of the program's stand in, as Rust.
fn translated(entry: &RuntimeFunction) -> String {
    if is_own(entry) || entry.treatment == Treatment::Native {
        return String::new();
    }
    let is_translated = |role| matches!(role, Role::Stream | Role::Event | Role::Device);
    if !entry.params.iter().any(|param| is_translated(param.role)) {
        return String::new();
    }
    let (mut registers, mut stack) = (0, 0);
    let mut text = String::new();
    for param in entry.params {
        let kind = match param.role {
            Role::Stream => Some("Stream"),
            Role::Event => Some("Event"),
            Role::Device => Some("Device"),
            _ => None,
        };
        let words = words(param.ty);
        let in_registers = registers + words <= REGISTERS && !IN_MEMORY.iter().any(|(ty, _)| *ty == param.ty);
        let (place, next) = if in_registers {
            ("Register", &mut registers)
        } else {
            ("Stack", &mut stack)
        };
        if let Some(kind) = kind {
            write!(text, "(ArgumentPlace::{place}({next}), Translated::{kind}), ").expect(WRITES);
        }
        *next += words;
    }
    text
}

/// Integer registers for arguments.
const REGISTERS: usize = 6;
/// Types that are passed by value in memory, and their words.
const IN_MEMORY: &[(&str, usize)] = &[
    ("struct cudaExtent", 3),
    ("struct cudaPitchedPtr", 4),
    ("struct cudaChannelFormatDesc", 3),
    ("cudaIpcEventHandle_t", 8),
    ("cudaIpcMemHandle_t", 8),
];

/// Words that an argument takes. No function takes a floating point number beside one that is translated.
fn words(ty: &str) -> usize {
    if ty.ends_with('*') {
        return 1;
    }
    if let Some((_, words)) = IN_MEMORY.iter().find(|(known, _)| *known == ty) {
        return *words;
    }
    match ty {
        "dim3" => 2,
        "struct cudaMemLocation" => 1,
        other if other.starts_with("struct ") => {
            panic!("tell in lazyrt/build.rs how {other} is passed to a function")
        }
        "float" | "double" => {
            panic!("tell in lazyrt/build.rs how a function takes {ty} beside what is translated")
        }
        _ => 1,
    }
}

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=src/own.rs");
    let arch = std::env::var("CARGO_CFG_TARGET_ARCH").unwrap_or_default();
    if arch != "x86_64" {
        panic!(
            "libmgb_rt has trampolines for x86_64 only, and this is {arch}: build for x86_64-unknown-linux-gnu"
        );
    }
    let entries: Vec<&RuntimeFunction> = mgb_catalogue::all()
        .iter()
        .filter(|entry| entry.exported)
        .collect();
    let out = std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR");
    let path = Path::new(&out).join("functions.rs");
    std::fs::write(&path, source(&entries))
        .unwrap_or_else(|e| panic!("failed to write {}: {e}", path.display()));
}

const WRITES: &str = "a String takes any text";

fn source(entries: &[&RuntimeFunction]) -> String {
    let mut text = String::new();
    let count = entries.len();
    writeln!(
        text,
        "/// How many functions there are.\npub const COUNT: usize = {count};"
    )
    .expect(WRITES);
    writeln!(
        text,
        "/// Every function, in the order of the table of addresses."
    )
    .expect(WRITES);
    writeln!(text, "pub static FUNCTIONS: [Function; COUNT] = [").expect(WRITES);
    for entry in entries {
        writeln!(
            text,
            "    Function {{ name: {:?}, native: {}, initialises: {}, touches: {}, anchors: {}, copies: {}, translated: &[{}] }},",
            entry.name,
            entry.treatment == Treatment::Native,
            initialises(entry),
            touches(entry),
            entry.treatment == Treatment::Anchors,
            copies(entry),
            translated(entry)
        )
        .expect(WRITES);
    }
    writeln!(
        text,
        "];\n/// Where each function stands.\n#[allow(non_upper_case_globals, dead_code)]"
    )
    .expect(WRITES);
    writeln!(text, "pub mod index {{").expect(WRITES);
    for (index, entry) in entries.iter().enumerate() {
        writeln!(text, "    pub const {}: usize = {index};", entry.name).expect(WRITES);
    }
    writeln!(text, "}}").expect(WRITES);
    table(&mut text, entries);
    for (index, entry) in entries.iter().enumerate().filter(|(_, entry)| !is_own(entry)) {
        trampoline(&mut text, index, entry);
    }
    exports(&mut text, entries);
    text
}

/// The addresses of the real functions: the dynamic linker fills them in as it loads the library.
fn table(text: &mut String, entries: &[&RuntimeFunction]) {
    let begin = "core::arch::global_asm!(\n    \".pushsection .data.rel.ro.mgb_native, \\\"aw\\\", @progbits\",\n    \
                 \".balign 8\", \".globl mgb_native\", \".hidden mgb_native\", \"mgb_native:\",";
    writeln!(text, "{begin}").expect(WRITES);
    for entry in entries {
        if STRONG.contains(&entry.name) {
            // Test programs have no libcudart.
            writeln!(text, "    #[cfg(test)] \".weak {}\",", entry.name).expect(WRITES);
        } else if OF_TESTS.contains(&entry.name) {
            writeln!(text, "    #[cfg(not(test))] \".weak {}\",", entry.name).expect(WRITES);
        } else {
            writeln!(text, "    \".weak {}\",", entry.name).expect(WRITES);
        }
        writeln!(text, "    \".quad {}\",", entry.name).expect(WRITES);
    }
    writeln!(text, "    \".popsection\",\n);").expect(WRITES);
}

fn trampoline(text: &mut String, index: usize, entry: &RuntimeFunction) {
    let name = entry.name;
    writeln!(text, "/// `{name}`, {}.", entry.treatment.word()).expect(WRITES);
    writeln!(text, "#[unsafe(naked)]\n#[unsafe(no_mangle)]").expect(WRITES);
    writeln!(
        text,
        "pub unsafe extern \"C\" fn mgb_{name}() {{\n    core::arch::naked_asm!("
    )
    .expect(WRITES);
    writeln!(text, "        \".cfi_startproc\",").expect(WRITES);
    if entry.treatment == Treatment::Native && INERT.contains(&entry.family) {
        let offset = index * 8;
        // r11 is nobody's argument.
        writeln!(
            text,
            "        \"mov r11, qword ptr [rip + mgb_native + {offset}]\","
        )
        .expect(WRITES);
        writeln!(
            text,
            "        \"test r11, r11\",\n        \"je 2f\",\n        \"jmp r11\","
        )
        .expect(WRITES);
        writeln!(text, "        \"2:\",").expect(WRITES);
    }
    writeln!(text, "        \"mov r11d, {index}\",\n        \"jmp {{enter}}\",").expect(WRITES);
    writeln!(
        text,
        "        \".cfi_endproc\",\n        enter = sym crate::enter::enter,\n    )\n}}"
    )
    .expect(WRITES);
}

/// The address of every exported function, own ones too: a missing one fails to link.
fn exports(text: &mut String, entries: &[&RuntimeFunction]) {
    writeln!(
        text,
        "#[cfg(test)]\n#[allow(clashing_extern_declarations, reason = \"only their addresses are used\")]\npub mod exports {{\n    unsafe extern \"C\" {{"
    )
    .expect(WRITES);
    for entry in entries.iter() {
        writeln!(text, "        #[link_name = \"mgb_{0}\"] fn {0}();", entry.name).expect(WRITES);
    }
    writeln!(text, "    }}\n    /// In the order of `FUNCTIONS`.").expect(WRITES);
    writeln!(
        text,
        "    pub static EXPORTS: [unsafe extern \"C\" fn(); super::COUNT] = ["
    )
    .expect(WRITES);
    for entry in entries {
        writeln!(text, "        {},", entry.name).expect(WRITES);
    }
    writeln!(text, "    ];\n}}").expect(WRITES);
}
