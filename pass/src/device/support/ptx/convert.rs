//! Moves, packing and unpacking, conversions between formats, and conversions of addresses.
use super::call::Call;
use super::emit::Emitter;
use super::formats;
use super::types::{PREDICATE, ScalarKind, Type, bits};

pub fn emit(emitter: &mut Emitter, it: &Call) -> Option<()> {
    match (it.mnemonic, it.operands) {
        ("mov", [to, from]) => {
            let ty = it.ty()?;
            let ty = if ty == PREDICATE { ty } else { bits(ty.width()) };
            let value = emitter.read(from, ty)?;
            emitter.write(to, ty, &value)
        }
        // Every address space is part of the one flat memory here.
        ("cvta" | "mapa", [to, from, ..]) => {
            let value = emitter.read(from, bits(64))?;
            emitter.write(to, bits(64), &value)
        }
        ("isspacep", [to, from]) => {
            let value = emitter.read(from, bits(64))?;
            let pointer = emitter.value(format!("inttoptr i64 {value} to ptr"));
            let space = ["shared", "local", "global", "const"]
                .iter()
                .position(|space| it.has(space))?;
            let arguments = [("ptr", pointer.as_str()), ("i32", &space.to_string())];
            let found = emitter.call("softgpu.is_space", "i1", &arguments);
            emitter.write(to, PREDICATE, &found)
        }
        ("cvt", [to, from]) => {
            let (target, source) = types(it)?;
            if target.lanes == 2 {
                return None;
            }
            let value = emitter.read(from, source)?;
            let value = convert(emitter, it, target, source, &value)?;
            emitter.write(to, target, &value)
        }
        // Two numbers into one register, the first into its upper half.
        ("cvt", [to, upper, lower]) => {
            let (target, source) = types(it)?;
            if target.lanes != 2 || source.lanes != 1 {
                return None;
            }
            let mut halves = Vec::new();
            for from in [lower, upper] {
                let value = emitter.read(from, source)?;
                halves.push(convert(emitter, it, target.element(), source, &value)?);
            }
            let whole = formats::pack(emitter, &halves);
            emitter.write(to, target, &whole)
        }
        _ => None,
    }
}

/// The types a conversion goes to and comes from.
fn types(it: &Call) -> Option<(Type, Type)> {
    let mut found = it.modifiers.iter().filter_map(|text| Type::parse(text));
    let (target, source) = (found.next()?, found.next()?);
    let known = [
        "rn",
        "rz",
        "rm",
        "rp",
        "rni",
        "rzi",
        "rmi",
        "rpi",
        "ftz",
        "sat",
        "relu",
        "satfinite",
    ];
    it.only(&known)?;
    Some((target, source))
}

/// Converts one number.
fn convert(emitter: &mut Emitter, it: &Call, target: Type, source: Type, value: &str) -> Option<String> {
    let saturate = it.has("sat");
    match (target.is_float(), source.is_float()) {
        (false, false) => Some(between_integers(emitter, target, source, value, saturate)),
        (false, true) => to_integer(emitter, it, target, source, value),
        (true, false) => {
            let result = from_integer(emitter, it, target, source, value)?;
            clamped(emitter, it, target, result)
        }
        (true, true) => {
            let result = between_floats(emitter, it, target, source, value)?;
            clamped(emitter, it, target, result)
        }
    }
}

fn between_integers(
    emitter: &mut Emitter,
    target: Type,
    source: Type,
    value: &str,
    saturate: bool,
) -> String {
    let signed = source.kind == ScalarKind::Signed;
    if !saturate {
        return emitter.resized(value, source.bits, target.bits, signed);
    }
    // In 128 bits every bound of either type is exact.
    let wide = emitter.resized(value, source.bits, 128, signed);
    let (low, high) = match target.kind {
        ScalarKind::Signed => (-(1i128 << (target.bits - 1)), (1i128 << (target.bits - 1)) - 1),
        _ => (0, (1i128 << target.bits) - 1),
    };
    let above = emitter.call(
        "llvm.smax.i128",
        "i128",
        &[("i128", &wide), ("i128", &low.to_string())],
    );
    let within = emitter.call(
        "llvm.smin.i128",
        "i128",
        &[("i128", &above), ("i128", &high.to_string())],
    );
    emitter.resized(&within, 128, target.bits, true)
}

/// The letter of a rounding mode among `rn`, `rz`, `rm`, `rp` and their integer forms.
fn rounding(it: &Call) -> Option<char> {
    let modes = ["rn", "rz", "rm", "rp", "rni", "rzi", "rmi", "rpi"];
    it.modifiers
        .iter()
        .find(|text| modes.contains(text))
        .and_then(|text| text.chars().nth(1))
}

