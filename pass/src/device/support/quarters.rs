//! Intrinsics that convert to and from the 8-bit floating-point formats: `ff.to.e4m3x2.rn.relu` and its like.
use super::body::{ForeignFunction, HostBody};

/// The body of such an intrinsic.
pub fn body(name: &str, foreign: &ForeignFunction) -> Option<HostBody> {
    let (from, rest) = name.split_once(".to.")?;
    let (to, relu) = match rest.strip_suffix(".relu") {
        Some(rest) => (rest.strip_suffix(".rn")?, true),
        None => (rest.strip_suffix(".rn")?, false),
    };
    let text = match (from, to) {
        ("ff", _) if foreign.is("i16", &["float", "float"]) => format!(
            "%r = call i16 @softgpu.floats_to_{}(float %a0, float %a1, i1 {relu})\n ret i16 %r",
            format(to)?
        ),
        ("f16x2", _) if foreign.is("i16", &["<2 x half>"]) => format!(
            "%h = bitcast <2 x half> %a0 to i32
             %r = call i16 @softgpu.halves_to_{}(i32 %h, i1 {relu})\n ret i16 %r",
            format(to)?
        ),
        (_, "f16x2") if foreign.is("<2 x half>", &["i16"]) => format!(
            "%h = call i32 @softgpu.{}_to_halves(i16 %a0, i1 {relu})
             %r = bitcast i32 %h to <2 x half>\n ret <2 x half> %r",
            format(from)?
        ),
        _ => return None,
    };
    HostBody::inline(text)
}

/// The format that a suffix names, without its `x2`.
pub fn format(suffix: &str) -> Option<&str> {
    suffix
        .strip_suffix("x2")
        .filter(|format| ["e4m3", "e5m2"].contains(format))
}
