//! Writes, from the catalogue, an exported function for every function of the driver: a call through its
//! slot, inside the gate, or a jump. For those of NVML, jumps.

use std::fmt::Write;
use std::path::Path;

use mgb_catalogue::driver::{self, DriverFunction};
use mgb_catalogue::nvml;

const WRITES: &str = "a String takes any text";

/// Functions that the front answers itself, under the names that it exports them by.
fn own() -> &'static [&'static str] {
    include!("src/own.rs")
}

/// Functions of NVML that the front answers itself.
fn own_of_nvml() -> &'static [&'static str] {
    include!("src/nvml/own.rs")
}

/// Functions that give a GPU nothing and may wait for long: no gate holds them, and no closed gate waits for
/// them.
fn waiting() -> &'static [&'static str] {
    include!("src/waiting.rs")
}

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=src/own.rs");
    println!("cargo::rerun-if-changed=src/waiting.rs");
    println!("cargo::rerun-if-changed=src/nvml/own.rs");
    let arch = std::env::var("CARGO_CFG_TARGET_ARCH").unwrap_or_default();
    if arch != "x86_64" {
        panic!("the driver front jumps by x86_64 code only, and this is {arch}");
    }
    for name in own().iter().chain(waiting()) {
        assert!(
            driver::lookup(name).is_some(),
            "{name} is no function of the driver"
        );
    }
    for name in own_of_nvml() {
        assert!(
            nvml::all().any(|one| one == *name),
            "{name} is no function of NVML"
        );
    }
    let out = std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR");
    let write = |name: &str, source: String| {
        let path = Path::new(&out).join(name);
        std::fs::write(&path, source).unwrap_or_else(|e| panic!("failed to write {}: {e}", path.display()));
    };
    write("names.rs", names(driver::all()));
    write("exports.rs", jumps(driver::all()));
}

fn names(functions: &[DriverFunction]) -> String {
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
    text.push_str("}\n");
    let count = nvml::all().count();
    writeln!(
        text,
        "/// NVML's functions, sorted.\npub static NVML: [&CStr; {count}] = ["
    )
    .expect(WRITES);
    for name in nvml::all() {
        writeln!(text, "    c\"{name}\",").expect(WRITES);
    }
    text + "];\n"
}

fn jumps(functions: &[DriverFunction]) -> String {
    let mut text = String::new();
    slots(&mut text, DRIVER_SLOTS, 0, functions.len());
    for (index, function) in functions.iter().enumerate() {
        jump(&mut text, index, function);
    }
    exports(&mut text, functions);
    // Their indices follow those of the driver's functions.
    slots(&mut text, NVML_SLOTS, functions.len(), nvml::all().count());
    for (index, name) in nvml::all().enumerate() {
        if !own_of_nvml().contains(&name) {
            naked(&mut text, name, NVML_SLOTS, index);
        }
    }
    text
}

const DRIVER_SLOTS: &str = "mgb_front_slots";
const NVML_SLOTS: &str = "mgb_front_nvml_slots";

/// Where each jump leads: at first to code that finds the function, later to that function. `first`: the
/// index that the first one is found by.
fn slots(text: &mut String, name: &str, first: usize, count: usize) {
    let begin = format!(
        "core::arch::global_asm!(\n    \".pushsection .data.{name}, \\\"aw\\\", @progbits\",\n    \
         \".balign 64\", \".globl {name}\",\n    \".hidden {name}\", \"{name}:\","
    );
    writeln!(text, "{begin}").expect(WRITES);
    for index in first..first + count {
        writeln!(text, "    \".quad mgb_front_find_{index}\",").expect(WRITES);
    }
    writeln!(
        text,
        "    \".popsection\",\n    \".pushsection .text.mgb_front_find, \\\"ax\\\", @progbits\","
    )
    .expect(WRITES);
    for index in first..first + count {
        writeln!(
            text,
            "    \"mgb_front_find_{index}: mov r11d, {index}\", \"jmp {{find}}\","
        )
        .expect(WRITES);
    }
    writeln!(text, "    \".popsection\",\n    find = sym enter::enter,\n);").expect(WRITES);
}

