//! Bits: logic, shifts, fields, permutations and counts.
use super::call::Call;
use super::emit::Emitter;
use super::types::{ScalarKind, Type, bits};

pub fn emit(emitter: &mut Emitter, it: &Call) -> Option<()> {
    let ty = it.ty()?;
    if ty.is_float() || ty.lanes != 1 {
        return None;
    }
    let register = ty.register();
    match (it.mnemonic, it.operands) {
        ("and" | "or" | "xor", [to, a, b]) => {
            let (a, b) = (emitter.read(a, ty)?, emitter.read(b, ty)?);
            let value = emitter.value(format!("{} {register} {a}, {b}", it.mnemonic));
            emitter.write(to, ty, &value)
        }
        ("not", [to, a]) => {
            let a = emitter.read(a, ty)?;
            let value = emitter.value(format!("xor {register} {a}, -1"));
            emitter.write(to, ty, &value)
        }
        ("cnot", [to, a]) => {
            let a = emitter.read(a, ty)?;
            let zero = emitter.value(format!("icmp eq {register} {a}, 0"));
            let value = emitter.value(format!("zext i1 {zero} to {register}"));
            emitter.write(to, ty, &value)
        }
        ("shl" | "shr", [to, a, amount]) => {
            let (a, amount) = (emitter.read(a, ty)?, emitter.read(amount, bits(32))?);
            let value = shift(emitter, it.mnemonic, ty, &a, &amount);
            emitter.write(to, ty, &value)
        }
        ("lop3", [to, a, b, c, table]) if ty.bits == 32 => {
            let values = [emitter.read(a, ty)?, emitter.read(b, ty)?, emitter.read(c, ty)?];
            let table = emitter.read(table, bits(8))?;
            let value = by_table(emitter, &values, &table);
            emitter.write(to, ty, &value)
        }
        // The funnel's operands are (low, high, amount); LLVM has the high word first.
        ("shf", [to, low, high, amount]) => {
            let (low, high) = (emitter.read(low, ty)?, emitter.read(high, ty)?);
            let amount = emitter.read(amount, bits(32))?;
            let left = it.has("l");
            let mut value = emitter.call(
                if left { "llvm.fshl.i32" } else { "llvm.fshr.i32" },
                "i32",
                &[("i32", &high), ("i32", &low), ("i32", &amount)],
            );
            if it.has("clamp") {
                let whole = if left { low } else { high };
                let all = emitter.value(format!("icmp uge i32 {amount}, 32"));
                value = emitter.value(format!("select i1 {all}, i32 {whole}, i32 {value}"));
            }
            emitter.write(to, ty, &value)
        }
        ("prmt", [to, low, high, selector]) if it.modifiers == ["b32"] => {
            let values = [
                emitter.read(low, ty)?,
                emitter.read(high, ty)?,
                emitter.read(selector, ty)?,
            ];
            let [low, high, selector] = &values;
            let value =
                emitter.intrinsic("prmt", "i32", &[("i32", low), ("i32", high), ("i32", selector)])?;
            emitter.write(to, ty, &value)
        }
        ("popc" | "clz", [to, a]) => {
            let a = emitter.read(a, ty)?;
            let value = match it.mnemonic {
                "popc" => emitter.call(&format!("llvm.ctpop.{register}"), &register, &[(&register, &a)]),
                _ => emitter.call(
                    &format!("llvm.ctlz.{register}"),
                    &register,
                    &[(&register, &a), ("i1", "false")],
                ),
            };
            let value = emitter.resized(&value, ty.bits, 32, false);
            emitter.write(to, bits(32), &value)
        }
        ("brev", [to, a]) => {
            let a = emitter.read(a, ty)?;
            let value = emitter.call(
                &format!("llvm.bitreverse.{register}"),
                &register,
                &[(&register, &a)],
            );
            emitter.write(to, ty, &value)
        }
        ("bfind", [to, a]) => {
            let a = emitter.read(a, ty)?;
            let value = find_leading(emitter, it, ty, &a);
            emitter.write(to, bits(32), &value)
        }
        ("bfe", [to, a, start, length]) => {
            let a = emitter.read(a, ty)?;
            let (start, length) = (byte(emitter, start)?, byte(emitter, length)?);
            let value = extract(emitter, ty, &a, &start, &length);
            emitter.write(to, ty, &value)
        }
        ("bfi", [to, field, into, start, length]) => {
            let (field, into) = (emitter.read(field, ty)?, emitter.read(into, ty)?);
            let (start, length) = (byte(emitter, start)?, byte(emitter, length)?);
            let mask = field_mask(emitter, ty, &start, &length);
            let moved = shift(emitter, "shl", bits(ty.bits), &field, &start);
            let kept = emitter.value(format!("xor {register} {mask}, -1"));
            let kept = emitter.value(format!("and {register} {into}, {kept}"));
            let put = emitter.value(format!("and {register} {moved}, {mask}"));
            let value = emitter.value(format!("or {register} {kept}, {put}"));
            emitter.write(to, ty, &value)
        }
        ("bmsk", [to, start, length]) => {
            let (start, length) = (emitter.read(start, bits(32))?, emitter.read(length, bits(32))?);
            let value = field_mask(emitter, ty, &start, &length);
            emitter.write(to, ty, &value)
        }
        _ => None,
    }
}

