//! PTX in inline assembly: the single instructions that CUDA's headers and common programs use.
//!
//! The operands of the assembly are the parameters of the body, outputs being its result. Anything
//! longer or rarer is an error that quotes it.
use super::{Body, Foreign, accesses, float, integer, registers};

/// How cooperative groups ask for the shared memory that CUDA reserves for them.
const RESERVED_SHARED: &str = ".reg .u32 start; .reg .u64 extended; mov.u32 start, %reserved_smem_offset_1; \
    cvt.u64.u32 extended, start; cvta.shared.u64 $0, extended";

/// The body for one inline assembly text.
pub fn body(foreign: &Foreign) -> Option<Body> {
    let text = foreign.name.split_whitespace().collect::<Vec<_>>().join(" ");
    let instruction = text
        .trim_end_matches([';', ' '])
        .trim_start_matches(['{', ' '])
        .trim_end_matches(['}', ';', ' ']);
    if instruction == RESERVED_SHARED {
        return Body::inline(
            "%p = addrspacecast ptr addrspace(3) @softgpu.reserved to ptr\n %r = ptrtoint ptr %p to i64\n ret i64 %r",
        );
    }
    if instruction == "mad.lo.cc.u32 $0, $2, $3, $4; madc.hi.u32 $1, $2, $3, 0" {
        return multiply_add_wide(foreign);
    }
    if instruction.contains(';') {
        return None;
    }
    let (name, operands) = instruction.split_once(' ').unwrap_or((instruction, ""));
    let operands: Vec<&str> = operands
        .split(',')
        .map(str::trim)
        .filter(|text| !text.is_empty())
        .collect();
    synchronise(name, &operands, foreign)
        .or_else(|| accesses::body(name, &operands, foreign))
        .or_else(|| register(name, &operands, foreign))
        .or_else(|| arithmetic(name, &operands, foreign))
}

/// Whether the operands are `$0`, `$1` ... each once and in order.
fn in_order(operands: &[&str]) -> bool {
    operands
        .iter()
        .enumerate()
        .all(|(at, text)| *text == format!("${at}"))
}

/// An operand that is a number, or an input of an instruction without outputs.
fn value(operand: &str) -> Option<String> {
    match operand.strip_prefix('$') {
        Some(number) => number.parse::<u32>().ok().map(|number| format!("%a{number}")),
        None => operand.parse::<u32>().ok().map(|number| number.to_string()),
    }
}

/// Barriers, fences, traps and advice.
fn synchronise(name: &str, operands: &[&str], foreign: &Foreign) -> Option<Body> {
    if foreign.returns != "void" {
        return None;
    }
    let name = name.replace(".aligned", "");
    let barrier = |id: &str, threads: &str| {
        Body::inline(format!(
            "call void @softgpu.barrier(i32 {}, i32 {})\n ret void",
            value(id)?,
            value(threads)?
        ))
    };
    match (name.as_str(), operands) {
        ("", []) | ("brkpt", []) | ("nanosleep.u32", [_]) => {
            Body::inline("fence syncscope(\"singlethread\") seq_cst\n ret void")
        }
        ("bar.sync" | "barrier.sync" | "barrier.cta.sync", [id]) => barrier(id, "0"),
        ("bar.sync" | "barrier.sync" | "barrier.cta.sync", [id, threads]) => barrier(id, threads),
        ("bar.warp.sync", [mask]) => Body::inline(format!(
            "call void @softgpu.warp_sync(i32 {})\n ret void",
            value(mask)?
        )),
        ("trap", []) => Body::inline(super::services::trap("trap").text),
        (fence, [])
            if fence.starts_with("membar.") || fence.starts_with("fence.") && !fence.contains("proxy") =>
        {
            Body::inline("fence seq_cst\n ret void")
        }
        (prefetch, [_]) if prefetch.starts_with("prefetch") => Body::inline("ret void"),
        _ => None,
    }
}

/// `mov.u32 $0, %laneid`.
fn register(name: &str, operands: &[&str], foreign: &Foreign) -> Option<Body> {
    let ["$0", register] = operands else {
        return None;
    };
    let register = register
        .trim_start_matches('%')
        .replace("lanemask_", "lanemask.")
        .replace('_', ".");
    match name {
        "mov.u32" | "mov.b32" | "mov.u64" | "mov.b64" if foreign.takes.is_empty() => {
            registers::body(&format!("read.ptx.sreg.{register}"), foreign)
        }
        _ => None,
    }
}

