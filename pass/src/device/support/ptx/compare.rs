//! Comparisons and selections.
use super::call::Call;
use super::emit::Emitter;
use super::formats;
use super::parse::Operand;
use super::types::{PREDICATE, ScalarKind, Type, bits};

/// LLVM's predicate for a comparison.
fn predicate(it: &Call, ty: Type) -> Option<String> {
    let name = *it.modifiers.first()?;
    if ty.is_float() {
        let known = match name {
            "eq" | "lt" | "le" | "gt" | "ge" | "ne" => format!("o{name}"),
            "equ" | "neu" | "ltu" | "leu" | "gtu" | "geu" => format!("u{}", &name[..2]),
            "num" => "ord".into(),
            "nan" => "uno".into(),
            _ => return None,
        };
        return Some(known);
    }
    let known = match name {
        "eq" | "ne" => return Some(name.into()),
        "lt" | "le" | "gt" | "ge" => name,
        // Lower, lower or same, higher, higher or same: of numbers without a sign.
        "lo" => return Some("ult".into()),
        "ls" => return Some("ule".into()),
        "hi" => return Some("ugt".into()),
        "hs" => return Some("uge".into()),
        _ => return None,
    };
    let sign = if ty.kind == ScalarKind::Signed { "s" } else { "u" };
    Some(format!("{sign}{known}"))
}

pub fn emit(emitter: &mut Emitter, it: &Call) -> Option<()> {
    let ty = it.ty()?;
    match (it.mnemonic, it.operands) {
        ("setp", [to, a, b, rest @ ..]) => {
            let found = compared(emitter, it, ty, a, b)?;
            put_predicates(emitter, it, to, &found, rest.first())
        }
        ("set", [to, a, b, rest @ ..]) => {
            let found = compared(emitter, it, ty, a, b)?;
            let found = combined(emitter, it, &found, rest.first())?;
            let target = it.modifiers.iter().find_map(|text| Type::parse(text))?;
            let value = match (target.kind, target.bits) {
                (ScalarKind::Float, 32) => emitter.value(format!("select i1 {found}, float 1.0, float 0.0")),
                (ScalarKind::Unsigned | ScalarKind::Signed | ScalarKind::Bits, 32) => {
                    emitter.value(format!("sext i1 {found} to i32"))
                }
                _ => return None,
            };
            emitter.write(to, target, &value)
        }
        ("selp", [to, a, b, condition]) => {
            let plain = bits(ty.width());
            let (a, b) = (emitter.read(a, plain)?, emitter.read(b, plain)?);
            let condition = emitter.read(condition, PREDICATE)?;
            let ty = plain.register();
            let value = emitter.value(format!("select i1 {condition}, {ty} {a}, {ty} {b}"));
            emitter.write(to, plain, &value)
        }
        // By the sign of the last operand.
        ("slct", [to, a, b, sign]) => {
            let target = it.modifiers.iter().find_map(|text| Type::parse(text))?;
            let plain = bits(target.width());
            let (a, b) = (emitter.read(a, plain)?, emitter.read(b, plain)?);
            let sign = emitter.read(sign, ty)?;
            let positive = match ty.kind {
                ScalarKind::Float => emitter.value(format!("fcmp oge float {sign}, 0.0")),
                _ => emitter.value(format!("icmp sge i32 {sign}, 0")),
            };
            let register = plain.register();
            let value = emitter.value(format!("select i1 {positive}, {register} {a}, {register} {b}"));
            emitter.write(to, plain, &value)
        }
        _ => None,
    }
}

/// Compares two operands.
fn compared(emitter: &mut Emitter, it: &Call, ty: Type, a: &Operand, b: &Operand) -> Option<String> {
    let predicate = predicate(it, ty)?;
    let (a, b) = (emitter.read(a, ty)?, emitter.read(b, ty)?);
    let compare = if ty.is_float() { "fcmp" } else { "icmp" };
    Some(emitter.value(format!("{compare} {predicate} {} {a}, {b}", ty.llvm())))
}

/// A comparison's result and another predicate: `.and`, `.or`, `.xor`.
fn combined(emitter: &mut Emitter, it: &Call, found: &str, other: Option<&Operand>) -> Option<String> {
    let Some(other) = other else {
        return Some(found.to_owned());
    };
    let operation = it
        .modifiers
        .iter()
        .find(|text| ["and", "or", "xor"].contains(text))?;
    let other = emitter.read(other, PREDICATE)?;
    Some(emitter.value(format!("{operation} i1 {found}, {other}")))
}

/// Writes `p`, or `p|q` with `q` for the opposite comparison.
fn put_predicates(
    emitter: &mut Emitter,
    it: &Call,
    to: &Operand,
    found: &str,
    other: Option<&Operand>,
) -> Option<()> {
    let result = combined(emitter, it, found, other)?;
    let Operand::Pair(yes, no) = to else {
        return emitter.write(to, PREDICATE, &result);
    };
    let opposite = emitter.value(format!("xor i1 {found}, true"));
    let opposite = combined(emitter, it, &opposite, other)?;
    emitter.write(yes, PREDICATE, &result)?;
    emitter.write(no, PREDICATE, &opposite)
}

/// Comparisons of the 16-bit formats.
pub fn small(emitter: &mut Emitter, it: &Call, ty: Type) -> Option<()> {
    let (to, a, b, other) = match it.operands {
        [to, a, b] => (to, a, b, None),
        [to, a, b, other] => (to, a, b, Some(other)),
        _ => return None,
    };
    let predicate = predicate(it, ty)?;
    let (a, b) = (emitter.read(a, ty)?, emitter.read(b, ty)?);
    let (a, b) = (
        formats::elements(emitter, ty, &a),
        formats::elements(emitter, ty, &b),
    );
    let mut found = Vec::new();
    for (a, b) in a.iter().zip(&b) {
        let (a, b) = (formats::widen(emitter, ty, a), formats::widen(emitter, ty, b));
        found.push(emitter.value(format!("fcmp {predicate} float {a}, {b}")));
    }
    if it.mnemonic == "setp" {
        return match (to, found.as_slice()) {
            (_, [one]) => put_predicates(emitter, it, to, one, other),
            // Of a pair, one predicate each.
            (Operand::Pair(low, high), [first, second]) => {
                let (first, second) = (
                    combined(emitter, it, first, other)?,
                    combined(emitter, it, second, other)?,
                );
                emitter.write(low, PREDICATE, &first)?;
                emitter.write(high, PREDICATE, &second)
            }
            _ => None,
        };
    }
    let target = it.modifiers.iter().find_map(|text| Type::parse(text))?;
    let yes = match target.kind {
        ScalarKind::Float if target.bits == 16 => 0x3c00,
        ScalarKind::Float => return None,
        ScalarKind::Brain => 0x3f80,
        _ => -1,
    };
    let mut results = Vec::new();
    for one in &found {
        let one = combined(emitter, it, one, other)?;
        results.push(emitter.value(format!("select i1 {one}, i16 {yes}, i16 0")));
    }
    match (results.as_slice(), target.width()) {
        ([one], 16) => emitter.write(to, bits(16), one),
        ([one], 32) => {
            let wide = emitter.value(format!("sext i16 {one} to i32"));
            emitter.write(to, bits(32), &wide)
        }
        (pair, 32) => {
            let whole = formats::pack(emitter, pair);
            emitter.write(to, bits(32), &whole)
        }
        _ => None,
    }
}
