//! Formulas: expressions as people write them.
use std::cell::RefCell;
use std::collections::HashMap;

use inkwell::llvm_sys::LLVMIntPredicate as Predicate;
use inkwell::llvm_sys::LLVMOpcode;

use crate::host::ir::Value;
use crate::host::ir::expr::{BinaryOp, Expr};
use crate::host::ir::helpers;
use crate::host::ir::memory;
use crate::host::ir::names::ValueNames;
use crate::host::needs::bounds;

/// The most characters before a formula is cut to what it is made of.
const LONG: usize = 400;

/// How tightly a formula's outermost operator binds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Binds {
    Choice,
    Bits,
    Sum,
    /// Rounds: `a * (b / c)` is not `a * b / c`.
    Quotient,
    Product,
    Atom,
}

/// Writes the formulas of one function. Different values get different names.
pub struct Writer<'a> {
    names: &'a ValueNames,
    given: RefCell<HashMap<Value, String>>,
}

impl<'a> Writer<'a> {
    /// With the names of the module.
    pub fn new(names: &'a ValueNames) -> Self {
        Self {
            names,
            given: RefCell::default(),
        }
    }

    /// The variable that a value went to.
    pub fn name(&self, value: Value) -> Option<String> {
        self.names.of(value)
    }

    /// The formula of an expression.
    pub fn write(&self, expression: &Expr) -> String {
        let text = self.bound(expression).0;
        if text.len() <= LONG {
            return text;
        }
        let mut values = Vec::new();
        expression.leaves(&mut |value| {
            let name = self.leaf(value);
            if !values.contains(&name) {
                values.push(name);
            }
        });
        format!("a value computed from {}", values.join(", "))
    }

    fn bound(&self, expression: &Expr) -> (String, Binds) {
        if let Some(size) = bounds::behind_possible(expression) {
            return self.bound(size);
        }
        match expression {
            Expr::Constant(width, value) => (constant(*width, *value), Binds::Atom),
            Expr::Leaf(value) => (self.leaf(*value), Binds::Atom),
            // Widths are the machine's business.
            Expr::ZExt(_, inner) | Expr::SExt(_, inner) | Expr::Trunc(_, inner) => self.bound(inner),
            Expr::Select(predicate, parts) => self.select(*predicate, parts),
            Expr::Repeat(value, parts) => self.repeat(*value, parts),
            Expr::Binary(op, a, b) => self.binary(*op, a, b, expression),
        }
    }

    fn at_least(&self, expression: &Expr, binds: Binds) -> String {
        let (text, own) = self.bound(expression);
        if own < binds { format!("({text})") } else { text }
    }

    fn binary(&self, op: BinaryOp, a: &Expr, b: &Expr, whole: &Expr) -> (String, Binds) {
        let infix = |sign: &str, binds: Binds, right: Binds| {
            (
                format!("{} {sign} {}", self.at_least(a, binds), self.at_least(b, right)),
                binds,
            )
        };
        match (op, b) {
            (BinaryOp::AddSat, _) => self.sum(whole),
            (BinaryOp::UMin, Expr::Constant(_, 65535)) => self.bound(a), // the bound for a grid's y and z
            (BinaryOp::UMax | BinaryOp::SMax, _) => (self.extreme("max", op, whole), Binds::Atom),
            (BinaryOp::UMin | BinaryOp::SMin, _) => (self.extreme("min", op, whole), Binds::Atom),
            (BinaryOp::Add, &Expr::Constant(width, value)) if value >> (width - 1) == 1 => {
                let less = Expr::Constant(width, value.wrapping_neg() & (u64::MAX >> (64 - width)));
                (
                    format!("{} - {}", self.at_least(a, Binds::Sum), self.bound(&less).0),
                    Binds::Sum,
                )
            }
            (BinaryOp::Add, _) => infix("+", Binds::Sum, Binds::Sum),
            (BinaryOp::Sub, _) => infix("-", Binds::Sum, Binds::Quotient),
            (BinaryOp::Shl, &Expr::Constant(_, by)) if by < 63 => self.product(&Expr::number(1 << by), a),
            (BinaryOp::Mul, Expr::Constant(..)) => self.product(b, a),
            (BinaryOp::Mul, _) => self.product(a, b),
            (BinaryOp::LShr | BinaryOp::AShr, &Expr::Constant(_, by)) if by < 63 => (
                format!("{} / {}", self.at_least(a, Binds::Quotient), 1u64 << by),
                Binds::Quotient,
            ),
            (BinaryOp::UDiv | BinaryOp::SDiv, _) => infix("/", Binds::Quotient, Binds::Atom),
            (BinaryOp::URem | BinaryOp::SRem, _) => infix("%", Binds::Quotient, Binds::Atom),
            (BinaryOp::Shl, _) => infix("<<", Binds::Bits, Binds::Sum),
            (BinaryOp::LShr | BinaryOp::AShr, _) => infix(">>", Binds::Bits, Binds::Sum),
            (BinaryOp::And, &Expr::Constant(width, mask)) if rounds_to(width, mask).is_some() => {
                let whole = rounds_to(width, mask).unwrap_or(1);
                (
                    format!("{} / {whole} * {whole}", self.at_least(a, Binds::Quotient)),
                    Binds::Quotient,
                )
            }
            (BinaryOp::And, _) => infix("&", Binds::Bits, Binds::Sum),
            (BinaryOp::Or, _) => infix("|", Binds::Bits, Binds::Sum),
            (BinaryOp::Xor, _) => infix("^", Binds::Bits, Binds::Sum),
        }
    }

