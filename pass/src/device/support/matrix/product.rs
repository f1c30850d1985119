//! Products: registers go to the software GPU and come back through memory of the lane's own.
use super::super::body::{ForeignFunction, HostBody};
use super::fragment::Fragment;
use super::operation::MatrixProduct;
use super::registers::{as_bits, returned};

/// The body of a product: `%a0` and on are the registers of A, of B and of C.
pub fn body(product: &MatrixProduct, foreign: &ForeignFunction) -> Option<HostBody> {
    let [named_a, named_b] = product.registers;
    let groups = [
        (product.a, named_a),
        (product.b, named_b),
        (product.c, product.c.registers()),
    ];
    let named: u32 = groups.iter().map(|(_, named)| named).sum();
    if foreign.takes.len() != named as usize || foreign.result_types().len() != product.d.registers() as usize
    {
        return None;
    }
    let taken: u32 = groups.iter().map(|(fragment, _)| bytes(fragment)).sum();
    let room = taken.max(bytes(&product.d));
    let mut text = format!("%room = alloca [{room} x i8], align 8\n ");
    let (mut first, mut place) = (0, 0);
    for (fragment, named) in groups {
        let bits = fragment.element.register_bits();
        // What a fragment has again and again is given once.
        for register in 0..fragment.registers() {
            let at = (first + register) as usize;
            let (line, value) = as_bits(&format!("%a{at}"), &foreign.takes[at], bits);
            text += &line;
            text += &format!(
                "%to{at} = getelementptr i8, ptr %room, i64 {place}
                 store i{bits} {value}, ptr %to{at}\n "
            );
            place += bits / 8;
        }
        first += named;
    }
    text += &format!("call void @softgpu.matrix(i64 {}, ptr %room)\n ", product.word());
    let bits = product.d.element.register_bits();
    let mut registers = Vec::new();
    for at in 0..product.d.registers() {
        text += &format!(
            "%from{at} = getelementptr i8, ptr %room, i64 {}
             %d{at} = load i{bits}, ptr %from{at}\n ",
            at * bits / 8
        );
        registers.push(format!("%d{at}"));
    }
    text += &returned(foreign, bits, &registers);
    HostBody::inline(text)
}

/// Bytes of a fragment's registers.
fn bytes(fragment: &Fragment) -> u32 {
    fragment.registers() * fragment.element.register_bits() / 8
}
