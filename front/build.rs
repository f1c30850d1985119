//! Writes, from the catalogue, an exported function for every function of the driver: a jump through its
//! slot.

use std::fmt::Write;
use std::path::Path;

use mgb_catalogue::driver::{self, Function};

const WRITES: &str = "a String takes any text";

/// Functions that the front answers itself, under the names that it exports them by.
fn own() -> &'static [&'static str] {
    include!("src/own.rs")
}

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=src/own.rs");
    let arch = std::env::var("CARGO_CFG_TARGET_ARCH").unwrap_or_default();
    if arch != "x86_64" {
        panic!("the driver front jumps by x86_64 code only, and this is {arch}");
    }
    for name in own() {
        assert!(
            driver::lookup(name).is_some(),
            "{name} is no function of the driver"
        );
    }
    let out = std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR");
    let write = |name: &str, source: String| {
        let path = Path::new(&out).join(name);
        std::fs::write(&path, source).unwrap_or_else(|e| panic!("failed to write {}: {e}", path.display()));
    };
    write("names.rs", names(driver::all()));
    write("jumps.rs", jumps(driver::all()));
}

fn names(functions: &[Function]) -> String {
    let mut text = String::new();
    let count = functions.len();
    writeln!(
        text,
        "/// How many functions there are.\npub const COUNT: usize = {count};"
    )
    .expect(WRITES);
    writeln!(
        text,
        "/// Their names, sorted.\npub static NAMES: [&CStr; COUNT] = ["
    )
    .expect(WRITES);
    for function in functions {
        writeln!(text, "    c\"{}\",", function.name).expect(WRITES);
    }
    text.push_str(
        "];\n/// Where each function stands.\n#[allow(non_upper_case_globals, dead_code)]\npub mod index {\n",
    );
    for (index, function) in functions.iter().enumerate() {
        writeln!(text, "    pub const {}: usize = {index};", function.name).expect(WRITES);
    }
    text + "}\n"
}

fn jumps(functions: &[Function]) -> String {
    let mut text = String::new();
    slots(&mut text, functions.len());
    for (index, function) in functions.iter().enumerate() {
        jump(&mut text, index, function);
    }
    exports(&mut text, functions);
    text
}

/// Where each jump leads: at first to code that finds the driver's function, later to that function.
fn slots(text: &mut String, count: usize) {
    let begin = "core::arch::global_asm!(\n    \".pushsection .data.mgb_front_slots, \\\"aw\\\", \
                 @progbits\",\n    \".balign 64\", \".globl mgb_front_slots\",\n    \
                 \".hidden mgb_front_slots\", \"mgb_front_slots:\",";
    writeln!(text, "{begin}").expect(WRITES);
    for index in 0..count {
        writeln!(text, "    \".quad mgb_front_find_{index}\",").expect(WRITES);
    }
    writeln!(
        text,
        "    \".popsection\",\n    \".pushsection .text.mgb_front_find, \\\"ax\\\", @progbits\","
    )
    .expect(WRITES);
    for index in 0..count {
        writeln!(
            text,
            "    \"mgb_front_find_{index}: mov r11d, {index}\", \"jmp {{find}}\","
        )
        .expect(WRITES);
    }
    writeln!(text, "    \".popsection\",\n    find = sym enter::enter,\n);").expect(WRITES);
}

fn jump(text: &mut String, index: usize, function: &Function) {
    if own().contains(&function.name) {
        return;
    }
    let (name, offset) = (function.name, index * 8);
    writeln!(
        text,
        "#[unsafe(naked)]\n#[unsafe(no_mangle)]\nunsafe extern \"C\" fn {name}() {{\n    \
         core::arch::naked_asm!(\"jmp qword ptr [rip + mgb_front_slots + {offset}]\")\n}}"
    )
    .expect(WRITES);
}

/// The front's own addresses of all functions.
fn exports(text: &mut String, functions: &[Function]) {
    writeln!(text, "unsafe extern \"C\" {{").expect(WRITES);
    for name in own() {
        writeln!(text, "    fn {name}();").expect(WRITES);
    }
    writeln!(
        text,
        "}}\n/// The addresses that the front exports, in the order of the names.\n\
         pub static EXPORTS: [Address; COUNT] = ["
    )
    .expect(WRITES);
    for function in functions {
        writeln!(text, "    Address({} as *const c_void),", function.name).expect(WRITES);
    }
    writeln!(text, "];").expect(WRITES);
}
