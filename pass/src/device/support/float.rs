//! Floating point: NVVM's operations with rounding modes, approximations and conversions.
//!
//! Approximations (`*.approx`) are computed to the host library's accuracy, which is better than the
//! GPU's. `.ftz` forms keep subnormal numbers. Rounding modes are exact.
use super::body::{ForeignFunction, HostBody};

/// `f32` for `float`.
pub fn suffix(ty: &str) -> Option<&'static str> {
    match ty {
        "float" => Some("f32"),
        "double" => Some("f64"),
        "half" => Some("f16"),
        _ => None,
    }
}

/// LLVM's number for a PTX rounding mode, as `llvm.set.rounding` takes it.
fn rounding(mode: &str) -> Option<u32> {
    match mode {
        "rn" => Some(1),
        "rz" => Some(0),
        "rp" => Some(2),
        "rm" => Some(3),
        _ => None,
    }
}

/// The body of a floating point intrinsic.
pub fn body(name: &str, foreign: &ForeignFunction) -> Option<HostBody> {
    let parts: Vec<&str> = name.split('.').filter(|&part| part != "ftz").collect();
    let (&operation, rest) = parts.split_first()?;
    let mode = rest.first().copied().unwrap_or("");
    if let Some(body) = conversion(operation, mode, foreign) {
        return Some(body);
    }
    let (ty, f) = (foreign.returns.as_str(), suffix(&foreign.returns)?);
    // What follows is (operation[, mode], type); anything more (.sat, .relu, ...) is not known.
    if rest.len() > 2 {
        return None;
    }
    if let Some(mode) = rounding(mode) {
        return arithmetic(operation, mode, ty, f, foreign);
    }
    let call = |name: &str| HostBody::inline(foreign.forward(&format!("llvm.{name}.{f}")));
    match (operation, mode) {
        ("fabs" | "floor" | "ceil" | "trunc", _) => call(operation),
        ("round", _) => call("rint"),
        ("fmin", "nan") => call("minimum"),
        ("fmax", "nan") => call("maximum"),
        ("fmin", _) => call("minnum"),
        ("fmax", _) => call("maxnum"),
        ("sin" | "cos", "approx") => call(operation),
        ("ex2", "approx") => call("exp2"),
        ("lg2", "approx") => call("log2"),
        ("sqrt", _) => call("sqrt"),
        ("tanh", "approx") => call("tanh"),
        ("div", "approx" | "full") => HostBody::inline(format!("%r = fdiv {ty} %a0, %a1\n ret {ty} %r")),
        ("rcp", "approx") => HostBody::inline(format!("%r = fdiv {ty} 1.0, %a0\n ret {ty} %r")),
        ("rsqrt", "approx") => HostBody::inline(reciprocal_root(ty, f)),
        // Not by minnum and maxnum: not-a-number becomes zero.
        ("saturate", _) => HostBody::inline(format!(
            "%low = fcmp olt {ty} %a0, 1.0\n %capped = select i1 %low, {ty} %a0, {ty} 1.0
             %high = fcmp ogt {ty} %a0, 0.0\n %r = select i1 %high, {ty} %capped, {ty} 0.0\n ret {ty} %r"
        )),
        _ => None,
    }
}

/// 1 / sqrt(x).
pub fn reciprocal_root(ty: &str, f: &str) -> String {
    format!("%s = call {ty} @llvm.sqrt.{f}({ty} %a0)\n %r = fdiv {ty} 1.0, %s\n ret {ty} %r")
}

/// An operation under a rounding mode.
fn arithmetic(operation: &str, mode: u32, ty: &str, f: &str, foreign: &ForeignFunction) -> Option<HostBody> {
    let (name, one) = match operation {
        "add" | "mul" | "div" | "fma" | "sqrt" => (operation, ""),
        "sub" => (operation, ""),
        "rcp" => ("div", "1.0"),
        _ => return None,
    };
    let arguments = if one.is_empty() {
        foreign.arguments()
    } else {
        format!("{ty} {one}, {}", foreign.arguments())
    };
    if mode == 1 {
        let bare = arguments.replace(&format!("{ty} "), "");
        return HostBody::inline(match name {
            "fma" | "sqrt" => foreign.forward(&format!("llvm.{name}.{f}")),
            _ => format!("%r = f{name} {ty} {bare}\n ret {ty} %r"),
        });
    }
    let name = if matches!(name, "fma" | "sqrt") {
        name.to_owned()
    } else {
        format!("f{name}")
    };
    Some(rounded(
        mode,
        ty,
        &format!("@llvm.experimental.constrained.{name}.{f}({arguments}, "),
    ))
}

