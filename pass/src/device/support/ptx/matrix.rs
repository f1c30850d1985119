//! Matrix instructions, and the moves of 8x8 matrices between shared memory and fragments.
//!
//! Products, and loads and stores of `wmma`, become the intrinsics of the same meaning. `ldmatrix` and
//! `stmatrix` take the address of each row from another lane; a matrix is `.b16`, eight rows of 16 bytes, and
//! a lane's register holds two neighbours of a row, or of a column where it is transposed.
use super::super::matrix;
use super::call::Call;
use super::emit::Emitter;
use super::parse::Operand;
use super::types::{Type, bits};

pub fn emit(emitter: &mut Emitter, it: &Call) -> Option<()> {
    match (it.mnemonic, it.modifiers.first().copied()) {
        ("mma", _) | ("wmma", Some("mma")) => product(emitter, it),
        ("wmma", Some("load")) => load(emitter, it),
        ("wmma", Some("store")) => store(emitter, it),
        ("ldmatrix", _) => move_rows(emitter, it, true),
        ("stmatrix", _) => move_rows(emitter, it, false),
        ("movmatrix", _) => transpose(emitter, it),
        ("cvt", _) if it.has("tf32") => short_float(emitter, it),
        _ => None,
    }
}

/// The name of the instruction, as one text.
fn name(it: &Call) -> String {
    format!("{}.{}", it.mnemonic, it.modifiers.join("."))
}

fn list(operand: &Operand) -> &[Operand] {
    match operand {
        Operand::Vector(parts) => parts,
        one => std::slice::from_ref(one),
    }
}

/// Calls an intrinsic whose results are registers of `bits_out` bits.
fn call(emitter: &mut Emitter, name: &str, to: &[Operand], out: Type, taken: &[(&str, &str)]) -> Option<()> {
    let register = out.register();
    let returns = match to.len() {
        1 => register.clone(),
        count => format!("{{ {} }}", vec![register.as_str(); count].join(", ")),
    };
    let result = emitter.intrinsic(name, &returns, taken)?;
    for (at, operand) in to.iter().enumerate() {
        let value = match to.len() {
            1 => result.clone(),
            _ => emitter.value(format!("extractvalue {returns} {result}, {at}")),
        };
        emitter.write(operand, out, &value)?;
    }
    Some(())
}

fn product(emitter: &mut Emitter, it: &Call) -> Option<()> {
    let [d, a, b, c] = it.operands else { return None };
    let name = name(it);
    let product = matrix::product(&name)?;
    let mut values = Vec::new();
    for (operand, fragment) in [(a, product.a), (b, product.b), (c, product.c)] {
        let ty = bits(fragment.element.register_bits());
        for register in list(operand) {
            values.push((ty.register(), emitter.read(register, ty)?));
        }
    }
    let taken: Vec<(&str, &str)> = values
        .iter()
        .map(|(ty, value)| (ty.as_str(), value.as_str()))
        .collect();
    call(
        emitter,
        &name,
        list(d),
        bits(product.d.element.register_bits()),
        &taken,
    )
}

fn load(emitter: &mut Emitter, it: &Call) -> Option<()> {
    let (to, from, stride) = match it.operands {
        [to, from] => (to, from, None),
        [to, from, stride] => (to, from, Some(stride)),
        _ => return None,
    };
    let (name, stride) = with_stride(emitter, it, stride)?;
    let access = matrix::access(&name)?;
    let pointer = emitter.pointer(from)?;
    let mut taken = vec![("ptr", pointer.as_str())];
    taken.extend(stride.as_deref().map(|stride| ("i32", stride)));
    call(
        emitter,
        &name,
        list(to),
        bits(access.fragment.element.register_bits()),
        &taken,
    )
}

