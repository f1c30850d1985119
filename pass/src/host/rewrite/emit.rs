//! Emit: expressions as instructions.
use std::cell::RefCell;

use inkwell::IntPredicate;
use inkwell::builder::{Builder, BuilderError};
use inkwell::llvm_sys::core::{LLVMInsertIntoBuilder, LLVMInstructionClone, LLVMSetOperand};
use inkwell::llvm_sys::{LLVMIntPredicate as Predicate, LLVMOpcode};
use inkwell::module::Module;
use inkwell::types::IntType;
use inkwell::values::{AnyValueEnum, AsValueRef, InstructionValue, IntValue};

use crate::host::ir::Value;
use crate::host::ir::expr::{BinaryOp, Expr};
use crate::host::ir::helpers;

/// Puts instructions where the builder stands.
pub struct Emitter<'a, 'ctx> {
    module: &'a Module<'ctx>,
    builder: &'a Builder<'ctx>,
    /// What was computed already, at this same place.
    done: RefCell<Vec<(Expr, Value)>>,
}

impl<'a, 'ctx> Emitter<'a, 'ctx> {
    /// Puts them where the builder stands, and is not to be used once that has moved.
    pub fn new(module: &'a Module<'ctx>, builder: &'a Builder<'ctx>) -> Self {
        Self {
            module,
            builder,
            done: RefCell::default(),
        }
    }

