//! Rules from inline assembly. The operands of an assembly text are its results, then its arguments. A text that
//! cannot be read keeps everything that it is given.
use std::collections::HashMap;

use inkwell::llvm_sys::core::*;
use inkwell::llvm_sys::prelude::*;

use super::ptx::AssemblyOperand;
use super::slots::RuleReader;
use super::solve::{EscapeRule, ValueId};
use crate::device::ir::*;
use crate::device::support::{Operand, Statement, number, statements};

const NOT_READ: &str = "uses it in assembly that is not followed";

/// The registers and operands of one text.
struct AssemblyNames {
    registers: HashMap<usize, ValueId>,
    outer: Vec<ValueId>,
}

impl RuleReader {
    /// The rules of a call of inline assembly.
    pub(super) fn assembly(&mut self, call: LLVMValueRef, arguments: &[LLVMValueRef]) {
        let callee = llvm!(LLVMGetCalledValue(call));
        let (mut length, mut bytes) = (0, 0);
        // SAFETY: LLVM gives address and length of strings that the context owns.
        let (text, constraints) = unsafe {
            (
                text_of(LLVMGetInlineAsmAsmString(callee, &mut length), length),
                text_of(LLVMGetInlineAsmConstraintString(callee, &mut bytes), bytes),
            )
        };
        let all: Vec<&str> = constraints
            .split(',')
            .filter(|one| !one.is_empty() && !one.starts_with('~'))
            .collect();
        let results = all.iter().take_while(|one| one.starts_with('=')).count();
        let by_memory = all.iter().any(|one| one.contains('*'));
        let is_regular = !by_memory && all.len() == results + arguments.len();
        let Some(statements) = statements(&text).filter(|_| is_regular) else {
            return self.unknown(call, arguments, NOT_READ);
        };
        let mut names = AssemblyNames {
            registers: HashMap::new(),
            outer: Vec::new(),
        };
        for _ in 0..results {
            names.outer.push(self.solver.node());
        }
        for (&argument, constraint) in arguments.iter().zip(&all[results..]) {
            let node = self.node(argument);
            names.outer.push(node);
            // What begins as an argument and ends as a result.
            if let Some(&to) = constraint
                .parse::<usize>()
                .ok()
                .and_then(|at| names.outer.get(at))
            {
                self.solver.rule(EscapeRule::Copy { to, from: node });
            }
        }
        for statement in &statements {
            if let Statement::Instruction(one) = statement {
                let parts: Vec<&str> = one.parts.iter().map(String::as_str).collect();
                let operands = one.operands.iter().map(|one| self.part(one, &mut names));
                let operands: Vec<AssemblyOperand> = operands.collect();
                self.solver.instruction(&parts, &operands);
            }
        }
        let all = self.solver.node();
        for &from in &names.outer[..results] {
            self.solver.rule(EscapeRule::Copy { to: all, from });
        }
        self.result_is(call, all);
    }

    fn part(&mut self, operand: &Operand, names: &mut AssemblyNames) -> AssemblyOperand {
        let of = |nodes: Vec<ValueId>| AssemblyOperand {
            nodes,
            ..AssemblyOperand::default()
        };
        match operand {
            Operand::Outer(at) => match names.outer.get(*at) {
                Some(&known) => of(vec![known]),
                None => of(vec![self.solver.unknown()]),
            },
            Operand::Register(at) => {
                let node = match names.registers.get(at) {
                    Some(&node) => node,
                    None => self.solver.node(),
                };
                names.registers.insert(*at, node);
                of(vec![node])
            }
            Operand::Word(word) => match number(word).and_then(|number| i64::try_from(number).ok()) {
                Some(number) => AssemblyOperand {
                    number: Some(number),
                    ..AssemblyOperand::default()
                },
                // A special register, or the name of something that is not followed.
                None => of(vec![self.solver.unknown()]),
            },
            Operand::Not(inner) => self.part(inner, names),
            Operand::Address(inner, offset) => AssemblyOperand {
                is_address: true,
                number: Some(*offset),
                ..self.part(inner, names)
            },
            Operand::Texel(object, coordinates) => {
                let mut nodes = self.part(object, names).nodes;
                for one in coordinates {
                    nodes.extend(self.part(one, names).nodes);
                }
                AssemblyOperand {
                    nodes,
                    is_address: true,
                    number: None,
                }
            }
            Operand::Pair(one, other) => {
                let mut nodes = self.part(one, names).nodes;
                nodes.extend(self.part(other, names).nodes);
                of(nodes)
            }
            Operand::Vector(all) => {
                let parts = all.iter().map(|one| self.part(one, names));
                of(parts.flat_map(|part| part.nodes).collect())
            }
        }
    }
}
