//! Texture reads. A texture without levels is read at the only one that it has, whatever level or gradient is
//! asked for. What type the elements have is the object's to say: the four words of a result are stored as
//! they are.
use super::call::Call;
use super::emit::Emitter;
use super::parse::Operand;
use super::types::{ScalarKind, Type, bits};

/// The shapes, in the order of softgpu_image.h.
const GEOMETRIES: [&str; 7] = ["1d", "2d", "3d", "a1d", "a2d", "cube", "acube"];

/// The number of an instruction's shape, how many words its coordinates have, and the layer's among them.
pub fn geometry(it: &Call) -> Option<(u32, usize)> {
    let at = GEOMETRIES.iter().position(|name| it.has(name))?;
    Some((at as u32, [1, 2, 3, 2, 3, 3, 4][at]))
}

/// Keeps the words of coordinates in memory: where.
pub fn coordinates(emitter: &mut Emitter, from: &[Operand], count: usize) -> Option<String> {
    // PTX has vectors of two and four: what is beyond the shape's words fills them up.
    let fits = from.len() == count || (count == 3 && from.len() == 4);
    let place = fits.then(|| emitter.room("[4 x i32]"))?;
    for at in 0..4 {
        let word = match from.get(at).filter(|_| at < count) {
            Some(operand) => emitter.read(operand, bits(32))?,
            None => "0".into(),
        };
        let to = emitter.value(format!("getelementptr i32, ptr {place}, i64 {at}"));
        emitter.line(format!("store i32 {word}, ptr {to}"));
    }
    Some(place)
}

pub fn emit(emitter: &mut Emitter, it: &Call) -> Option<()> {
    let gathers = match it.mnemonic {
        "tex" => false,
        "tld4" => true,
        _ => return None,
    };
    let (geometry, count) = geometry(it)?;
    let known = ["v4", "level", "grad", "r", "g", "b", "a"];
    let is_known = |text: &&str| {
        known.contains(text) || GEOMETRIES.contains(text) || Type::parse(text).is_some_and(is_word)
    };
    let ([.., by], [to, Operand::Texel(object, from), beyond @ ..]) = (it.modifiers, it.operands) else {
        return None;
    };
    // Nothing else may follow: an offset, or a depth to compare with.
    let expected = usize::from(it.has("level")) + 2 * usize::from(it.has("grad"));
    if !it.modifiers.iter().all(is_known) || !it.has("v4") || beyond.len() != expected {
        return None;
    }
    let kind = match (gathers, Type::parse(by)?.kind) {
        (true, _) => 4 + ["r", "g", "b", "a"].iter().position(|name| it.has(name))? as u32,
        (false, ScalarKind::Float) => 0,
        (false, ScalarKind::Signed) => 1,
        _ => return None,
    };
    let (to, resident) = match to {
        Operand::Pair(to, resident) => (&**to, Some(&**resident)),
        to => (to, None),
    };
    let Operand::Vector(to) = to else { return None };
    let object = emitter.read(object, bits(64))?;
    let at = coordinates(emitter, from, count)?;
    let result = emitter.room("[4 x i32]");
    emitter.line(format!(
        "call void @softgpu.texture(i64 {object}, i32 {geometry}, i32 {kind}, ptr {at}, ptr {result})"
    ));
    for (at, to) in to.iter().enumerate().take(4) {
        let from = emitter.value(format!("getelementptr i32, ptr {result}, i64 {at}"));
        let word = emitter.value(format!("load i32, ptr {from}"));
        emitter.write(to, bits(32), &word)?;
    }
    // No array lacks a part of its memory.
    resident.map_or(Some(()), |resident| {
        emitter.write(resident, super::types::PREDICATE, "true")
    })
}

/// Coordinates and results are words.
fn is_word(ty: Type) -> bool {
    ty.bits == 32 && ty.lanes == 1
}

#[cfg(test)]
mod tests {
    use super::super::tests::{accept, refused};

    #[test]
    fn what_cudas_headers_read_textures_with() {
        let four = "{ float, float, float, float }";
        let resident = "{ float, float, float, float, i16 }";
        accept(&[
            (
                "tex.1d.v4.s32.s32\t{$0, $1, $2, $3}, [$4, {$5}];",
                "=r,=r,=r,=r,l,r",
                "{ i32, i32, i32, i32 }",
                &["i64", "i32"],
            ),
            (
                "tex.grad.1d.v4.f32.f32\t{$0, $1, $2, $3}, [$4, {$5}], {$6}, {$7};",
                "=f,=f,=f,=f,l,f,f,f",
                four,
                &["i64", "float", "float", "float"],
            ),
            (
                "tex.level.a1d.v4.f32.f32\t{$0, $1, $2, $3}, [$4, {$5, $6}], $7;",
                "=f,=f,=f,=f,l,r,f,f",
                four,
                &["i64", "i32", "float", "float"],
            ),
            (
                "tex.a2d.v4.f32.f32\t{$0, $1, $2, $3}, [$4, {$5, $6, $7, $7}];",
                "=f,=f,=f,=f,l,r,f,f",
                four,
                &["i64", "i32", "float", "float"],
            ),
            (
                "tex.grad.3d.v4.f32.f32\t{$0, $1, $2, $3}, [$4, {$5, $6, $7, $7}], {$8, $9, $10, $10}, {$11, $12, $13, $13};",
                "=f,=f,=f,=f,l,f,f,f,f,f,f,f,f,f",
                four,
                &[
                    "i64", "float", "float", "float", "float", "float", "float", "float", "float", "float",
                ],
            ),
            (
                "{.reg .pred %p0;\n\ttex.2d.v4.f32.f32\t{$0, $1, $2, $3}|%p0, [$5, {$6, $7}];\n\t selp.u16 $4, 1, 0, %p0; }",
                "=f,=f,=f,=f,=h,l,f,f",
                resident,
                &["i64", "float", "float"],
            ),
            (
                "tld4.b.2d.v4.u32.f32\t{$0, $1, $2, $3}, [$4, {$5, $6}];",
                "=r,=r,=r,=r,l,f,f",
                "{ i32, i32, i32, i32 }",
                &["i64", "float", "float"],
            ),
            (
                "tex.acube.v4.f32.f32\t{$0, $1, $2, $3}, [$4, {$5, $6, $7, $8}];",
                "=f,=f,=f,=f,l,r,f,f,f",
                four,
                &["i64", "i32", "float", "float", "float"],
            ),
        ]);
    }

    #[test]
    fn what_would_read_something_else_is_refused() {
        for text in [
            // An offset, a depth to compare with, a level of its own, several samples, half floats.
            "tex.2d.v4.f32.f32 {$0, $0, $0, $0}, [$1, {$1, $1}], {$1, $1};",
            "tex.2d.v4.f32.f32 {$0, $0, $0, $0}, [$1, {$1, $1}], $1;",
            "tex.base.2d.v4.f32.f32 {$0, $0, $0, $0}, [$1, {$1, $1}];",
            "tex.2dms.v4.f32.s32 {$0, $0, $0, $0}, [$1, {$1, $1, $1, $1}];",
            "tex.2d.v2.f16x2.f32 {$0, $0}, [$1, {$1, $1}];",
            "tex.2d.v4.f32.f32 {$0, $0, $0, $0}, [$1, {$1}];",
            "txq.width.b32 $0, [$1];",
        ] {
            refused(text);
        }
    }
}
