//! Registers of the types that an instruction has, as integers of their bits.
use super::super::body::ForeignFunction;

/// A value of a register's type, as the integer of its bits: the line that makes it, and its name.
pub fn as_bits(value: &str, ty: &str, bits: u32) -> (String, String) {
    if ty == format!("i{bits}") {
        return (String::new(), value.to_owned());
    }
    let name = format!("{value}.bits");
    (format!("{name} = bitcast {ty} {value} to i{bits}\n "), name)
}

/// The lines that return registers, integers of `bits` bits with these names, as the types that are asked
/// for.
pub fn returned(foreign: &ForeignFunction, bits: u32, registers: &[String]) -> String {
    let types = foreign.result_types();
    let mut text = String::new();
    let mut whole = "poison".to_owned();
    for (at, (register, ty)) in registers.iter().zip(types).enumerate() {
        let mut value = register.clone();
        if ty != format!("i{bits}") {
            value = format!("%typed{at}");
            text += &format!("{value} = bitcast i{bits} {register} to {ty}\n ");
        }
        if foreign.returns.starts_with('{') {
            text += &format!(
                "%whole{at} = insertvalue {} {whole}, {ty} {value}, {at}\n ",
                foreign.returns
            );
            whole = format!("%whole{at}");
        } else {
            whole = value;
        }
    }
    text + &format!("ret {} {whole}", foreign.returns)
}