    fn product(&self, a: &Expr, b: &Expr) -> (String, Binds) {
        (
            format!(
                "{} * {}",
                self.at_least(a, Binds::Product),
                self.at_least(b, Binds::Product)
            ),
            Binds::Product,
        )
    }

    /// A sum, with equal terms counted.
    fn sum(&self, whole: &Expr) -> (String, Binds) {
        let mut counted: Vec<(&Expr, usize)> = Vec::new();
        for term in chain(BinaryOp::AddSat, whole) {
            match counted.iter_mut().find(|(one, _)| *one == term) {
                Some((_, count)) => *count += 1,
                None => counted.push((term, 1)),
            }
        }
        let single = counted.len() == 1;
        let terms = counted.into_iter().map(|(term, count)| match count {
            1 => self.at_least(term, Binds::Sum),
            _ => format!("{count} * {}", self.at_least(term, Binds::Atom)),
        });
        (
            terms.collect::<Vec<_>>().join(" + "),
            if single { Binds::Product } else { Binds::Sum },
        )
    }

    fn extreme(&self, name: &str, op: BinaryOp, whole: &Expr) -> String {
        let parts: Vec<String> = chain(op, whole)
            .into_iter()
            .map(|part| self.bound(part).0)
            .collect();
        format!("{name}({})", parts.join(", "))
    }

    fn select(&self, predicate: Predicate, parts: &[Expr; 4]) -> (String, Binds) {
        let [left, right, yes, no] = parts;
        let (sign, smaller) = match predicate {
            Predicate::LLVMIntULT | Predicate::LLVMIntULE | Predicate::LLVMIntSLT | Predicate::LLVMIntSLE => {
                ("<", true)
            }
            Predicate::LLVMIntUGT | Predicate::LLVMIntUGE | Predicate::LLVMIntSGT | Predicate::LLVMIntSGE => {
                (">", false)
            }
            Predicate::LLVMIntEQ => ("==", false),
            Predicate::LLVMIntNE => ("!=", false),
        };
        let ordered = matches!(sign, "<" | ">");
        let inclusive = matches!(
            predicate,
            Predicate::LLVMIntULE | Predicate::LLVMIntSLE | Predicate::LLVMIntUGE | Predicate::LLVMIntSGE
        );
        if ordered && ((left, right) == (yes, no) || (left, right) == (no, yes)) {
            let name = if smaller == (left == yes) { "min" } else { "max" };
            return (
                format!("{name}({}, {})", self.bound(left).0, self.bound(right).0),
                Binds::Atom,
            );
        }
        let equal = if inclusive { "=" } else { "" };
        let [left, right, yes, no] = [left, right, yes, no].map(|part| self.at_least(part, Binds::Bits));
        (
            format!("{left} {sign}{equal} {right} ? {yes} : {no}"),
            Binds::Choice,
        )
    }

    fn repeat(&self, value: Value, parts: &[Expr]) -> (String, Binds) {
        let sign = match value.opcode() {
            Some(LLVMOpcode::LLVMFAdd) => ("+", Binds::Sum),
            Some(LLVMOpcode::LLVMFSub) => ("-", Binds::Sum),
            Some(LLVMOpcode::LLVMFMul) => ("*", Binds::Product),
            Some(LLVMOpcode::LLVMFDiv) => ("/", Binds::Quotient),
            Some(LLVMOpcode::LLVMFNeg) => {
                return (
                    format!("-{}", self.at_least(&parts[0], Binds::Atom)),
                    Binds::Product,
                );
            }
            Some(LLVMOpcode::LLVMCall) => {
                let name = value
                    .callee()
                    .map(|callee| plain(&callee.name()))
                    .unwrap_or_default();
                let parts: Vec<String> = parts.iter().map(|part| self.bound(part).0).collect();
                return (format!("{name}({})", parts.join(", ")), Binds::Atom);
            }
            Some(LLVMOpcode::LLVMLoad) => return (self.leaf(value), Binds::Atom),
            _ => return self.bound(&parts[0]),
        };
        let right = if matches!(sign.0, "-" | "/") {
            Binds::Atom
        } else {
            sign.1
        };
        (
            format!(
                "{} {} {}",
                self.at_least(&parts[0], sign.1),
                sign.0,
                self.at_least(&parts[1], right)
            ),
            sign.1,
        )
    }

