//! The 16-bit formats, alone and in pairs: computed in `float`, whose sums, products, quotients and roots
//! round to them as the exact ones do; fused products in `double`.
use super::call::Call;
use super::compare;
use super::emit::Emitter;
use super::formats::{clamp, elements, narrow, narrow_float, pack, widen};
use super::types::Type;

pub fn emit(emitter: &mut Emitter, it: &Call) -> Option<()> {
    let ty = it.ty().filter(|ty| ty.is_small())?;
    let (to, from) = it.operands.split_first()?;
    if matches!(it.mnemonic, "set" | "setp") {
        return compare::small(emitter, it, ty);
    }
    it.only(&[
        "rn", "ftz", "sat", "relu", "noftz", "approx", "NaN", "xorsign", "abs",
    ])?;
    let mut inputs = Vec::new();
    for operand in from {
        let value = emitter.read(operand, ty)?;
        inputs.push(elements(emitter, ty, &value));
    }
    let mut results = Vec::new();
    for lane in 0..ty.lanes as usize {
        let values: Vec<&str> = inputs.iter().map(|elements| elements[lane].as_str()).collect();
        results.push(one(emitter, it, ty, &values)?);
    }
    let whole = match ty.lanes {
        1 => results.remove(0),
        _ => pack(emitter, &results),
    };
    emitter.write(to, ty, &whole)
}

/// One element's result.
fn one(emitter: &mut Emitter, it: &Call, ty: Type, values: &[&str]) -> Option<String> {
    match (it.mnemonic, values) {
        ("neg", [value]) => return Some(emitter.value(format!("xor i16 {value}, -32768"))),
        ("abs", [value]) => return Some(emitter.value(format!("and i16 {value}, 32767"))),
        _ => {}
    }
    let wide: Vec<String> = values.iter().map(|value| widen(emitter, ty, value)).collect();
    let wide: Vec<&str> = wide.iter().map(String::as_str).collect();
    let result = match (it.mnemonic, wide.as_slice()) {
        ("add" | "sub" | "mul", [a, b]) => emitter.value(format!("f{} float {a}, {b}", it.mnemonic)),
        ("fma" | "mad", [_, _, _]) => {
            let exact: Vec<String> = wide
                .iter()
                .map(|value| emitter.value(format!("fpext float {value} to double")))
                .collect();
            let sum = emitter.call(
                "llvm.fma.f64",
                "double",
                &[
                    ("double", &exact[0]),
                    ("double", &exact[1]),
                    ("double", &exact[2]),
                ],
            );
            let narrow = narrow(emitter, ty, &sum, 'n');
            if !it.has("sat") && !it.has("relu") {
                return Some(narrow);
            }
            widen(emitter, ty, &narrow)
        }
        ("min" | "max", [a, b]) => {
            let kind = if it.has("NaN") { "imum" } else { "num" };
            emitter.call(
                &format!("llvm.{}{kind}.f32", it.mnemonic),
                "float",
                &[("float", a), ("float", b)],
            )
        }
        ("tanh", [a]) => emitter.call("llvm.tanh.f32", "float", &[("float", a)]),
        ("ex2", [a]) => emitter.call("llvm.exp2.f32", "float", &[("float", a)]),
        _ => return None,
    };
    let result = clamp(emitter, it, &result);
    Some(narrow_float(emitter, ty, &result))
}
