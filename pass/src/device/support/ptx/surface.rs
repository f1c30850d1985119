//! Surface reads and writes, of bytes as they are.
use super::call::Call;
use super::emit::Emitter;
use super::parse::Operand;
use super::texture::{coordinates, geometry};
use super::types::{ScalarKind, Type, bits};

/// What an access outside does, in the order of CUDA's numbers.
const MODES: [&str; 3] = ["zero", "clamp", "trap"];
const SHAPES: [&str; 5] = ["1d", "2d", "3d", "a1d", "a2d"];

pub fn emit(emitter: &mut Emitter, it: &Call) -> Option<()> {
    let (values, object, from, reads) = match (it.mnemonic, it.operands) {
        ("suld", [to, Operand::Texel(object, from)]) => (to, object, from, true),
        ("sust", [Operand::Texel(object, from), value]) => (value, object, from, false),
        _ => return None,
    };
    let known = |text: &&str| {
        // How it is cached makes no difference here. `.p` would convert elements to another format.
        ["b", "v2", "v4", "ca", "cg", "cs", "cv", "wb", "wt"].contains(text)
            || MODES.contains(text)
            || SHAPES.contains(text)
            || Type::parse(text).is_some()
    };
    let ty = it
        .ty()
        .filter(|ty| ty.kind == ScalarKind::Bits && ty.lanes == 1)?;
    if it.modifiers.first() != Some(&"b") || !it.modifiers.iter().all(known) {
        return None;
    }
    let lanes = match (it.has("v2"), it.has("v4")) {
        (true, _) => 2,
        (_, true) => 4,
        _ => 1,
    };
    let values: Vec<&Operand> = match values {
        Operand::Vector(parts) => parts.iter().collect(),
        one => vec![one],
    };
    let bytes = lanes * ty.bits / 8;
    if values.len() != lanes as usize || bytes > 16 {
        return None;
    }
    let mode = MODES.iter().position(|mode| it.has(mode))?;
    let (geometry, count) = geometry(it)?;
    let object = emitter.read(object, bits(64))?;
    let at = coordinates(emitter, from, count)?;
    let element = format!("i{}", ty.bits);
    let room = emitter.room(&format!("[{lanes} x {element}]"));
    let lane = |emitter: &mut Emitter, lane: usize| {
        emitter.value(format!("getelementptr {element}, ptr {room}, i64 {lane}"))
    };
    if !reads {
        for (number, value) in values.iter().enumerate() {
            let value = emitter.read(value, ty)?;
            let place = lane(emitter, number);
            emitter.line(format!("store {element} {value}, ptr {place}"));
        }
    }
    let service = if reads { "surface_read" } else { "surface_write" };
    emitter.line(format!(
        "call void @softgpu.{service}(i64 {object}, i32 {geometry}, i32 {mode}, ptr {at}, i32 {bytes}, ptr {room})"
    ));
    if reads {
        for (number, to) in values.iter().enumerate() {
            let place = lane(emitter, number);
            let value = emitter.value(format!("load {element}, ptr {place}"));
            emitter.write(to, ty, &value)?;
        }
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::super::tests::{accept, refused};

    #[test]
    fn what_cudas_headers_use_surfaces_with() {
        accept(&[
            (
                "suld.b.1d.b8.zero {$0}, [$1, {$2}];",
                "=h,l,r",
                "i16",
                &["i64", "i32"],
            ),
            (
                "suld.b.a2d.v4.b32.clamp {$0, $1, $2, $3}, [$4, {$7, $5, $6, $6}];",
                "=r,=r,=r,=r,l,r,r,r",
                "{ i32, i32, i32, i32 }",
                &["i64", "i32", "i32", "i32"],
            ),
            (
                "suld.b.3d.v2.b64.trap {$0, $1}, [$2, {$3, $4, $5, $5}];",
                "=l,=l,l,r,r,r",
                "{ i64, i64 }",
                &["i64", "i32", "i32", "i32"],
            ),
            (
                "sust.b.2d.v2.b16.trap [$0, {$1, $2}], {$3, $4};",
                "l,r,r,h,h",
                "void",
                &["i64", "i32", "i32", "i16", "i16"],
            ),
            (
                "sust.b.a1d.b32.zero [$0, {$2, $1}], {$3};",
                "l,r,r,r",
                "void",
                &["i64", "i32", "i32", "i32"],
            ),
        ]);
    }

    #[test]
    fn what_is_not_bytes_is_refused() {
        for text in [
            "sust.p.2d.v4.b32.trap [$1, {$1, $1}], {$1, $1, $1, $1};",
            "sured.b.add.2d.u32.trap [$1, {$1, $1}], $1;",
            "suld.b.2d.v4.b64.trap {$0, $0, $0, $0}, [$1, {$1, $1}];",
            "suld.b.2d.b32 {$0}, [$1, {$1, $1}];",
            "suq.width.b32 $0, [$1];",
        ] {
            refused(text);
        }
    }
}
