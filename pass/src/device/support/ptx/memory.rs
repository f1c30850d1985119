//! Loads and stores, with their order among threads; how they are cached makes no difference here.
use super::call::Call;
use super::emit::Emitter;
use super::parse::Operand;
use super::types::{ScalarKind, Type, bits};

/// What an access promises other threads.
#[derive(Clone, Copy, PartialEq, Eq)]
enum MemoryOrder {
    /// The access orders nothing.
    Weak,
    /// That each element is whole.
    Relaxed,
    /// That what comes after it does.
    Acquire,
    /// That what comes before it does.
    Release,
}

pub fn emit(emitter: &mut Emitter, it: &Call) -> Option<()> {
    if !matches!(it.mnemonic, "ld" | "st" | "ldu") {
        return None;
    }
    // The offsets of a kernel's parameters are no addresses here.
    if it.has("param") {
        return None;
    }
    let ty = it.ty().filter(|ty| ty.lanes == 1)?;
    match (it.mnemonic, it.operands) {
        ("ld" | "ldu", [to, from] | [to, from, _]) => load(emitter, it, ty, to, from),
        ("st", [to, from] | [to, from, _]) => store(emitter, it, ty, to, from),
        _ => None,
    }
}

fn order(it: &Call) -> MemoryOrder {
    let strong = ["volatile", "relaxed", "mmio", "cg", "cv", "wt"];
    if it.has("acquire") {
        MemoryOrder::Acquire
    } else if it.has("release") {
        MemoryOrder::Release
    } else if it.modifiers.iter().any(|text| strong.contains(text)) {
        MemoryOrder::Relaxed
    } else {
        MemoryOrder::Weak
    }
}

/// The elements of a vector operand.
fn elements(operand: &Operand) -> Vec<&Operand> {
    match operand {
        Operand::Vector(parts) => parts.iter().collect(),
        one => vec![one],
    }
}

/// The pieces that an access is made of: each is moved at once. Accesses of up to 64 bits are one; a longer
/// one is in pieces of 128 bits, which the host's processors load and store whole where they are aligned.
fn piece(total: u32) -> (String, u32) {
    match total {
        0..=64 => (format!("i{total}"), total),
        _ => ("<2 x i64>".into(), 128),
    }
}

fn load(emitter: &mut Emitter, it: &Call, ty: Type, to: &Operand, from: &Operand) -> Option<()> {
    let (parts, order) = (elements(to), order(it));
    let (pointer, total) = (emitter.pointer(from)?, ty.bits * parts.len() as u32);
    let (memory, size) = piece(total);
    let signed = ty.kind == ScalarKind::Signed;
    for at in 0..total / size {
        let place = emitter.value(format!("getelementptr i8, ptr {pointer}, i64 {}", at * size / 8));
        let value = match order {
            MemoryOrder::Weak => emitter.value(format!("load {memory}, ptr {place}, align {}", size / 8)),
            _ if size == 128 => emitter.value(format!("load volatile {memory}, ptr {place}, align 16")),
            _ => emitter.value(format!(
                "load atomic volatile {memory}, ptr {place} monotonic, align {}",
                size / 8
            )),
        };
        let whole = match size {
            128 => emitter.value(format!("bitcast <2 x i64> {value} to i128")),
            _ => value,
        };
        let per = (size / ty.bits) as usize;
        for lane in 0..per {
            let down = emitter.value(format!("lshr i{size} {whole}, {}", lane as u32 * ty.bits));
            let element = emitter.resized(&down, size, ty.bits, signed);
            let to = parts[at as usize * per + lane];
            let plain = Type {
                kind: if signed {
                    ScalarKind::Signed
                } else {
                    ScalarKind::Bits
                },
                ..bits(ty.bits)
            };
            emitter.write(to, plain, &element)?;
        }
    }
    if order == MemoryOrder::Acquire {
        emitter.line("fence acquire");
    }
    Some(())
}

fn store(emitter: &mut Emitter, it: &Call, ty: Type, to: &Operand, from: &Operand) -> Option<()> {
    let (parts, order) = (elements(from), order(it));
    let (pointer, total) = (emitter.pointer(to)?, ty.bits * parts.len() as u32);
    let (memory, size) = piece(total);
    let per = (size / ty.bits) as usize;
    if order == MemoryOrder::Release {
        emitter.line("fence release");
    }
    for at in 0..total / size {
        let place = emitter.value(format!("getelementptr i8, ptr {pointer}, i64 {}", at * size / 8));
        let mut whole = "0".to_owned();
        for lane in 0..per {
            let value = emitter.read(parts[at as usize * per + lane], bits(ty.bits))?;
            let wide = emitter.resized(&value, ty.bits, size, false);
            let up = emitter.value(format!("shl i{size} {wide}, {}", lane as u32 * ty.bits));
            whole = emitter.value(format!("or i{size} {whole}, {up}"));
        }
        if size == 128 {
            whole = emitter.value(format!("bitcast i128 {whole} to <2 x i64>"));
        }
        emitter.line(match order {
            MemoryOrder::Weak => format!("store {memory} {whole}, ptr {place}, align {}", size / 8),
            _ if size == 128 => format!("store volatile {memory} {whole}, ptr {place}, align 16"),
            _ => format!(
                "store atomic volatile {memory} {whole}, ptr {place} monotonic, align {}",
                size / 8
            ),
        });
    }
    Some(())
}
