//! Integer intrinsics that other targets have no name for.
use super::body::{ForeignFunction, HostBody};

/// The body of an integer intrinsic.
pub fn body(name: &str, foreign: &ForeignFunction) -> Option<HostBody> {
    let ty = foreign.returns.as_str();
    let (operation, kind) = name.split_once('.').unwrap_or((name, ""));
    let bits: u32 = ty.strip_prefix('i')?.parse().ok()?;
    let extend = if kind.starts_with('u') { "zext" } else { "sext" };
    match (operation, kind) {
        ("mulhi", "i" | "ui" | "ll" | "ull" | "s" | "us") => {
            let wide = 2 * bits;
            HostBody::inline(format!(
                "%x = {extend} {ty} %a0 to i{wide}\n %y = {extend} {ty} %a1 to i{wide}\n %p = mul i{wide} %x, %y
                 %h = lshr i{wide} %p, {bits}\n %r = trunc i{wide} %h to {ty}\n ret {ty} %r"
            ))
        }
        ("mul24", "i" | "ui") => {
            let shift = if kind == "ui" { "lshr" } else { "ashr" };
            HostBody::inline(format!(
                "%xl = shl i32 %a0, 8\n %x = {shift} i32 %xl, 8\n %yl = shl i32 %a1, 8\n %y = {shift} i32 %yl, 8
                 %r = mul i32 %x, %y\n ret i32 %r"
            ))
        }
        ("sad", "i" | "ui" | "ll" | "ull" | "s" | "us") => {
            let order = if kind.starts_with('u') { "ult" } else { "slt" };
            HostBody::inline(format!(
                "%less = icmp {order} {ty} %a0, %a1\n %up = sub {ty} %a1, %a0\n %down = sub {ty} %a0, %a1
                 %d = select i1 %less, {ty} %up, {ty} %down\n %r = add {ty} %d, %a2\n ret {ty} %r"
            ))
        }
        ("prmt", "") => HostBody::inline(permute("%a0", "%a1", "%a2")),
        ("idp4a", "s.s" | "s.u" | "u.s" | "u.u") => HostBody::inline(dot_product(kind)),
        ("fshl" | "fshr", "clamp.i32") => HostBody::inline(funnel_clamped(operation)),
        ("move", _) => HostBody::inline(format!("ret {ty} %a0")),
        _ => None,
    }
}

/// PTX `prmt.b32` in its default mode: picks four bytes of eight; bit 3 of a selector spreads the sign.
pub fn permute(low: &str, high: &str, selector: &str) -> String {
    let mut text = format!(
        "%pl = zext i32 {low} to i64\n %ph = zext i32 {high} to i64\n %pu = shl i64 %ph, 32\n %bytes = or i64 %pu, %pl\n"
    );
    for at in 0..4 {
        let (nibble, up) = (4 * at, 8 * at);
        text += &format!(
            "%n{at} = lshr i32 {selector}, {nibble}
             %i{at} = and i32 %n{at}, 7\n %d{at} = shl i32 %i{at}, 3\n %e{at} = zext i32 %d{at} to i64
             %s{at} = lshr i64 %bytes, %e{at}\n %t{at} = trunc i64 %s{at} to i8
             %sign{at} = ashr i8 %t{at}, 7\n %m{at} = and i32 %n{at}, 8\n %spread{at} = icmp ne i32 %m{at}, 0
             %b{at} = select i1 %spread{at}, i8 %sign{at}, i8 %t{at}
             %z{at} = zext i8 %b{at} to i32\n %y{at} = shl i32 %z{at}, {up}\n"
        );
    }
    text + "%o0 = or i32 %y0, %y1\n %o1 = or i32 %y2, %y3\n %r = or i32 %o0, %o1\n ret i32 %r"
}

/// Four byte products added to the third operand.
fn dot_product(kind: &str) -> String {
    let extend = |unsigned: bool| if unsigned { "zext" } else { "sext" };
    let (left, right) = (extend(kind.starts_with('u')), extend(kind.ends_with('u')));
    let mut text = String::from("%sum0 = add i32 %a2, 0\n");
    for at in 0..4 {
        let (shift, next) = (8 * at, at + 1);
        text += &format!(
            "%xs{at} = lshr i32 %a0, {shift}\n %xb{at} = trunc i32 %xs{at} to i8\n %x{at} = {left} i8 %xb{at} to i32
             %ys{at} = lshr i32 %a1, {shift}\n %yb{at} = trunc i32 %ys{at} to i8\n %y{at} = {right} i8 %yb{at} to i32
             %p{at} = mul i32 %x{at}, %y{at}\n %sum{next} = add i32 %sum{at}, %p{at}\n"
        );
    }
    text + "ret i32 %sum4"
}

/// A funnel shift whose amount stops at 32; the operands are (high, low, amount).
pub fn funnel_clamped(operation: &str) -> String {
    let whole = if operation == "fshl" { "%a1" } else { "%a0" };
    format!(
        "%f = call i32 @llvm.{operation}.i32(i32 %a0, i32 %a1, i32 %a2)\n %all = icmp uge i32 %a2, 32
         %r = select i1 %all, i32 {whole}, i32 %f\n ret i32 %r"
    )
}
