//! PTX in inline assembly, translated statement by statement.
//!
//! An assembly text becomes a function whose parameters are its inputs and whose results are its outputs.
//! What it declares are variables of that function, what it jumps over are its blocks, and each instruction
//! is a few lines of LLVM IR, written by the family that knows its mnemonic. An instruction that no family
//! knows is an error that quotes it.
mod arithmetic;
mod async_copy;
mod atomic;
mod call;
mod carry;
mod compare;
mod control;
mod convert;
mod emit;
mod float;
mod formats;
mod logic;
mod matrix;
mod memory;
mod parse;
mod quarter;
mod simd;
mod small;
mod surface;
mod texture;
mod together;
mod types;

use super::body::{ForeignFunction, HostBody};
use call::Call;
use emit::Emitter;
use parse::Instruction;
pub use parse::{Operand, Statement, number};

/// The statements of an assembly text; none where one cannot be read.
pub fn statements(text: &str) -> Option<Vec<Statement>> {
    Some(parse::parse(text).ok()?.statements)
}

/// The body for an assembly text with LLVM's constraints; an error is the statement that is not known.
pub fn body(foreign: &ForeignFunction, constraints: &str) -> Result<HostBody, String> {
    let program = parse::parse(foreign.name)?;
    let (outputs, tied, clobbers) = operands(constraints);
    let refused = || foreign.name.to_owned();
    let mut emitter = Emitter::new(foreign, &program, outputs, &tied).ok_or_else(refused)?;
    if clobbers {
        emitter.line(BARRIER);
    }
    for statement in &program.statements {
        match statement {
            Statement::Label(name) => emitter.start(&control::block(name)),
            Statement::Instruction(instruction) => {
                guarded(&mut emitter, instruction).ok_or_else(|| instruction.text.clone())?;
            }
        }
    }
    if clobbers {
        emitter.line(BARRIER);
    }
    let (text, declarations) = emitter.finish(foreign, outputs);
    Ok(HostBody {
        text,
        declarations,
        attributes: "",
    })
}

/// What the compiler may not move accesses over.
const BARRIER: &str = "fence syncscope(\"singlethread\") seq_cst";

/// Takes constraints apart: the number of outputs, which output each input is tied to, and whether memory is
/// touched.
fn operands(constraints: &str) -> (usize, Vec<Option<usize>>, bool) {
    let (mut outputs, mut tied, mut clobbers) = (0, Vec::new(), false);
    for constraint in constraints.split(',').filter(|text| !text.is_empty()) {
        if constraint.starts_with('=') {
            outputs += 1;
        } else if constraint.starts_with("~{") {
            clobbers |= constraint == "~{memory}";
        } else {
            tied.push(constraint.parse().ok());
        }
    }
    (outputs, tied, clobbers)
}

/// Writes an instruction under its guard.
fn guarded(emitter: &mut Emitter, instruction: &Instruction) -> Option<()> {
    let Some((predicate, negated)) = &instruction.guard else {
        return plain(emitter, instruction);
    };
    let condition = emitter.read(predicate, types::PREDICATE)?;
    let (under, after) = (emitter.block(), emitter.block());
    match negated {
        false => emitter.branch(&condition, &under, &after),
        true => emitter.branch(&condition, &after, &under),
    }
    emitter.start(&under);
    plain(emitter, instruction)?;
    emitter.start(&after);
    Some(())
}

/// Writes an instruction: by the family that knows it.
fn plain(emitter: &mut Emitter, instruction: &Instruction) -> Option<()> {
    let parts: Vec<&str> = instruction.parts.iter().map(String::as_str).collect();
    let (&mnemonic, modifiers) = parts.split_first()?;
    let it = Call {
        mnemonic,
        modifiers,
        operands: &instruction.operands,
    };
    control::emit(emitter, &it)
        .or_else(|| matrix::emit(emitter, &it))
        .or_else(|| quarter::emit(emitter, &it))
        .or_else(|| convert::emit(emitter, &it))
        .or_else(|| logic::emit(emitter, &it))
        .or_else(|| carry::emit(emitter, &it))
        .or_else(|| arithmetic::emit(emitter, &it))
        .or_else(|| small::emit(emitter, &it))
        .or_else(|| float::emit(emitter, &it))
        .or_else(|| compare::emit(emitter, &it))
        .or_else(|| memory::emit(emitter, &it))
        .or_else(|| atomic::emit(emitter, &it))
        .or_else(|| async_copy::emit(emitter, &it))
        .or_else(|| together::emit(emitter, &it))
        .or_else(|| simd::emit(emitter, &it))
        .or_else(|| texture::emit(emitter, &it))
        .or_else(|| surface::emit(emitter, &it))
}

#[cfg(test)]
mod tests;
