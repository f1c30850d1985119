//! The video instructions: two halves or four bytes of a register at once.
use super::call::Call;
use super::emit::Emitter;
use super::types::{ScalarKind, Type, bits};

pub fn emit(emitter: &mut Emitter, it: &Call) -> Option<()> {
    let lanes = match it.mnemonic.chars().last()? {
        '2' => 2,
        '4' => 4,
        _ => return None,
    };
    let operation = it.mnemonic.strip_prefix('v')?.trim_end_matches(['2', '4']);
    let [to, a, b, c] = it.operands else { return None };
    let known = ["sat", "add", "eq", "ne", "lt", "le", "gt", "ge"];
    it.only(&known)?;
    let types: Vec<Type> = it.modifiers.iter().filter_map(|text| Type::parse(text)).collect();
    // A comparison names its operands' types only.
    let (target, left, right) = match types.as_slice() {
        [left, right] => (*left, *left, *right),
        [target, left, right] => (*target, *left, *right),
        _ => return None,
    };
    let (a, b) = (emitter.read(a, bits(32))?, emitter.read(b, bits(32))?);
    let mut whole = if it.has("add") {
        emitter.read(c, bits(32))?
    } else {
        "0".to_owned()
    };
    let width = 32 / lanes;
    for lane in 0..lanes {
        let x = lane_of(emitter, &a, lane, width, left);
        let y = lane_of(emitter, &b, lane, width, right);
        let value = one(emitter, it, operation, left, &x, &y)?;
        if it.has("add") {
            whole = emitter.value(format!("add i32 {whole}, {value}"));
            continue;
        }
        let value = if it.has("sat") {
            saturated(emitter, target, width, &value)
        } else {
            value
        };
        let narrow = emitter.resized(&value, 32, width, false);
        let wide = emitter.resized(&narrow, width, 32, false);
        let up = emitter.value(format!("shl i32 {wide}, {}", lane * width));
        whole = emitter.value(format!("or i32 {whole}, {up}"));
    }
    emitter.write(to, bits(32), &whole)
}

fn lane_of(emitter: &mut Emitter, value: &str, lane: u32, width: u32, ty: Type) -> String {
    let down = emitter.value(format!("lshr i32 {value}, {}", lane * width));
    let narrow = emitter.resized(&down, 32, width, false);
    emitter.resized(&narrow, width, 32, ty.kind == ScalarKind::Signed)
}

/// One lane's result, in 32 bits, where nothing overflows.
fn one(emitter: &mut Emitter, it: &Call, operation: &str, ty: Type, x: &str, y: &str) -> Option<String> {
    let both = [("i32", x), ("i32", y)];
    Some(match operation {
        "add" | "sub" => emitter.value(format!("{operation} i32 {x}, {y}")),
        "min" | "max" => emitter.call(&format!("llvm.s{operation}.i32"), "i32", &both),
        "absdiff" => {
            let difference = emitter.value(format!("sub i32 {x}, {y}"));
            emitter.call("llvm.abs.i32", "i32", &[("i32", &difference), ("i1", "false")])
        }
        // Halves round up; of negative sums, away from zero.
        "avrg" => {
            let sum = emitter.value(format!("add i32 {x}, {y}"));
            let negative = emitter.value(format!("lshr i32 {sum}, 31"));
            let up = emitter.value(format!("sub i32 1, {negative}"));
            let sum = emitter.value(format!("add i32 {sum}, {up}"));
            emitter.value(format!("ashr i32 {sum}, 1"))
        }
        "set" => {
            let compare = it
                .modifiers
                .iter()
                .find(|text| ["eq", "ne", "lt", "le", "gt", "ge"].contains(text))?;
            let sign = if ty.kind == ScalarKind::Signed { "s" } else { "u" };
            let predicate = match *compare {
                "eq" | "ne" => (*compare).to_owned(),
                other => format!("{sign}{other}"),
            };
            let found = emitter.value(format!("icmp {predicate} i32 {x}, {y}"));
            emitter.value(format!("zext i1 {found} to i32"))
        }
        _ => return None,
    })
}

fn saturated(emitter: &mut Emitter, target: Type, width: u32, value: &str) -> String {
    let (low, high) = match target.kind {
        ScalarKind::Signed => (-(1i64 << (width - 1)), (1i64 << (width - 1)) - 1),
        _ => (0, (1i64 << width) - 1),
    };
    let above = emitter.call(
        "llvm.smax.i32",
        "i32",
        &[("i32", value), ("i32", &low.to_string())],
    );
    emitter.call(
        "llvm.smin.i32",
        "i32",
        &[("i32", &above), ("i32", &high.to_string())],
    )
}