/// A body that runs one constrained intrinsic under a rounding mode. `call` is the call up to its
/// metadata. It is never inlined: outside it the compiler takes the mode to be *nearest*.
fn rounded(mode: u32, ty: &str, call: &str) -> HostBody {
    let text = format!(
        "call void @llvm.set.rounding(i32 {mode}) strictfp
         %r = call {ty} {call}metadata !\"round.dynamic\", metadata !\"fpexcept.ignore\") strictfp
         call void @llvm.set.rounding(i32 1) strictfp\n ret {ty} %r"
    );
    HostBody {
        text,
        attributes: "noinline strictfp",
        ..HostBody::default()
    }
}

/// Conversions: `f2i.rn`, `ull2d.rz`, `d2f.rp`, and halves of doubles.
fn conversion(operation: &str, mode: &str, foreign: &ForeignFunction) -> Option<HostBody> {
    let (ty, from) = (foreign.returns.as_str(), foreign.takes.first()?.as_str());
    match (operation, mode) {
        ("d2i", "hi") => {
            return HostBody::inline(
                "%b = bitcast double %a0 to i64\n %h = lshr i64 %b, 32\n %r = trunc i64 %h to i32\n ret i32 %r",
            );
        }
        ("d2i", "lo") => {
            return HostBody::inline(
                "%b = bitcast double %a0 to i64\n %r = trunc i64 %b to i32\n ret i32 %r",
            );
        }
        ("lohi", "i2d") => {
            return HostBody::inline(
                "%l = zext i32 %a0 to i64\n %z = zext i32 %a1 to i64\n %h = shl i64 %z, 32\n %b = or i64 %h, %l
                 %r = bitcast i64 %b to double\n ret double %r",
            );
        }
        ("f2h", "rn") => {
            return HostBody::inline(
                "%h = fptrunc float %a0 to half\n %r = bitcast half %h to i16\n ret i16 %r",
            );
        }
        _ => {}
    }
    let (source, target) = operation.split_once('2')?;
    let llvm_mode = rounding(mode)?;
    let unsigned = |name: &str| name == "ui" || name == "ull";
    let integer = |name: &str| unsigned(name) || name == "i" || name == "ll";
    if operation == "d2f" {
        let call = "@llvm.experimental.constrained.fptrunc.f32.f64(double %a0, ";
        return match llvm_mode {
            1 => HostBody::inline("%r = fptrunc double %a0 to float\n ret float %r"),
            mode => Some(rounded(mode, "float", call)),
        };
    }
    if integer(target) && suffix(from).is_some() {
        // The GPU's conversions saturate. Not-a-number becomes zero between 32-bit types, else the sign bit
        // alone.
        let f = suffix(from)?;
        let round = ["trunc", "rint", "ceil", "floor"][llvm_mode as usize];
        let sign = if unsigned(target) { "ui" } else { "si" };
        let none = match (from, ty) {
            ("float", "i32") => 0,
            (_, "i32") => i64::from(i32::MIN),
            _ => i64::MIN,
        };
        return HostBody::inline(format!(
            "%w = call {from} @llvm.{round}.{f}({from} %a0)
             %s = call {ty} @llvm.fpto{sign}.sat.{ty}.{f}({from} %w)
             %none = fcmp uno {from} %a0, %a0
             %r = select i1 %none, {ty} {none}, {ty} %s\n ret {ty} %r"
        ));
    }
    if integer(source) && suffix(ty).is_some() {
        let (f, sign) = (suffix(ty)?, if unsigned(source) { "ui" } else { "si" });
        let call = format!("@llvm.experimental.constrained.{sign}tofp.{f}.{from}({from} %a0, ");
        return match llvm_mode {
            1 => HostBody::inline(format!("%r = {sign}tofp {from} %a0 to {ty}\n ret {ty} %r")),
            mode => Some(rounded(mode, ty, &call)),
        };
    }
    None
}