    /// Computes an integer expression.
    pub fn integer(&self, expression: &Expr) -> Result<IntValue<'ctx>, BuilderError> {
        let value = self.once(expression)?;
        // SAFETY: `any` gave a live value, of the expression's type: an integer.
        Ok(unsafe { IntValue::new(value.raw()) })
    }

    /// The integer type of so many bits.
    pub fn bits(&self, width: u32) -> IntType<'ctx> {
        let width = std::num::NonZeroU32::new(width).expect("integers have bits");
        self.module
            .get_context()
            .custom_width_int_type(width)
            .expect("expressions have at most 64 bits")
    }

    fn once(&self, expression: &Expr) -> Result<Value, BuilderError> {
        let done = self
            .done
            .borrow()
            .iter()
            .find(|(one, _)| one == expression)
            .map(|&(_, value)| value);
        if let Some(value) = done {
            return Ok(value);
        }
        let value = self.any(expression)?;
        self.done.borrow_mut().push((expression.clone(), value));
        Ok(value)
    }

    fn any(&self, expression: &Expr) -> Result<Value, BuilderError> {
        let builder = self.builder;
        let value = match expression {
            Expr::Constant(width, value) => self.bits(*width).const_int(*value, false),
            Expr::Leaf(value) => return Ok(*value),
            Expr::ZExt(width, inner) => {
                builder.build_int_z_extend(self.integer(inner)?, self.bits(*width), "mgb")?
            }
            Expr::SExt(width, inner) => {
                builder.build_int_s_extend(self.integer(inner)?, self.bits(*width), "mgb")?
            }
            Expr::Trunc(width, inner) => {
                builder.build_int_truncate(self.integer(inner)?, self.bits(*width), "mgb")?
            }
            Expr::Select(predicate, parts) => {
                let [left, right, yes, no] = [0, 1, 2, 3].map(|at| self.integer(&parts[at]));
                let test = builder.build_int_compare(predicate_of(*predicate), left?, right?, "mgb")?;
                builder.build_select(test, yes?, no?, "mgb")?.into_int_value()
            }
            Expr::Binary(op, a, b) => self.binary(*op, self.integer(a)?, self.integer(b)?)?,
            Expr::Repeat(value, parts) => return self.repeat(*value, parts),
        };
        Ok(Value::from_raw(value.as_value_ref()).expect("the builder gives values"))
    }

    fn binary(
        &self,
        op: BinaryOp,
        a: IntValue<'ctx>,
        b: IntValue<'ctx>,
    ) -> Result<IntValue<'ctx>, BuilderError> {
        let builder = self.builder;
        match op {
            BinaryOp::Add => builder.build_int_add(a, b, "mgb"),
            BinaryOp::Sub => builder.build_int_sub(a, b, "mgb"),
            BinaryOp::Mul => builder.build_int_mul(a, b, "mgb"),
            BinaryOp::UDiv => builder.build_int_unsigned_div(a, b, "mgb"),
            BinaryOp::SDiv => builder.build_int_signed_div(a, b, "mgb"),
            BinaryOp::URem => builder.build_int_unsigned_rem(a, b, "mgb"),
            BinaryOp::SRem => builder.build_int_signed_rem(a, b, "mgb"),
            BinaryOp::Shl => builder.build_left_shift(a, b, "mgb"),
            BinaryOp::LShr => builder.build_right_shift(a, b, false, "mgb"),
            BinaryOp::AShr => builder.build_right_shift(a, b, true, "mgb"),
            BinaryOp::And => builder.build_and(a, b, "mgb"),
            BinaryOp::Or => builder.build_or(a, b, "mgb"),
            BinaryOp::Xor => builder.build_xor(a, b, "mgb"),
            BinaryOp::UMax => self.larger(IntPredicate::UGT, a, b),
            BinaryOp::UMin => self.larger(IntPredicate::ULT, a, b),
            BinaryOp::SMax => self.larger(IntPredicate::SGT, a, b),
            BinaryOp::SMin => self.larger(IntPredicate::SLT, a, b),
            BinaryOp::AddSat => {
                let sum = builder.build_int_add(a, b, "mgb")?;
                let wrapped = builder.build_int_compare(IntPredicate::ULT, sum, a, "mgb")?;
                let most = a.get_type().const_all_ones();
                Ok(builder.build_select(wrapped, most, sum, "mgb")?.into_int_value())
            }
        }
    }

    fn larger(
        &self,
        predicate: IntPredicate,
        a: IntValue<'ctx>,
        b: IntValue<'ctx>,
    ) -> Result<IntValue<'ctx>, BuilderError> {
        let test = self.builder.build_int_compare(predicate, a, b, "mgb")?;
        Ok(self.builder.build_select(test, a, b, "mgb")?.into_int_value())
    }

    fn repeat(&self, instruction: Value, parts: &[Expr]) -> Result<Value, BuilderError> {
        let operands = parts
            .iter()
            .map(|part| self.any(part))
            .collect::<Result<Vec<_>, _>>()?;
        // SAFETY: a live instruction without side effects; its clone gets operands of the same types,
        // all defined where the builder stands, and is put there before anything reads it.
        let clone = unsafe {
            let clone = LLVMInstructionClone(instruction.raw());
            for (at, operand) in operands.iter().enumerate() {
                LLVMSetOperand(clone, at as u32, operand.raw());
            }
            LLVMInsertIntoBuilder(self.builder.as_mut_ptr(), clone);
            clone
        };
        let clone = Value::from_raw(clone).expect("a clone is an instruction");
        if clone.is(LLVMOpcode::LLVMLoad) {
            helpers::drop_promises(clone);
        }
        Ok(clone)
    }
}

fn predicate_of(predicate: Predicate) -> IntPredicate {
    match predicate {
        Predicate::LLVMIntEQ => IntPredicate::EQ,
        Predicate::LLVMIntNE => IntPredicate::NE,
        Predicate::LLVMIntUGT => IntPredicate::UGT,
        Predicate::LLVMIntUGE => IntPredicate::UGE,
        Predicate::LLVMIntULT => IntPredicate::ULT,
        Predicate::LLVMIntULE => IntPredicate::ULE,
        Predicate::LLVMIntSGT => IntPredicate::SGT,
        Predicate::LLVMIntSGE => IntPredicate::SGE,
        Predicate::LLVMIntSLT => IntPredicate::SLT,
        Predicate::LLVMIntSLE => IntPredicate::SLE,
    }
}

/// An instruction as an inkwell value.
pub fn instruction<'ctx>(value: Value) -> InstructionValue<'ctx> {
    debug_assert!(value.is_instruction());
    // SAFETY: a live instruction of the module being rewritten.
    unsafe { InstructionValue::new(value.raw()) }
}

/// An inkwell value as a value of the analyses.
pub fn handle<'ctx>(value: impl Into<AnyValueEnum<'ctx>>) -> Value {
    Value::from_raw(value.into().as_value_ref()).expect("inkwell's values are not null")
}
