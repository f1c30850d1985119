//! CUDA's device system calls, traps, and intrinsics that only advise.
use super::body::{ForeignFunction, HostBody};

/// Asks nothing of the software GPU.
fn nothing(foreign: &ForeignFunction) -> Option<HostBody> {
    (foreign.returns == "void").then(|| HostBody {
        text: "ret void".into(),
        ..HostBody::default()
    })
}

/// A body that ends the launch with an error.
pub fn trap(what: &str) -> HostBody {
    let bytes: String = what.bytes().map(|byte| format!("\\{byte:02x}")).collect();
    let length = what.len() + 1;
    let text = format!(
        "%what = alloca [{length} x i8]\n store [{length} x i8] c\"{bytes}\\00\", ptr %what
         call void @softgpu.trap(ptr %what)\n unreachable"
    );
    HostBody {
        text,
        attributes: "noinline cold",
        ..HostBody::default()
    }
}

/// The body of a function that CUDA's device runtime has built in, or of a generic intrinsic that
/// means something else on a host.
pub fn body(foreign: &ForeignFunction) -> Option<HostBody> {
    match foreign.name {
        "vprintf" if foreign.is("i32", &["ptr", "ptr"]) => {
            HostBody::inline(foreign.forward("softgpu.vprintf"))
        }
        "__assertfail" if foreign.is("void", &["ptr", "ptr", "i32", "ptr", "i64"]) => {
            HostBody::inline("call void @softgpu.assert_fail(ptr %a0, ptr %a1, i32 %a2, ptr %a3)\n ret void")
        }
        "malloc" | "_Znwm" | "_Znam" if foreign.is("ptr", &["i64"]) => {
            HostBody::inline(foreign.forward("softgpu.allocate"))
        }
        "free" | "_ZdlPv" | "_ZdaPv" if foreign.is("void", &["ptr"]) => {
            HostBody::inline(foreign.forward("softgpu.release"))
        }
        "_ZdlPvm" | "_ZdaPvm" if foreign.is("void", &["ptr", "i64"]) => {
            HostBody::inline("call void @softgpu.release(ptr %a0)\n ret void")
        }
        // A pure virtual function that is called all the same.
        "__cxa_pure_virtual" if foreign.is("void", &[]) => Some(trap("a pure virtual function")),
        // On a host these would end the process.
        "llvm.trap" => Some(trap("__trap()")),
        "llvm.debugtrap" => nothing(foreign),
        "llvm.ubsantrap" => Some(trap("undefined behaviour found by the sanitizer")),
        _ => None,
    }
}

/// The body of an NVVM intrinsic that advises, or of a plain load under another name.
pub fn intrinsic(name: &str, foreign: &ForeignFunction) -> Option<HostBody> {
    match name {
        "nanosleep" if foreign.is("void", &["i32"]) => {
            return HostBody::inline("call void @softgpu.sleep(i32 %a0)\n ret void");
        }
        "exit" if foreign.is("void", &[]) => {
            return Some(HostBody {
                text: "call void @softgpu.exit()\n unreachable".into(),
                attributes: "noinline cold",
                ..HostBody::default()
            });
        }
        _ => {}
    }
    if let Some(space) = name.strip_prefix("isspacep.") {
        let space = ["shared", "local", "global", "const"]
            .iter()
            .position(|known| *known == space)?;
        return HostBody::inline(format!(
            "%r = call i1 @softgpu.is_space(ptr %a0, i32 {space})\n ret i1 %r"
        ));
    }
    let advises = ["prefetch.", "prefetchu.", "griddepcontrol.", "applypriority."];
    if advises.iter().any(|advice| name.starts_with(advice)) {
        return nothing(foreign);
    }
    if name.starts_with("ldu.global.") {
        let (ty, pointer) = (&foreign.returns, foreign.takes.first()?);
        return HostBody::inline(format!("%r = load {ty}, {pointer} %a0, align 1\n ret {ty} %r"));
    }
    None
}