fn store(emitter: &mut Emitter, it: &Call) -> Option<()> {
    let (to, from, stride) = match it.operands {
        [to, from] => (to, from, None),
        [to, from, stride] => (to, from, Some(stride)),
        _ => return None,
    };
    let (name, stride) = with_stride(emitter, it, stride)?;
    let access = matrix::access(&name)?;
    let ty = bits(access.fragment.element.register_bits());
    let register = ty.register();
    let pointer = emitter.pointer(to)?;
    let mut values = Vec::new();
    for operand in list(from) {
        values.push(emitter.read(operand, ty)?);
    }
    let mut taken = vec![("ptr", pointer.as_str())];
    taken.extend(values.iter().map(|value| (register.as_str(), value.as_str())));
    taken.extend(stride.as_deref().map(|stride| ("i32", stride)));
    emitter.intrinsic(&name, "void", &taken)?;
    Some(())
}

/// The name of a load or store as the intrinsic's, which says whether there is a stride; and that.
fn with_stride(
    emitter: &mut Emitter,
    it: &Call,
    stride: Option<&Operand>,
) -> Option<(String, Option<String>)> {
    match stride {
        Some(stride) => Some((name(it) + ".stride", Some(emitter.read(stride, bits(32))?))),
        None => Some((name(it), None)),
    }
}

/// `lane`'s 32 bits of what every lane of the warp gives.
fn from_lane(emitter: &mut Emitter, value: &str, lane: &str) -> String {
    let arguments = [
        ("i32", "0"),
        ("i32", "-1"),
        ("i32", value),
        ("i32", lane),
        ("i32", "31"),
        ("ptr", "null"),
    ];
    emitter.call("softgpu.shuffle", "i32", &arguments)
}

/// The address of a row, which `lane` gave. Shared memory lies in the first 4 GiB of the address space.
fn row(emitter: &mut Emitter, address: &str, lane: &str) -> String {
    let low = from_lane(emitter, address, lane);
    let wide = emitter.value(format!("zext i32 {low} to i64"));
    emitter.value(format!("inttoptr i64 {wide} to ptr"))
}

/// The row of a tile that the lane's elements are of, and which of the row's pairs they are.
fn place(emitter: &mut Emitter) -> Option<(String, String)> {
    let lane = emitter.intrinsic("read.ptx.sreg.laneid", "i32", &[])?;
    let group = emitter.value(format!("lshr i32 {lane}, 2"));
    let member = emitter.value(format!("and i32 {lane}, 3"));
    Some((group, member))
}

/// `ldmatrix` and `stmatrix`: `.x1`, `.x2` or `.x4` matrices, the rows of the first in lanes 0 to 7.
fn move_rows(emitter: &mut Emitter, it: &Call, loads: bool) -> Option<()> {
    let known = [
        "sync", "aligned", "m8n8", "x1", "x2", "x4", "trans", "shared", "cta", "b16",
    ];
    let (registers, memory) = match it.operands {
        [to, from] if loads => (to, from),
        [to, from] => (from, to),
        _ => return None,
    };
    let count = ["x1", "x2", "x4"].iter().position(|count| it.has(count))?;
    let registers = list(registers);
    let plain = it.modifiers.iter().all(|modifier| known.contains(modifier));
    if !plain || !it.has("m8n8") || !it.has("b16") || registers.len() != 1 << count {
        return None;
    }
    let pointer = emitter.pointer(memory)?;
    let own = emitter.value(format!("ptrtoint ptr {pointer} to i64"));
    let own = emitter.value(format!("trunc i64 {own} to i32"));
    let (group, member) = place(emitter)?;
    // Of each piece: the lane that has its row's address within the matrix, its offset there, its bits.
    let (pieces, size): (Vec<(String, String)>, u32) = if it.has("trans") {
        let first = emitter.value(format!("shl i32 {member}, 1"));
        let second = emitter.value(format!("or i32 {first}, 1"));
        let offset = emitter.value(format!("shl i32 {group}, 1"));
        (vec![(first, offset.clone()), (second, offset)], 16)
    } else {
        let offset = emitter.value(format!("shl i32 {member}, 2"));
        (vec![(group, offset)], 32)
    };
    // All addresses are exchanged before the first access.
    let mut places = Vec::new();
    for number in 0..registers.len() {
        for (lane, offset) in &pieces {
            let lane = emitter.value(format!("add i32 {lane}, {}", 8 * number));
            let row = row(emitter, &own, &lane);
            places.push(emitter.value(format!("getelementptr i8, ptr {row}, i32 {offset}")));
        }
    }
    let align = size / 8;
    for (register, places) in registers.iter().zip(places.chunks(pieces.len())) {
        if loads {
            let mut parts = Vec::new();
            for place in places {
                parts.push(emitter.value(format!("load i{size}, ptr {place}, align {align}")));
            }
            let whole = joined(emitter, &parts, size);
            emitter.write(register, bits(32), &whole)?;
        } else {
            let whole = emitter.read(register, bits(32))?;
            for (at, place) in places.iter().enumerate() {
                let down = emitter.value(format!("lshr i32 {whole}, {}", at as u32 * size));
                let part = emitter.resized(&down, 32, size, false);
                emitter.line(format!("store i{size} {part}, ptr {place}, align {align}"));
            }
        }
    }
    // No lane goes on before all have moved theirs.
    emitter.line("call void @softgpu.warp_sync(i32 -1)");
    Some(())
}

