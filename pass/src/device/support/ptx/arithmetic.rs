//! Integer arithmetic, of one number or of packed halves and bytes.
use super::call::Call;
use super::emit::Emitter;
use super::formats;
use super::parse::Operand;
use super::types::{ScalarKind, Type, bits};

pub fn emit(emitter: &mut Emitter, it: &Call) -> Option<()> {
    if matches!(it.mnemonic, "dp4a" | "dp2a") {
        return dot(emitter, it);
    }
    let ty = it.ty()?;
    if ty.is_float() || matches!(ty.kind, ScalarKind::Predicate) {
        return None;
    }
    it.only(&["lo", "hi", "wide", "sat", "relu"])?;
    let (to, from) = it.operands.split_first()?;
    if it.has("wide") {
        return wide(emitter, it, ty, to, from);
    }
    let mut inputs = Vec::new();
    for operand in from {
        let value = emitter.read(operand, ty)?;
        inputs.push(formats::elements(emitter, ty, &value));
    }
    let mut results = Vec::new();
    for lane in 0..ty.lanes as usize {
        let values: Vec<&str> = inputs.iter().map(|elements| elements[lane].as_str()).collect();
        results.push(one(emitter, it, ty.element(), &values)?);
    }
    let whole = match ty.lanes {
        1 => results.remove(0),
        2 if ty.bits == 16 => formats::pack(emitter, &results),
        _ => return None,
    };
    emitter.write(to, ty, &whole)
}

/// One element's result.
fn one(emitter: &mut Emitter, it: &Call, ty: Type, values: &[&str]) -> Option<String> {
    let register = ty.register();
    let signed = ty.kind == ScalarKind::Signed;
    let sign = if signed { "s" } else { "u" };
    let pair = |name: &str| format!("llvm.{name}.{register}");
    let result = match (it.mnemonic, values) {
        ("add" | "sub", [a, b]) if it.has("sat") => emitter.call(
            &pair(&format!("{sign}{}.sat", it.mnemonic)),
            &register,
            &[(&register, a), (&register, b)],
        ),
        ("add" | "sub", [a, b]) => emitter.value(format!("{} {register} {a}, {b}", it.mnemonic)),
        ("mul", [a, b]) => product(emitter, it, ty, a, b),
        ("mad", [a, b, c]) => {
            let product = product(emitter, it, ty, a, b);
            match it.has("sat") {
                true => emitter.call(
                    &pair("sadd.sat"),
                    &register,
                    &[(&register, &product), (&register, c)],
                ),
                false => emitter.value(format!("add {register} {product}, {c}")),
            }
        }
        ("mul24" | "mad24", [a, b, rest @ ..]) if it.has("lo") && ty.bits == 32 => {
            let letter = if signed { "i" } else { "ui" };
            let product = emitter.intrinsic(&format!("mul24.{letter}"), "i32", &[("i32", a), ("i32", b)])?;
            match rest {
                [] => product,
                [c] => emitter.value(format!("add i32 {product}, {c}")),
                _ => return None,
            }
        }
        // What traps is seen to with the rest of the module (`divide`).
        ("div" | "rem", [a, b]) => {
            let sign = if ty.kind == ScalarKind::Signed { "s" } else { "u" };
            emitter.value(format!("{sign}{} {register} {a}, {b}", it.mnemonic))
        }
        ("neg", [a]) => emitter.value(format!("sub {register} 0, {a}")),
        ("abs", [a]) => emitter.call(&pair("abs"), &register, &[(&register, a), ("i1", "false")]),
        ("min" | "max", [a, b]) => emitter.call(
            &pair(&format!("{sign}{}", it.mnemonic)),
            &register,
            &[(&register, a), (&register, b)],
        ),
        ("sad", [a, b, c]) => {
            let (most, least) = (pair(&format!("{sign}max")), pair(&format!("{sign}min")));
            let most = emitter.call(&most, &register, &[(&register, a), (&register, b)]);
            let least = emitter.call(&least, &register, &[(&register, a), (&register, b)]);
            let difference = emitter.value(format!("sub {register} {most}, {least}"));
            emitter.value(format!("add {register} {difference}, {c}"))
        }
        _ => return None,
    };
    if it.has("relu") {
        return Some(emitter.call(
            &pair("smax"),
            &register,
            &[(&register, &result), (&register, "0")],
        ));
    }
    Some(result)
}

/// The low or the high half of a product.
fn product(emitter: &mut Emitter, it: &Call, ty: Type, a: &str, b: &str) -> String {
    let register = ty.register();
    if !it.has("hi") {
        return emitter.value(format!("mul {register} {a}, {b}"));
    }
    let (twice, signed) = (2 * ty.bits, ty.kind == ScalarKind::Signed);
    let (a, b) = (
        emitter.resized(a, ty.bits, twice, signed),
        emitter.resized(b, ty.bits, twice, signed),
    );
    let product = emitter.value(format!("mul i{twice} {a}, {b}"));
    let high = emitter.value(format!("lshr i{twice} {product}, {}", ty.bits));
    emitter.resized(&high, twice, ty.bits, false)
}

/// `mul.wide` and `mad.wide`.
fn wide(emitter: &mut Emitter, it: &Call, ty: Type, to: &Operand, from: &[Operand]) -> Option<()> {
    let (twice, signed) = (2 * ty.bits, ty.kind == ScalarKind::Signed);
    let [a, b, rest @ ..] = from else { return None };
    let (a, b) = (emitter.read(a, ty)?, emitter.read(b, ty)?);
    let (a, b) = (
        emitter.resized(&a, ty.bits, twice, signed),
        emitter.resized(&b, ty.bits, twice, signed),
    );
    let mut value = emitter.value(format!("mul i{twice} {a}, {b}"));
    match (it.mnemonic, rest) {
        ("mul", []) => {}
        ("mad", [c]) => {
            let c = emitter.read(c, bits(twice))?;
            value = emitter.value(format!("add i{twice} {value}, {c}"));
        }
        _ => return None,
    }
    emitter.write(to, bits(twice), &value)
}

/// `dp4a` and `dp2a`: products of bytes, or of halves and bytes, added up.
fn dot(emitter: &mut Emitter, it: &Call) -> Option<()> {
    let [to, a, b, c] = it.operands else { return None };
    let mut types = it.modifiers.iter().filter_map(|text| Type::parse(text));
    let (left, right) = (types.next()?, types.next()?);
    let (a, b) = (emitter.read(a, bits(32))?, emitter.read(b, bits(32))?);
    let mut sum = emitter.read(c, bits(32))?;
    let (lanes, width, first) = match (it.mnemonic, it.has("hi")) {
        ("dp4a", _) => (4, 8, 0),
        (_, false) => (2, 16, 0),
        (_, true) => (2, 16, 2),
    };
    for lane in 0..lanes {
        let x = field(emitter, &a, lane * width, width, left.kind == ScalarKind::Signed);
        let y = field(
            emitter,
            &b,
            (first + lane) * 8,
            8,
            right.kind == ScalarKind::Signed,
        );
        let product = emitter.value(format!("mul i32 {x}, {y}"));
        sum = emitter.value(format!("add i32 {sum}, {product}"));
    }
    emitter.write(to, bits(32), &sum)
}

/// Some bits of a 32-bit value, as a number of its own.
fn field(emitter: &mut Emitter, value: &str, start: u32, width: u32, signed: bool) -> String {
    let down = emitter.value(format!("lshr i32 {value}, {start}"));
    let narrow = emitter.resized(&down, 32, width, false);
    emitter.resized(&narrow, width, 32, signed)
}
