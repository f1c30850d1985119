//! Scoped atomics and fences. Threads of a software device run on several cores of one machine, so
//! that every scope is the whole machine here.
use super::body::{ForeignFunction, HostBody};

/// The body of a `llvm.nvvm.atomic.*`, `membar.*` or `fence.*`.
pub fn body(name: &str, foreign: &ForeignFunction) -> Option<HostBody> {
    if name.starts_with("membar.") || name == "fence.sc.cluster" {
        return HostBody::inline("fence seq_cst\n ret void");
    }
    // add.gen.i.cta.i32.p0: operation, generic, integer or float, scope, types.
    let mut parts = name.strip_prefix("atomic.")?.split('.');
    let (operation, ty) = (parts.next()?, foreign.returns.as_str());
    let pointer = foreign.takes.first()?;
    if operation == "cas" {
        return HostBody::inline(format!(
            "%x = cmpxchg {pointer} %a0, {ty} %a1, {ty} %a2 seq_cst seq_cst\n %r = extractvalue {{ {ty}, i1 }} %x, 0
             ret {ty} %r"
        ));
    }
    let float = ty == "float" || ty == "double";
    let operation = match operation {
        "add" if float => "fadd",
        "add" | "and" | "or" | "xor" | "max" | "min" => operation,
        "exch" => "xchg",
        "inc" => "uinc_wrap",
        "dec" => "udec_wrap",
        _ => return None,
    };
    HostBody::inline(format!(
        "%r = atomicrmw {operation} {pointer} %a0, {ty} %a1 seq_cst\n ret {ty} %r"
    ))
}