/// A register of one part of 32 bits, or of two of 16, the first lowest.
fn joined(emitter: &mut Emitter, parts: &[String], size: u32) -> String {
    let [first, second] = parts else {
        return parts[0].clone();
    };
    let low = emitter.resized(first, size, 32, false);
    let high = emitter.resized(second, size, 32, false);
    let high = emitter.value(format!("shl i32 {high}, 16"));
    emitter.value(format!("or i32 {low}, {high}"))
}

/// `movmatrix`: an 8x8 matrix in registers, transposed. A lane's two elements are in two rows of the
/// original, in the same half of a register of each.
fn transpose(emitter: &mut Emitter, it: &Call) -> Option<()> {
    let [to, from] = it.operands else { return None };
    if it.modifiers != ["sync", "aligned", "m8n8", "trans", "b16"] {
        return None;
    }
    let value = emitter.read(from, bits(32))?;
    let (group, member) = place(emitter)?;
    let pair = emitter.value(format!("lshr i32 {group}, 1"));
    let half = emitter.value(format!("and i32 {group}, 1"));
    let shift = emitter.value(format!("shl i32 {half}, 4"));
    let mut parts = Vec::new();
    for at in 0..2 {
        // Row 2 * member + at, whose lanes begin at four times that.
        let first = emitter.value(format!("shl i32 {member}, 3"));
        let first = emitter.value(format!("or i32 {first}, {}", 4 * at));
        let lane = emitter.value(format!("add i32 {first}, {pair}"));
        let found = from_lane(emitter, &value, &lane);
        let down = emitter.value(format!("lshr i32 {found}, {shift}"));
        parts.push(emitter.resized(&down, 32, 16, false));
    }
    let whole = joined(emitter, &parts, 16);
    emitter.write(to, bits(32), &whole)
}

/// `cvt` of a `float` to `tf32`: its first 19 bits, rounded.
fn short_float(emitter: &mut Emitter, it: &Call) -> Option<()> {
    let [to, from] = it.operands else { return None };
    let value = emitter.read(from, bits(32))?;
    let moved = match it.modifiers {
        // Ties go away from zero: the first bit that is cut off decides.
        ["rna", "tf32", "f32"] => emitter.value(format!("add i32 {value}, 4096")),
        // Ties go to the even number.
        ["rn", "tf32", "f32"] => {
            let last = emitter.value(format!("lshr i32 {value}, 13"));
            let odd = emitter.value(format!("and i32 {last}, 1"));
            let most = emitter.value(format!("add i32 {odd}, 4095"));
            emitter.value(format!("add i32 {value}, {most}"))
        }
        ["rz", "tf32", "f32"] => value.clone(),
        _ => return None,
    };
    let short = emitter.value(format!("and i32 {moved}, -8192"));
    let size = emitter.value(format!("and i32 {value}, 2147483647"));
    let none = emitter.value(format!("icmp ugt i32 {size}, 2139095040"));
    let result = emitter.value(format!("select i1 {none}, i32 2147483647, i32 {short}"));
    emitter.write(to, bits(32), &result)
}