    /// The name of a value: its variable's, else what it comes from.
    fn leaf(&self, value: Value) -> String {
        if let Some(name) = self.given.borrow().get(&value) {
            return name.clone();
        }
        let wanted = self.names.of(value).unwrap_or_else(|| self.origin(value));
        let mut given = self.given.borrow_mut();
        let taken = |name: &String| given.values().any(|other| other == name);
        let name = match taken(&wanted) {
            false => wanted,
            true => (2..)
                .map(|at| format!("{wanted}#{at}"))
                .find(|name| !taken(name))
                .unwrap_or(wanted),
        };
        given.insert(value, name.clone());
        name
    }

    fn origin(&self, value: Value) -> String {
        if value.is_argument() {
            let function = value.parameter_of();
            let number = function.parameters().position(|one| one == value).unwrap_or(0);
            return format!("arg{}", number + 1);
        }
        if let Some(real) = value.real() {
            return format!("{real}");
        }
        match value.opcode() {
            Some(LLVMOpcode::LLVMCall | LLVMOpcode::LLVMInvoke) => {
                let callee = value.callee().map(|callee| plain(&callee.name()));
                format!("{}()", callee.unwrap_or_else(|| "call".to_owned()))
            }
            Some(LLVMOpcode::LLVMLoad) => {
                let (base, offset) = memory::address(value.operand(0));
                match self.names.of(base) {
                    _ if base.is_global() => plain(&base.name()),
                    Some(name) if offset == Some(0) && base.is(LLVMOpcode::LLVMAlloca) => name,
                    Some(name) if offset == Some(0) => format!("*{name}"),
                    Some(name) => format!("{name}[...]"),
                    None => at_line("loaded", value),
                }
            }
            Some(LLVMOpcode::LLVMPHI) => {
                // One thing, or a default: named by the thing.
                let mut values = value.incoming().filter(|one| !one.is_constant());
                match (values.next(), values.next()) {
                    (Some(one), None) if !one.is(LLVMOpcode::LLVMPHI) => {
                        self.names.of(one).unwrap_or_else(|| self.origin(one))
                    }
                    _ => at_line("value", value),
                }
            }
            _ => at_line("value", value),
        }
    }
}

fn at_line(what: &str, value: Value) -> String {
    let line = Some(value)
        .filter(|value| value.is_instruction())
        .and_then(helpers::line);
    line.map_or(what.to_owned(), |line| format!("{what}@{line}"))
}

/// A function's or global's name without its parameters, what it returns, and the arguments of templates.
fn plain(symbol: &str) -> String {
    let name = helpers::demangle(symbol);
    // llvm.ceil.f64 is ceil.
    if let Some(intrinsic) = name.strip_prefix("llvm.") {
        return intrinsic.split('.').next().unwrap_or(intrinsic).to_owned();
    }
    if name.contains("operator") || name.starts_with('(') {
        return name.split('(').next().unwrap_or(&name).to_owned();
    }
    let mut depth = 0;
    let short: String = name
        .chars()
        .take_while(|&c| c != '(')
        .filter(|&c| {
            depth += i32::from(c == '<');
            let outside = depth == 0;
            depth -= i32::from(c == '>');
            outside
        })
        .collect();
    short.rsplit(' ').next().unwrap_or(&short).to_owned()
}

fn constant(width: u32, value: u64) -> String {
    // Only small negatives are meant as such.
    let signed = ((value << (64 - width)) as i64) >> (64 - width);
    if (-65536..0).contains(&signed) {
        signed.to_string()
    } else {
        value.to_string()
    }
}

/// The power of two to whose multiples a mask rounds down: -512 to those of 512.
fn rounds_to(width: u32, mask: u64) -> Option<u64> {
    let all = u64::MAX >> (64 - width);
    let unit = mask.wrapping_neg() & all;
    (mask & all != 0 && unit.is_power_of_two()).then_some(unit)
}

/// The operands of a chain of one associative operation.
fn chain(op: BinaryOp, expression: &Expr) -> Vec<&Expr> {
    match expression {
        Expr::Binary(own, a, b) if *own == op => {
            let mut all = chain(op, a);
            all.extend(chain(op, b));
            all
        }
        _ => vec![expression],
    }
}