/// A shift whose amount may be the width or more.
fn shift(emitter: &mut Emitter, direction: &str, ty: Type, value: &str, amount: &str) -> String {
    let (register, width) = (ty.register(), ty.bits);
    let arithmetic = direction == "shr" && ty.kind == ScalarKind::Signed;
    let (operation, beyond) = match (direction, arithmetic) {
        ("shl", _) => ("shl", "0".to_owned()),
        (_, false) => ("lshr", "0".to_owned()),
        (_, true) => (
            "ashr",
            emitter.value(format!("ashr {register} {value}, {}", width - 1)),
        ),
    };
    let within = emitter.value(format!("icmp ult i32 {amount}, {width}"));
    let safe = emitter.value(format!("select i1 {within}, i32 {amount}, i32 0"));
    let safe = emitter.resized(&safe, 32, width, false);
    let shifted = emitter.value(format!("{operation} {register} {value}, {safe}"));
    emitter.value(format!(
        "select i1 {within}, {register} {shifted}, {register} {beyond}"
    ))
}

/// The low byte of a 32-bit operand.
fn byte(emitter: &mut Emitter, operand: &super::parse::Operand) -> Option<String> {
    let value = emitter.read(operand, bits(32))?;
    Some(emitter.value(format!("and i32 {value}, 255")))
}

/// Ones from `start` on, `length` of them.
fn field_mask(emitter: &mut Emitter, ty: Type, start: &str, length: &str) -> String {
    let register = ty.register();
    let plain = bits(ty.bits);
    let above = shift(emitter, "shl", plain, "-1", length);
    let low = emitter.value(format!("xor {register} {above}, -1"));
    shift(emitter, "shl", plain, &low, start)
}

/// `bfe`: with `.s32` the field's sign goes on, the last bit of the value where the field reaches beyond it.
fn extract(emitter: &mut Emitter, ty: Type, value: &str, start: &str, length: &str) -> String {
    let (register, width) = (ty.register(), ty.bits);
    let moved = shift(emitter, "shr", ty, value, start);
    let above = shift(emitter, "shl", bits(width), "-1", length);
    let mask = emitter.value(format!("xor {register} {above}, -1"));
    let field = emitter.value(format!("and {register} {moved}, {mask}"));
    if ty.kind != ScalarKind::Signed {
        return field;
    }
    let end = emitter.value(format!("add i32 {start}, {length}"));
    let end = emitter.call(
        "llvm.umin.i32",
        "i32",
        &[("i32", &end), ("i32", &width.to_string())],
    );
    let last = emitter.value(format!("sub i32 {end}, 1"));
    let sign = shift(emitter, "shr", bits(width), value, &last);
    let sign = emitter.value(format!("trunc {register} {sign} to i1"));
    let ones = emitter.value(format!("or {register} {field}, {above}"));
    let filled = emitter.value(format!("select i1 {sign}, {register} {ones}, {register} {field}"));
    let empty = emitter.value(format!("icmp eq i32 {length}, 0"));
    emitter.value(format!("select i1 {empty}, {register} 0, {register} {filled}"))
}

/// `bfind`: the highest bit that is set, or of a negative number clear.
fn find_leading(emitter: &mut Emitter, it: &Call, ty: Type, value: &str) -> String {
    let (register, width) = (ty.register(), ty.bits);
    let value = if ty.kind == ScalarKind::Signed {
        let sign = emitter.value(format!("ashr {register} {value}, {}", width - 1));
        emitter.value(format!("xor {register} {value}, {sign}"))
    } else {
        value.to_owned()
    };
    let count = emitter.call(
        &format!("llvm.ctlz.{register}"),
        &register,
        &[(&register, &value), ("i1", "false")],
    );
    let count = emitter.resized(&count, width, 32, false);
    let found = if it.has("shiftamt") {
        count
    } else {
        emitter.value(format!("sub i32 {}, {count}", width - 1))
    };
    let none = emitter.value(format!("icmp eq {register} {value}, 0"));
    emitter.value(format!("select i1 {none}, i32 -1, i32 {found}"))
}

/// `lop3`: bit `4a + 2b + c` of the table for each bit.
fn by_table(emitter: &mut Emitter, values: &[String; 3], table: &str) -> String {
    let mut whole = "0".to_owned();
    for row in 0..8 {
        let mut term = "-1".to_owned();
        for (at, value) in values.iter().enumerate() {
            let wanted = row >> (2 - at) & 1 == 1;
            let bit = if wanted {
                value.clone()
            } else {
                emitter.value(format!("xor i32 {value}, -1"))
            };
            term = emitter.value(format!("and i32 {term}, {bit}"));
        }
        let chosen = emitter.value(format!("lshr i8 {table}, {row}"));
        let chosen = emitter.value(format!("trunc i8 {chosen} to i1"));
        let term = emitter.value(format!("select i1 {chosen}, i32 {term}, i32 0"));
        whole = emitter.value(format!("or i32 {whole}, {term}"));
    }
    whole
}