/// Rounds a number to an integer.
fn whole(emitter: &mut Emitter, it: &Call, ty: Type, value: &str) -> Option<String> {
    let function = match rounding(it)? {
        'n' => "rint",
        'z' => "trunc",
        'm' => "floor",
        _ => "ceil",
    };
    let (llvm, suffix) = (ty.llvm(), ty.suffix());
    Some(emitter.call(&format!("llvm.{function}.{suffix}"), &llvm, &[(&llvm, value)]))
}

/// `float` or `double`, with the value in it.
fn widened(emitter: &mut Emitter, source: Type, value: &str) -> (Type, String) {
    if source.is_small() {
        let single = Type {
            kind: ScalarKind::Float,
            bits: 32,
            lanes: 1,
        };
        return (single, formats::widen(emitter, source, value));
    }
    (source, value.to_owned())
}

fn to_integer(emitter: &mut Emitter, it: &Call, target: Type, source: Type, value: &str) -> Option<String> {
    let (ty, value) = widened(emitter, source, value);
    let value = whole(emitter, it, ty, &value)?;
    let sign = if target.kind == ScalarKind::Signed {
        "si"
    } else {
        "ui"
    };
    let (llvm, to, suffix) = (ty.llvm(), target.register(), ty.suffix());
    Some(emitter.call(
        &format!("llvm.fpto{sign}.sat.{to}.{suffix}"),
        &to,
        &[(&llvm, &value)],
    ))
}

fn from_integer(emitter: &mut Emitter, it: &Call, target: Type, source: Type, value: &str) -> Option<String> {
    let mode = rounding(it)?;
    let signed = source.kind == ScalarKind::Signed;
    if target.is_small() {
        // Integers beyond 2^53 are infinite in the one format, and inexact by at most one rounding in the
        // other.
        let sign = if signed { "si" } else { "ui" };
        let exact = emitter.value(format!("{sign}tofp {} {value} to double", source.register()));
        return Some(formats::narrow(emitter, target, &exact, mode));
    }
    let (bits, letter) = if source.bits == 64 { (64, "ll") } else { (32, "i") };
    let wide = emitter.resized(value, source.bits, bits, signed);
    let sign = if signed { "" } else { "u" };
    let to = if target.bits == 32 { "f" } else { "d" };
    let from = format!("i{bits}");
    emitter.intrinsic(
        &format!("{sign}{letter}2{to}.r{mode}"),
        &target.llvm(),
        &[(&from, &wide)],
    )
}

fn between_floats(
    emitter: &mut Emitter,
    it: &Call,
    target: Type,
    source: Type,
    value: &str,
) -> Option<String> {
    if target == source {
        if !it
            .modifiers
            .iter()
            .any(|text| text.len() == 3 && text.starts_with('r') && text.ends_with('i'))
        {
            return Some(value.to_owned());
        }
        let (ty, wide) = widened(emitter, source, value);
        let rounded = whole(emitter, it, ty, &wide)?;
        return Some(if target.is_small() {
            let exact = emitter.value(format!("fpext float {rounded} to double"));
            formats::narrow(emitter, target, &exact, 'n')
        } else {
            rounded
        });
    }
    let (ty, wide) = widened(emitter, source, value);
    if target.is_small() {
        let mode = rounding(it)?;
        if ty.bits == 64 {
            return Some(formats::narrow(emitter, target, &wide, mode));
        }
        let exact = emitter.value(format!("fpext float {wide} to double"));
        let narrow = formats::narrow(emitter, target, &exact, mode);
        // Not-a-number has one form then, and another where a double is narrowed.
        let none = emitter.value(format!("fcmp uno float {wide}, {wide}"));
        return Some(emitter.value(format!("select i1 {none}, i16 32767, i16 {narrow}")));
    }
    match (ty.bits, target.bits) {
        (32, 64) => Some(emitter.value(format!("fpext float {wide} to double"))),
        (64, 32) => emitter.intrinsic(&format!("d2f.r{}", rounding(it)?), "float", &[("double", &wide)]),
        _ => Some(wide),
    }
}

/// `.sat` and `.relu` of a floating point result.
fn clamped(emitter: &mut Emitter, it: &Call, target: Type, value: String) -> Option<String> {
    if !it.has("sat") && !it.has("relu") {
        return Some(value);
    }
    if target.is_small() {
        let wide = formats::widen(emitter, target, &value);
        let clamped = formats::clamp(emitter, it, &wide);
        let exact = emitter.value(format!("fpext float {clamped} to double"));
        return Some(formats::narrow(emitter, target, &exact, 'n'));
    }
    if it.has("relu") {
        return None;
    }
    let suffix = if target.bits == 32 { "f" } else { "d" };
    let llvm = target.llvm();
    emitter.intrinsic(&format!("saturate.{suffix}"), &llvm, &[(&llvm, &value)])
}