fn jump(text: &mut String, index: usize, function: &DriverFunction) {
    if own().contains(&function.name) {
        return;
    }
    if let Some(types) = arguments(function) {
        return call(text, function, &types);
    }
    naked(text, function.name, DRIVER_SLOTS, index);
}

/// A jump through a slot.
fn naked(text: &mut String, name: &str, slots: &str, index: usize) {
    let offset = index * 8;
    writeln!(
        text,
        "#[unsafe(naked)]\n#[unsafe(no_mangle)]\nunsafe extern \"C\" fn {name}() {{\n    \
         core::arch::naked_asm!(\"jmp qword ptr [rip + {slots} + {offset}]\")\n}}"
    )
    .expect(WRITES);
}

/// Whether work is done when a function returns: the program has synchronised.
fn synchronises(function: &DriverFunction) -> bool {
    function.name.contains("Synchronize")
}

/// How the arguments of a function that is called, not jumped to, are passed on. `None`: its header is not
/// known, or it takes a number that no general register holds (those set up texture references and old
/// launches, and touch no memory), or it only asks whether something is done.
fn arguments(function: &DriverFunction) -> Option<Vec<&'static str>> {
    let jumps = waiting().contains(&function.name) && !synchronises(function);
    if !function.declared || jumps {
        return None;
    }
    let types = function.params.iter().map(|param| match param.ty {
        "float" | "double" => None,
        "CUipcMemHandle" | "CUipcEventHandle" => Some("crate::native::IpcHandle"),
        // Whatever else a header passes by value fits a register; upper bits are passed on as they are.
        _ => Some("u64"),
    });
    types.collect()
}

/// The stream that a function gives work to, as an expression over its arguments. `None`: it gives none.
fn stream(function: &DriverFunction) -> Option<String> {
    const GIVES: [&str; 9] = [
        "cuLaunch",
        "cuGraphLaunch",
        "cuMemcpy",
        "cuMemset",
        "cuMemPrefetch",
        "cuMemDiscard",
        "cuMemBatch",
        "cuStreamBatchMemOp",
        "cuStreamWriteValue",
    ];
    if !GIVES.iter().any(|begin| function.name.starts_with(begin)) {
        return None;
    }
    let is_per_thread = function.base.is_some();
    let position = function.params.iter().position(|param| param.ty == "CUstream");
    let stream = if function.name.starts_with("cuLaunchKernelEx") {
        "crate::native::stream_of(a0)".to_owned()
    } else {
        position.map_or_else(|| "0".to_owned(), |at| format!("a{at} as usize"))
    };
    Some(if is_per_thread {
        format!("crate::native::per_thread({stream})")
    } else {
        stream
    })
}

/// What counts a function's kernels on `gpu`, as a call over its arguments.
fn launch(function: &DriverFunction, stream: &str) -> Option<String> {
    let sized = |name: &str| function.params.iter().position(|param| param.name == name);
    if function.name.starts_with("cuLaunchKernelEx") {
        return Some(format!("crate::graphs::launched_as(gpu, {stream}, a0, a1)"));
    }
    let (grid, block) = (sized("gridDimX")?, sized("blockDimX")?);
    let three = |at: usize| format!("[a{at} as u32, a{} as u32, a{} as u32]", at + 1, at + 2);
    Some(format!(
        "crate::graphs::launched(gpu, {stream}, a0, {}, {})",
        three(grid),
        three(block)
    ))
}

/// What holds a function that gives a GPU work, as a statement over its arguments: launches, and copies and
/// sets of one size, if they are large.
fn pace(function: &DriverFunction, stream: &str) -> String {
    let gpu = "crate::stream_activity::likely_gpu";
    let size = ["ByteCount", "N"]
        .iter()
        .find_map(|name| function.params.iter().position(|param| param.name == *name));
    if launch(function, stream).is_some() {
        return format!("mgb_core::pace::before_launch({gpu});\n    ");
    }
    size.map_or_else(String::new, |at| {
        format!("mgb_core::pace::before_copy(a{at}, {gpu});\n    ")
    })
}