/// Arithmetic whose operands are all registers, in order.
fn arithmetic(name: &str, operands: &[&str], foreign: &Foreign) -> Option<Body> {
    if !in_order(operands) || operands.len() != foreign.takes.len() + 1 {
        return None;
    }
    let ty = foreign.returns.as_str();
    let (operation, rest) = name.split_once('.')?;
    match name {
        "shf.l.wrap.b32" => {
            return Body::inline("%r = call i32 @llvm.fshl.i32(i32 %a1, i32 %a0, i32 %a2)\n ret i32 %r");
        }
        "shf.r.wrap.b32" => {
            return Body::inline("%r = call i32 @llvm.fshr.i32(i32 %a1, i32 %a0, i32 %a2)\n ret i32 %r");
        }
        // The function below has the high word first.
        "shf.l.clamp.b32" | "shf.r.clamp.b32" => {
            let text = integer::funnel_clamped(if name.starts_with("shf.l") { "fshl" } else { "fshr" });
            return Body::inline(
                text.replace("%a0", "%low")
                    .replace("%a1", "%a0")
                    .replace("%low", "%a1"),
            );
        }
        "prmt.b32" => return Body::inline(integer::permute("%a0", "%a1", "%a2")),
        "popc.b32" | "brev.b32" => {
            let intrinsic = if operation == "popc" {
                "ctpop"
            } else {
                "bitreverse"
            };
            return Body::inline(foreign.forward(&format!("llvm.{intrinsic}.i32")));
        }
        "clz.b32" => {
            return Body::inline("%r = call i32 @llvm.ctlz.i32(i32 %a0, i1 false)\n ret i32 %r");
        }
        "bfind.u32" | "bfind.shiftamt.u32" => {
            let found = if name == "bfind.u32" {
                "%f = sub i32 31, %n"
            } else {
                "%f = add i32 %n, 0"
            };
            return Body::inline(format!(
                "%n = call i32 @llvm.ctlz.i32(i32 %a0, i1 false)\n {found}\n %none = icmp eq i32 %a0, 0
                 %r = select i1 %none, i32 -1, i32 %f\n ret i32 %r"
            ));
        }
        "bfe.u32" => {
            return Body::inline(
                "%p = and i32 %a1, 255\n %l = and i32 %a2, 255\n %w = zext i32 %a0 to i64\n %p64 = zext i32 %p to i64
                 %l64 = zext i32 %l to i64\n %far = icmp ugt i32 %p, 31\n %s = lshr i64 %w, %p64
                 %shifted = select i1 %far, i64 0, i64 %s\n %long = icmp ugt i32 %l, 31\n %m0 = shl i64 1, %l64
                 %m1 = sub i64 %m0, 1\n %m = select i1 %long, i64 -1, i64 %m1\n %v = and i64 %shifted, %m
                 %r = trunc i64 %v to i32\n ret i32 %r",
            );
        }
        "mul.wide.u32" => {
            return Body::inline(
                "%x = zext i32 %a0 to i64\n %y = zext i32 %a1 to i64\n %r = mul i64 %x, %y\n ret i64 %r",
            );
        }
        _ => {}
    }
    // rsqrt.approx.ftz.f64 is NVVM's rsqrt.approx.ftz.d, and so on.
    let (kind, scalar) = rest.rsplit_once('.').unwrap_or(("", rest));
    let suffix = match (scalar, ty) {
        ("f32", "float") => "f",
        ("f64", "double") => "d",
        _ => return None,
    };
    let kind = if kind.is_empty() { "rn" } else { kind };
    match operation {
        "add" | "sub" | "mul" | "div" | "fma" | "rcp" | "sqrt" | "rsqrt" | "sin" | "cos" | "ex2" | "lg2"
        | "tanh" => float::body(&format!("{operation}.{kind}.{suffix}"), foreign),
        _ => None,
    }
}

/// The one pair of instructions that libdevice is fond of: the 64-bit `$2 * $3 + $4` in two halves.
fn multiply_add_wide(foreign: &Foreign) -> Option<Body> {
    foreign.is("{ i32, i32 }", &["i32", "i32", "i32"]).then_some(())?;
    Body::inline(
        "%x = zext i32 %a0 to i64\n %y = zext i32 %a1 to i64\n %z = zext i32 %a2 to i64\n %p = mul i64 %x, %y
         %s = add i64 %p, %z\n %l = trunc i64 %s to i32\n %t = lshr i64 %s, 32\n %h = trunc i64 %t to i32
         %half = insertvalue { i32, i32 } poison, i32 %l, 0\n %r = insertvalue { i32, i32 } %half, i32 %h, 1
         ret { i32, i32 } %r",
    )
}
