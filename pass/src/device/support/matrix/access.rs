//! Loads and stores of fragments: `%a0` is the matrix, the last argument its stride if there is one.
use super::super::body::{ForeignFunction, HostBody};
use super::operation::MatrixAccess;
use super::registers::{as_bits, returned};

/// All lanes of the warp meet.
const MEET: &str = "call void @softgpu.warp_sync(i32 -1)\n ";

/// The body of a load.
pub fn load(access: &MatrixAccess, foreign: &ForeignFunction) -> Option<HostBody> {
    let arguments = 1 + usize::from(access.stride.is_none());
    if foreign.takes.len() != arguments || foreign.result_types().len() != access.registers as usize {
        return None;
    }
    let bits = access.fragment.element.register_bits();
    let mut text = MEET.to_owned() + &start(access, foreign, arguments)?;
    let mut own = Vec::new();
    for register in 0..access.fragment.registers() {
        let mut whole = "0".to_owned();
        for (at, piece) in pieces(access, register).into_iter().enumerate() {
            let name = format!("{register}.{at}");
            text += &piece.address(access, &name);
            text += &format!(
                "%v{name} = load i{0}, ptr %p{name}, align {1}
                 %z{name} = {2}
                 %s{name} = shl i{bits} %z{name}, {3}
                 %w{name} = or i{bits} {whole}, %s{name}\n ",
                piece.bits,
                piece.align,
                widened(&format!("%v{name}"), piece.bits, bits),
                piece.shift
            );
            whole = format!("%w{name}");
        }
        own.push(whole);
    }
    // `wmma` has some fragments again and again.
    let all: Vec<String> = own
        .iter()
        .cycle()
        .take(access.registers as usize)
        .cloned()
        .collect();
    text += MEET;
    text += &returned(foreign, bits, &all);
    HostBody::inline(text)
}

/// The body of a store; its registers stand between the matrix and the stride.
pub fn store(access: &MatrixAccess, foreign: &ForeignFunction) -> Option<HostBody> {
    let arguments = 1 + access.registers as usize + usize::from(access.stride.is_none());
    if foreign.takes.len() != arguments || foreign.returns != "void" {
        return None;
    }
    let bits = access.fragment.element.register_bits();
    let mut text = MEET.to_owned() + &start(access, foreign, arguments)?;
    for register in 0..access.fragment.registers() {
        let at = register as usize + 1;
        let (line, value) = as_bits(&format!("%a{at}"), &foreign.takes[at], bits);
        text += &line;
        for (at, piece) in pieces(access, register).into_iter().enumerate() {
            let name = format!("{register}.{at}");
            text += &piece.address(access, &name);
            text += &format!(
                "%s{name} = lshr i{bits} {value}, {3}
                 %v{name} = {2}
                 store i{0} %v{name}, ptr %p{name}, align {1}\n ",
                piece.bits,
                piece.align,
                narrowed(&format!("%s{name}"), bits, piece.bits),
                piece.shift
            );
        }
    }
    text += MEET;
    text += "ret void";
    HostBody::inline(text)
}

fn widened(value: &str, from: u32, to: u32) -> String {
    match from == to {
        true => format!("add i{to} {value}, 0"),
        false => format!("zext i{from} {value} to i{to}"),
    }
}

fn narrowed(value: &str, from: u32, to: u32) -> String {
    match from == to {
        true => format!("add i{to} {value}, 0"),
        false => format!("trunc i{from} {value} to i{to}"),
    }
}

/// The lines that find the stride, and the lane's first element. Offsets are in bits, since elements may be
/// shorter than bytes.
fn start(access: &MatrixAccess, foreign: &ForeignFunction, arguments: usize) -> Option<String> {
    let stride = match access.stride {
        Some(stride) => format!("%stride = add i64 {stride}, 0\n "),
        None if foreign.takes[arguments - 1] == "i32" => {
            format!("%stride = zext i32 %a{} to i64\n ", arguments - 1)
        }
        None => return None,
    };
    let base = match foreign.takes[0].as_str() {
        "ptr" => "%base = getelementptr i8, ptr %a0, i64 0\n ".to_owned(),
        ty if ty.starts_with("ptr addrspace") => format!("%base = addrspacecast {ty} %a0 to ptr\n "),
        _ => return None,
    };
    let (bits, run) = (access.fragment.element.bits(), access.fragment.run());
    // The row is far and the column near in memory, or the other way round.
    let (far, near) = match access.along_rows {
        true => ("%row", "%column"),
        false => ("%column", "%row"),
    };
    Some(format!(
        "{stride}{base}%lane = call i32 @softgpu.word(i64 48)
         %group = lshr i32 %lane, 2
         %member = and i32 %lane, 3
         %row = zext i32 %group to i64
         %wide = zext i32 %member to i64
         %column = mul i64 %wide, {run}
         %lines = mul i64 {far}, %stride
         %elements = add i64 %lines, {near}
         %first.bits = mul i64 %elements, {bits}
         %first.bytes = lshr i64 %first.bits, 3
         %first = getelementptr i8, ptr %base, i64 %first.bytes
         %stride.bits = mul i64 %stride, {bits}\n "
    ))
}

/// What is moved at once of a register.
struct RegisterPiece {
    /// Of the fragment's elements.
    row: u32,
    column: u32,
    bits: u32,
    /// Where it stands in the register.
    shift: u32,
    /// In bytes: elements are aligned, and what is in pieces of several may not be.
    align: u32,
}

impl RegisterPiece {
    /// The lines that find its address, `%p` and its name.
    fn address(&self, access: &MatrixAccess, name: &str) -> String {
        let (far, near) = match access.along_rows {
            true => (self.row, self.column),
            false => (self.column, self.row),
        };
        let near = near * access.fragment.element.bits();
        format!(
            "%f{name} = mul i64 %stride.bits, {far}
             %n{name} = add i64 %f{name}, {near}
             %b{name} = lshr i64 %n{name}, 3
             %p{name} = getelementptr i8, ptr %first, i64 %b{name}\n "
        )
    }
}

/// The pieces of a register: the whole of it where its elements are neighbours in memory.
fn pieces(access: &MatrixAccess, register: u32) -> Vec<RegisterPiece> {
    let (fragment, element) = (&access.fragment, access.fragment.element);
    let (per, bits) = (element.per_register(), element.bits());
    let align = (bits / 8).max(1);
    let piece = |at: u32, bits: u32, shift: u32| {
        let (row, column) = fragment.offset(register * per + at);
        RegisterPiece {
            row,
            column,
            bits,
            shift,
            align,
        }
    };
    match access.along_rows {
        true => vec![piece(0, element.register_bits(), 0)],
        false => (0..per).map(|at| piece(at, bits, at * bits)).collect(),
    }
}