/// Whether the driver may take memory of its own in the call: for what it makes or loads then, a kernel's
/// code at its first launch at the latest.
fn takes_memory(function: &DriverFunction) -> bool {
    const TAKES: [&str; 13] = [
        "cuEventCreate",
        "cuFunc",
        "cuKernel",
        "cuLaunch",
        "cuLibrary",
        "cuLinkComplete",
        "cuMemcpy",
        "cuMemset",
        "cuModule",
        "cuStreamCreate",
        "cuSurfObjectCreate",
        "cuTexObjectCreate",
        "cuGraphExec",
    ];
    TAKES.iter().any(|begin| function.name.starts_with(begin))
}

/// A call of the driver's function inside the gate.
fn call(text: &mut String, function: &DriverFunction, types: &[&str]) {
    let name = function.name;
    let list = |write: &dyn Fn(usize, &str) -> String| {
        let parts: Vec<String> = types.iter().enumerate().map(|(at, ty)| write(at, ty)).collect();
        parts.join(", ")
    };
    let (declared, named, passed) = (
        list(&|at, ty| format!("a{at}: {ty}")),
        list(&|at, _| format!("a{at}")),
        list(&|_, ty| ty.to_owned()),
    );
    if waiting().contains(&name) {
        return waits(text, name, [&declared, &named, &passed]);
    }
    let once = format!(
        "let _inside = mgb_core::gate::enter();\n    \
         // SAFETY: as the caller of this function promises.\n    \
         unsafe {{ native({named}) }}"
    );
    let inside = if takes_memory(function) {
        format!("crate::driver_memory::give(|| {{\n    {once}\n    }})")
    } else {
        once
    };
    // A launch takes no more time than it must; its slow paths see to that themselves.
    let hold = if stream(function).is_some_and(|stream| launch(function, &stream).is_some()) {
        ""
    } else {
        "let _stays = mgb_probe::cancel::hold();\n    "
    };
    let result = match stream(function) {
        None => inside,
        // Outside the gate again: the note may wait for who looks at streams.
        Some(stream) => {
            let noted = match launch(function, &stream) {
                None => format!("crate::stream_activity::note({stream});"),
                Some(launch) => format!(
                    "if let Some(gpu) = crate::stream_activity::note({stream}) && code.is_success() {{\n    {launch};\n    }} \
                     else if code == mgb_core::mps::REFUSED {{\n    crate::notice::refused_by_mps();\n    }}"
                ),
            };
            let pace = pace(function, &stream);
            // A copy that is not asynchronous is done when it returns.
            let done = if function.name.starts_with("cuMemcpy") && !function.name.contains("Async") {
                "mgb_core::urgent::synchronised();\n    "
            } else {
                ""
            };
            format!("{pace}let code = {{\n    {inside}\n    }};\n    {noted}\n    {done}code")
        }
    };
    writeln!(
        text,
        "#[unsafe(no_mangle)]\nunsafe extern \"C\" fn {name}({declared}) -> mgb_abi::error::Code {{\n    \
         type Native = unsafe extern \"C\" fn({passed}) -> mgb_abi::error::Code;\n    \
         let address = crate::driver::address(crate::names::index::{name});\n    \
         // SAFETY: the driver's function of this name takes the same words.\n    \
         let native = unsafe {{ std::mem::transmute::<*const c_void, Native>(address) }};\n    \
         {hold}{result}\n}}"
    )
    .expect(WRITES);
}

/// A call of a function that returns when work is done: outside the gate, which others may close meanwhile.
fn waits(text: &mut String, name: &str, [declared, named, passed]: [&str; 3]) {
    writeln!(
        text,
        "#[unsafe(no_mangle)]\nunsafe extern \"C\" fn {name}({declared}) -> mgb_abi::error::Code {{\n    \
         type Native = unsafe extern \"C\" fn({passed}) -> mgb_abi::error::Code;\n    \
         let address = crate::driver::address(crate::names::index::{name});\n    \
         // SAFETY: the driver's function of this name takes the same words, as the caller promises.\n    \
         let code = unsafe {{ std::mem::transmute::<*const c_void, Native>(address)({named}) }};\n    \
         mgb_core::urgent::synchronised();\n    code\n}}"
    )
    .expect(WRITES);
}

/// The front's own addresses of all functions.
fn exports(text: &mut String, functions: &[DriverFunction]) {
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
