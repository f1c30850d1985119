//! The 8-bit floating-point formats, which come in pairs: conversions to and from the wider ones.
use super::super::quarters::format;
use super::call::Call;
use super::emit::Emitter;
use super::types::{Type, bits};

pub fn emit(emitter: &mut Emitter, it: &Call) -> Option<()> {
    let (&[ref how @ .., target, source], "cvt") = (it.modifiers, it.mnemonic) else {
        return None;
    };
    let known = ["rn", "satfinite", "relu"];
    if !how.iter().all(|text| known.contains(text)) || !it.has("rn") {
        return None;
    }
    let relu = ("i1", if it.has("relu") { "true" } else { "false" });
    match (format(target), format(source), it.operands) {
        (Some(format), None, [to, upper, lower]) if source == "f32" && it.has("satfinite") => {
            let single = Type::parse(source)?;
            let (high, low) = (emitter.read(upper, single)?, emitter.read(lower, single)?);
            let arguments = [("float", high.as_str()), ("float", low.as_str()), relu];
            let pair = emitter.call(&format!("softgpu.floats_to_{format}"), "i16", &arguments);
            emitter.write(to, bits(16), &pair)
        }
        (Some(format), None, [to, from]) if source == "f16x2" && it.has("satfinite") => {
            let halves = emitter.read(from, bits(32))?;
            let arguments = [("i32", halves.as_str()), relu];
            let pair = emitter.call(&format!("softgpu.halves_to_{format}"), "i16", &arguments);
            emitter.write(to, bits(16), &pair)
        }
        (None, Some(format), [to, from]) if target == "f16x2" && !it.has("satfinite") => {
            let pair = emitter.read(from, bits(16))?;
            let arguments = [("i16", pair.as_str()), relu];
            let halves = emitter.call(&format!("softgpu.{format}_to_halves"), "i32", &arguments);
            emitter.write(to, bits(32), &halves)
        }
        _ => None,
    }
}
