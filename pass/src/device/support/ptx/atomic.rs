//! Atomic operations and fences. Threads of a software device run on several cores of one machine, so that
//! every scope is the whole machine here.
use super::call::Call;
use super::emit::Emitter;
use super::parse::Operand;
use super::types::{ScalarKind, Type, bits};

pub fn emit(emitter: &mut Emitter, it: &Call) -> Option<()> {
    match (it.mnemonic, it.operands) {
        ("atom", [to, place, values @ ..]) => {
            let (ty, old) = exchange(emitter, it, place, values)?;
            emitter.write(to, ty, &old)
        }
        ("red", [place, values @ ..]) if !it.has("async") => exchange(emitter, it, place, values).map(drop),
        ("membar", []) => {
            emitter.line("fence seq_cst");
            Some(())
        }
        // Those of a proxy order accesses of units that are not there.
        ("fence", _) => {
            emitter.line("fence seq_cst");
            Some(())
        }
        _ => None,
    }
}

/// Does the operation: the type and the name of the value that was there before.
fn exchange(emitter: &mut Emitter, it: &Call, place: &Operand, values: &[Operand]) -> Option<(Type, String)> {
    let ty = it.ty()?;
    let known = [
        "add", "and", "or", "xor", "exch", "cas", "min", "max", "inc", "dec",
    ];
    let operation = it.modifiers.iter().find(|text| known.contains(text)).copied()?;
    let order = if it.has("relaxed") { "monotonic" } else { "seq_cst" };
    let pointer = emitter.pointer(place)?;
    let plain = bits(ty.width());
    let align = ty.width() / 8;
    let register = plain.register();
    match (operation, values) {
        ("cas", [compare, with, ..]) => {
            let (compare, with) = (emitter.read(compare, plain)?, emitter.read(with, plain)?);
            let pair = emitter.value(format!(
                "cmpxchg ptr {pointer}, {register} {compare}, {register} {with} {order} {order}, align {align}"
            ));
            let old = emitter.value(format!("extractvalue {{ {register}, i1 }} {pair}, 0"));
            Some((plain, old))
        }
        ("exch", [value, ..]) => {
            let value = emitter.read(value, plain)?;
            let old = emitter.value(format!(
                "atomicrmw xchg ptr {pointer}, {register} {value} {order}, align {align}"
            ));
            Some((plain, old))
        }
        (_, [value, ..]) if ty.is_small() => {
            let value = emitter.read(value, ty)?;
            let format = if ty.kind == ScalarKind::Brain {
                "brain"
            } else {
                "half"
            };
            let pair = if ty.lanes == 2 { "2" } else { "" };
            let operation = ["add", "min", "max"]
                .iter()
                .position(|&known| known == operation)?;
            let old = emitter.call(
                &format!("softgpu.atomic_{format}{pair}"),
                &register,
                &[
                    ("ptr", &pointer),
                    (&register, &value),
                    ("i32", &operation.to_string()),
                ],
            );
            Some((plain, old))
        }
        (_, [value, ..]) if ty.lanes == 1 => {
            let value = emitter.read(value, ty)?;
            let signed = ty.kind == ScalarKind::Signed;
            let operation = match operation {
                "add" if ty.is_float() => "fadd",
                "inc" => "uinc_wrap",
                "dec" => "udec_wrap",
                "min" if !signed => "umin",
                "max" if !signed => "umax",
                other => other,
            };
            let llvm = ty.llvm();
            let old = emitter.value(format!(
                "atomicrmw {operation} ptr {pointer}, {llvm} {value} {order}, align {align}"
            ));
            Some((ty, old))
        }
        _ => None,
    }
}
