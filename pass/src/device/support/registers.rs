//! PTX special registers: `llvm.nvvm.read.ptx.sreg.*`.
use super::body::{ForeignFunction, HostBody};

/// Where `softgpu_thread` keeps a register.
fn offset(register: &str) -> Option<u32> {
    let (vector, dimension) = register.split_once('.').unwrap_or((register, ""));
    let base = match vector {
        "tid" => 0,
        "ntid" => 12,
        "ctaid" => 24,
        "nctaid" => 36,
        "laneid" => return Some(48),
        "warpid" => return Some(52),
        _ => return None,
    };
    let at = ["x", "y", "z"].iter().position(|&known| known == dimension)?;
    Some(base + 4 * at as u32)
}

/// The body that reads a special register.
pub fn body(name: &str, foreign: &ForeignFunction) -> Option<HostBody> {
    let register = name.strip_prefix("read.ptx.sreg.")?;
    let ty = foreign.returns.as_str();
    if ty == "i32"
        && let Some(offset) = offset(register)
    {
        return HostBody::inline(format!("%r = call i32 @softgpu.word(i64 {offset})\n ret i32 %r"));
    }
    let lanes = |text: &str| {
        HostBody::inline(format!(
            "%lane = call i32 @softgpu.word(i64 48)\n %bit = shl i32 1, %lane\n {text}\n ret i32 %r"
        ))
    };
    let constant = |value: u32| HostBody::inline(format!("ret {ty} {value}"));
    match register {
        "warpsize" => constant(32),
        "clock" | "clock64" | "globaltimer" | "globaltimer.lo" => {
            let source = if register.starts_with("clock") {
                "clock"
            } else {
                "global_timer"
            };
            let result = if ty == "i64" {
                "ret i64 %t"
            } else {
                "%r = trunc i64 %t to i32\n ret i32 %r"
            };
            HostBody::inline(format!("%t = call i64 @softgpu.{source}()\n {result}"))
        }
        "lanemask.eq" => lanes("%r = add i32 %bit, 0"),
        "lanemask.lt" => lanes("%r = sub i32 %bit, 1"),
        "lanemask.le" => lanes("%low = sub i32 %bit, 1\n %r = or i32 %low, %bit"),
        "lanemask.ge" => lanes("%r = sub i32 0, %bit"),
        "lanemask.gt" => lanes("%up = sub i32 0, %bit\n %r = xor i32 %up, %bit"),
        // One multiprocessor and no clusters, as far as a program can tell.
        "smid" | "gridid" | "virtual_smid" => constant(0),
        "nwarpid" => constant(64),
        // Where a cooperative launch finds its grid barrier: a pointer, the upper half first.
        "envreg1" => HostBody::inline(
            "%w = call i64 @softgpu.workspace()\n %u = lshr i64 %w, 32\n %r = trunc i64 %u to i32\n ret i32 %r",
        ),
        "envreg2" => {
            HostBody::inline("%w = call i64 @softgpu.workspace()\n %r = trunc i64 %w to i32\n ret i32 %r")
        }
        "envreg0" => constant(0),
        // From the start of static shared memory to its end, or from the start of the dynamic part.
        "total.smem.size" | "dynamic.smem.size" => {
            let from = if register.starts_with("total") { 56 } else { 64 };
            HostBody::inline(format!(
                "%s = call ptr @softgpu.shared(i64 {from})\n %e = call ptr @softgpu.shared(i64 88)
                 %a = ptrtoint ptr %s to i64\n %b = ptrtoint ptr %e to i64\n %d = sub i64 %b, %a
                 %r = trunc i64 %d to i32\n ret i32 %r"
            ))
        }
        "reserved.smem.offset.1" => HostBody::inline(
            "%p = addrspacecast ptr addrspace(3) @softgpu.reserved to ptr\n %l = ptrtoint ptr %p to i64
             %r = trunc i64 %l to i32\n ret i32 %r",
        ),
        "nsmid" => constant(1),
        "cluster.ctarank" | "cluster.ctaid.x" | "cluster.ctaid.y" | "cluster.ctaid.z" => constant(0),
        "cluster.nctarank" | "cluster.nctaid.x" | "cluster.nctaid.y" | "cluster.nctaid.z" => constant(1),
        "tid.w" | "ctaid.w" => constant(0),
        "ntid.w" | "nctaid.w" => constant(1),
        _ => None,
    }
}
