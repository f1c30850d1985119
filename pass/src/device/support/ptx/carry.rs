//! Additions and subtractions that pass a carry on, from one instruction of a text to the next.
use super::call::Call;
use super::emit::Emitter;
use super::types::{ScalarKind, Type, bits};

pub fn emit(emitter: &mut Emitter, it: &Call) -> Option<()> {
    let sets = it.has("cc");
    let ty = it.ty()?;
    match (it.mnemonic, it.operands) {
        ("add" | "sub", [to, a, b]) if sets => sum(emitter, it, ty, to, a, b, None),
        ("addc" | "subc", [to, a, b]) => {
            let carried = emitter.carry(2 * ty.bits);
            sum(emitter, it, ty, to, a, b, Some(carried))
        }
        ("mad" | "madc", [to, a, b, c]) if sets || it.mnemonic == "madc" => {
            let carried = (it.mnemonic == "madc").then(|| emitter.carry(2 * ty.bits));
            let (a, b) = (emitter.read(a, ty)?, emitter.read(b, ty)?);
            let (wide, signed) = (2 * ty.bits, ty.kind == ScalarKind::Signed);
            let (a, b) = (
                emitter.resized(&a, ty.bits, wide, signed),
                emitter.resized(&b, ty.bits, wide, signed),
            );
            let product = emitter.value(format!("mul i{wide} {a}, {b}"));
            let half = if it.has("hi") {
                emitter.value(format!("lshr i{wide} {product}, {}", ty.bits))
            } else {
                product
            };
            let half = emitter.resized(&half, wide, ty.bits, false);
            let half = emitter.resized(&half, ty.bits, wide, false);
            let c = emitter.read(c, bits(ty.bits))?;
            let c = emitter.resized(&c, ty.bits, wide, false);
            let total = emitter.value(format!("add i{wide} {half}, {c}"));
            let total = match carried {
                Some(carried) => emitter.value(format!("add i{wide} {total}, {carried}")),
                None => total,
            };
            put(emitter, it, ty, to, &total)
        }
        _ => None,
    }
}

/// `a ± b ± carry`, in twice the width, where the bit above the result is the carry or the borrow.
fn sum(
    emitter: &mut Emitter,
    it: &Call,
    ty: Type,
    to: &super::parse::Operand,
    a: &super::parse::Operand,
    b: &super::parse::Operand,
    carried: Option<String>,
) -> Option<()> {
    let plain = bits(ty.bits);
    let wide = 2 * ty.bits;
    let (a, b) = (emitter.read(a, plain)?, emitter.read(b, plain)?);
    let (a, b) = (
        emitter.resized(&a, ty.bits, wide, false),
        emitter.resized(&b, ty.bits, wide, false),
    );
    let operation = &it.mnemonic[..3];
    let mut total = emitter.value(format!("{operation} i{wide} {a}, {b}"));
    if let Some(carried) = carried {
        total = emitter.value(format!("{operation} i{wide} {total}, {carried}"));
    }
    put(emitter, it, ty, to, &total)
}

/// Writes the low half, and with `.cc` the bit above it.
fn put(emitter: &mut Emitter, it: &Call, ty: Type, to: &super::parse::Operand, total: &str) -> Option<()> {
    let wide = 2 * ty.bits;
    if it.has("cc") {
        let up = emitter.value(format!("lshr i{wide} {total}, {}", ty.bits));
        let flag = emitter.value(format!("trunc i{wide} {up} to i1"));
        emitter.set_carry(&flag);
    }
    let low = emitter.resized(total, wide, ty.bits, false);
    emitter.write(to, bits(ty.bits), &low)
}
