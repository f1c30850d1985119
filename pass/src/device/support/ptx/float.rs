//! Floating point of 32 and 64 bits: NVVM has an intrinsic for each instruction, of nearly the same name.
use super::call::Call;
use super::emit::Emitter;
use super::types::{PREDICATE, Type};

pub fn emit(emitter: &mut Emitter, it: &Call) -> Option<()> {
    let ty = it.ty().filter(|ty| ty.is_float() && !ty.is_small())?;
    it.only(&[
        "rn", "rz", "rm", "rp", "approx", "full", "ftz", "sat", "NaN", "finite", "infinite", "number",
    ])?;
    let (to, from) = it.operands.split_first()?;
    if it.mnemonic == "testp" {
        return test(emitter, it, ty);
    }
    let mut values = Vec::new();
    for operand in from {
        values.push(emitter.read(operand, ty)?);
    }
    let (llvm, f) = (ty.llvm(), ty.suffix());
    let result = match (it.mnemonic, values.as_slice()) {
        ("neg", [a]) => emitter.value(format!("fneg {llvm} {a}")),
        ("abs", [a]) => emitter.call(&format!("llvm.fabs.{f}"), &llvm, &[(&llvm, a)]),
        ("min" | "max", [a, b]) => {
            let kind = if it.has("NaN") { "imum" } else { "num" };
            emitter.call(
                &format!("llvm.{}{kind}.{f}", it.mnemonic),
                &llvm,
                &[(&llvm, a), (&llvm, b)],
            )
        }
        ("min" | "max", [a, b, c]) => {
            let kind = if it.has("NaN") { "imum" } else { "num" };
            let name = format!("llvm.{}{kind}.{f}", it.mnemonic);
            let first = emitter.call(&name, &llvm, &[(&llvm, a), (&llvm, b)]);
            emitter.call(&name, &llvm, &[(&llvm, &first), (&llvm, c)])
        }
        // The first operand's sign goes to the second.
        ("copysign", [a, b]) => emitter.call(&format!("llvm.copysign.{f}"), &llvm, &[(&llvm, b), (&llvm, a)]),
        (
            "add" | "sub" | "mul" | "div" | "fma" | "mad" | "rcp" | "sqrt" | "rsqrt" | "sin" | "cos" | "ex2"
            | "lg2" | "tanh",
            values,
        ) => rounded(emitter, it, ty, values)?,
        _ => return None,
    };
    let result = match it.has("sat") {
        true => emitter.intrinsic(&format!("saturate.{}", letter(ty)), &llvm, &[(&llvm, &result)])?,
        false => result,
    };
    emitter.write(to, ty, &result)
}

fn letter(ty: Type) -> &'static str {
    if ty.bits == 32 { "f" } else { "d" }
}

/// What NVVM has under the same name: `add.rz.f`.
fn rounded(emitter: &mut Emitter, it: &Call, ty: Type, values: &[String]) -> Option<String> {
    let modes = ["rn", "rz", "rm", "rp", "approx", "full"];
    let mode = it
        .modifiers
        .iter()
        .find(|text| modes.contains(text))
        .copied()
        .unwrap_or("rn");
    let name = if it.mnemonic == "mad" { "fma" } else { it.mnemonic };
    let llvm = ty.llvm();
    let arguments: Vec<(&str, &str)> = values
        .iter()
        .map(|value| (llvm.as_str(), value.as_str()))
        .collect();
    emitter.intrinsic(&format!("{name}.{mode}.{}", letter(ty)), &llvm, &arguments)
}

/// `testp.infinite.f32 p, a`
fn test(emitter: &mut Emitter, it: &Call, ty: Type) -> Option<()> {
    let [to, from] = it.operands else { return None };
    let value = emitter.read(from, ty)?;
    // The classes of llvm.is.fpclass.
    let classes = match *it.modifiers.first()? {
        "finite" => 0x1f8,
        "infinite" => 0x204,
        "number" => 0x3fc,
        _ => return None,
    };
    let llvm = ty.llvm();
    let found = emitter.call(
        &format!("llvm.is.fpclass.{}", ty.suffix()),
        "i1",
        &[(&llvm, &value), ("i32", &classes.to_string())],
    );
    emitter.write(to, PREDICATE, &found)
}
