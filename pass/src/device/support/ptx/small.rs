//! The 16-bit formats, alone and in pairs: computed in `float`, whose sums, products, quotients and roots round
//! to them as the exact ones do; fused products in `double`.
use super::Call;
use super::compare;
use super::emit::Emitter;
use super::types::{Kind, Type};

/// A 16-bit number, an integer as it is, as a `float`.
pub fn widen(emitter: &mut Emitter, ty: Type, value: &str) -> String {
    if ty.kind == Kind::Brain {
        let wide = emitter.value(format!("zext i16 {value} to i32"));
        let up = emitter.value(format!("shl i32 {wide}, 16"));
        return emitter.value(format!("bitcast i32 {up} to float"));
    }
    let half = emitter.value(format!("bitcast i16 {value} to half"));
    emitter.value(format!("fpext half {half} to float"))
}

/// A `double` rounded to a 16-bit format once, as an integer.
pub fn narrow(emitter: &mut Emitter, ty: Type, value: &str, mode: char) -> String {
    let format = if ty.kind == Kind::Brain { "brain" } else { "half" };
    let mode = match mode {
        'n' => 1,
        'z' => 0,
        'p' => 2,
        _ => 3,
    };
    emitter.call(
        &format!("softgpu.narrow_{format}"),
        "i16",
        &[("double", value), ("i32", &mode.to_string())],
    )
}

/// The same of a `float`, to nearest.
fn narrow_float(emitter: &mut Emitter, ty: Type, value: &str) -> String {
    if ty.kind == Kind::Brain {
        return emitter.call("softgpu.float_to_brain", "i16", &[("float", value)]);
    }
    let half = emitter.value(format!("fptrunc float {value} to half"));
    emitter.value(format!("bitcast half {half} to i16"))
}

/// Two 16-bit integers in one of 32 bits, the first lowest.
pub fn pack(emitter: &mut Emitter, halves: &[String]) -> String {
    let [low, high] = halves else {
        unreachable!("a pair has two halves");
    };
    let low = emitter.value(format!("zext i16 {low} to i32"));
    let high = emitter.value(format!("zext i16 {high} to i32"));
    let up = emitter.value(format!("shl i32 {high}, 16"));
    emitter.value(format!("or i32 {low}, {up}"))
}

/// The elements of a register, as integers.
pub fn elements(emitter: &mut Emitter, ty: Type, value: &str) -> Vec<String> {
    if ty.lanes == 1 {
        return vec![value.to_owned()];
    }
    let element = |emitter: &mut Emitter, at: u32| {
        let down = emitter.value(format!("lshr {} {value}, {}", ty.register(), at * ty.bits));
        emitter.value(format!("trunc {} {down} to i{}", ty.register(), ty.bits))
    };
    (0..ty.lanes).map(|at| element(emitter, at)).collect()
}

/// `.sat` and `.relu` of a `float`; not-a-number becomes zero by the first and stays by the second.
pub fn clamp(emitter: &mut Emitter, it: &Call, value: &str) -> String {
    let mut value = value.to_owned();
    if it.has("sat") {
        let low = emitter.value(format!("fcmp olt float {value}, 1.0"));
        let capped = emitter.value(format!("select i1 {low}, float {value}, float 1.0"));
        let high = emitter.value(format!("fcmp ogt float {value}, 0.0"));
        let sat = emitter.value(format!("select i1 {high}, float {capped}, float 0.0"));
        value = sat;
    }
    if it.has("relu") {
        let negative = emitter.value(format!("fcmp olt float {value}, 0.0"));
        value = emitter.value(format!("select i1 {negative}, float 0.0, float {value}"));
    }
    value
}

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
