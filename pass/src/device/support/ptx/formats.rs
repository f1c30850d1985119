//! Conversions between the 16-bit formats and `float`, and between a register and its elements.
use super::call::Call;
use super::emit::Emitter;
use super::types::{ScalarKind, Type};

/// A 16-bit number, an integer as it is, as a `float`.
pub fn widen(emitter: &mut Emitter, ty: Type, value: &str) -> String {
    if ty.kind == ScalarKind::Brain {
        let wide = emitter.value(format!("zext i16 {value} to i32"));
        let up = emitter.value(format!("shl i32 {wide}, 16"));
        return emitter.value(format!("bitcast i32 {up} to float"));
    }
    let half = emitter.value(format!("bitcast i16 {value} to half"));
    emitter.value(format!("fpext half {half} to float"))
}

/// A `double` rounded to a 16-bit format once, as an integer.
pub fn narrow(emitter: &mut Emitter, ty: Type, value: &str, mode: char) -> String {
    let format = if ty.kind == ScalarKind::Brain {
        "brain"
    } else {
        "half"
    };
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
pub fn narrow_float(emitter: &mut Emitter, ty: Type, value: &str) -> String {
    if ty.kind == ScalarKind::Brain {
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
