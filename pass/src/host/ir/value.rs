//! LLVM IR through small copyable handles, so that the analyses read like what they mean.
//!
//! A handle is only made from a live module's IR ([`Value::from_raw`] and what it leads to) and is
//! used while that IR lives: `prepare` erases instructions, but keeps no handle across; the
//! analyses only read; `rewrite` only inserts. Under that rule every call below is sound.
use std::collections::HashSet;
use std::ffi::c_uint;

use inkwell::llvm_sys::LLVMOpcode;
use inkwell::llvm_sys::core::*;
use inkwell::llvm_sys::prelude::*;
use inkwell::llvm_sys::{LLVMAtomicOrdering, LLVMIntPredicate, LLVMLinkage, LLVMTypeKind};

/// Calls LLVM's C API.
macro_rules! c_api {
    ($call:expr) => {
        // SAFETY: the handles are of live IR, and of the kind the call asks for (head of this file).
        unsafe { $call }
    };
}

/// Any value: instruction, argument, global, constant.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Value(LLVMValueRef);

/// A basic block.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct BasicBlock(LLVMBasicBlockRef);

/// A type of LLVM's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Type(pub LLVMTypeRef);

/// Iterates over a linked list of LLVM.
fn list<T: Copy>(first: Option<T>, next: impl Fn(T) -> Option<T>) -> impl Iterator<Item = T> {
    std::iter::successors(first, move |&element| next(element))
}

impl Value {
    /// A handle for LLVM's pointer; none for null.
    pub fn from_raw(raw: LLVMValueRef) -> Option<Self> {
        (!raw.is_null()).then_some(Self(raw))
    }

    /// The pointer that LLVM's C API has for the value.
    pub fn raw(self) -> LLVMValueRef {
        self.0
    }

    /// Its name; empty when it has none.
    pub fn name(self) -> String {
        let mut length = 0;
        let name = c_api!(LLVMGetValueName2(self.0, &mut length));
        if name.is_null() || length == 0 {
            return String::new();
        }
        // SAFETY: LLVM gave the address and length of the name, which lives as long as the value.
        let bytes = unsafe { std::slice::from_raw_parts(name.cast::<u8>(), length) };
        String::from_utf8_lossy(bytes).into_owned()
    }

    /// Gives it a name.
    pub fn set_name(self, name: &str) {
        c_api!(LLVMSetValueName2(self.0, name.as_ptr().cast(), name.len()));
    }

    /// The type of the value.
    pub fn ty(self) -> Type {
        Type(c_api!(LLVMTypeOf(self.0)))
    }

    /// What instruction it is; none for anything else.
    pub fn opcode(self) -> Option<LLVMOpcode> {
        self.is_instruction()
            .then(|| c_api!(LLVMGetInstructionOpcode(self.0)))
    }

    /// Whether it is this instruction.
    pub fn is(self, opcode: LLVMOpcode) -> bool {
        self.opcode() == Some(opcode)
    }

    /// Whether it is an instruction.
    pub fn is_instruction(self) -> bool {
        !c_api!(LLVMIsAInstruction(self.0)).is_null()
    }

    /// The module of a function.
    pub fn module(self) -> LLVMModuleRef {
        c_api!(LLVMGetGlobalParent(self.0))
    }

    /// Whether it is a function.
    pub fn is_function(self) -> bool {
        !c_api!(LLVMIsAFunction(self.0)).is_null()
    }

    /// Whether it is a parameter of a function.
    pub fn is_argument(self) -> bool {
        !c_api!(LLVMIsAArgument(self.0)).is_null()
    }

    /// Whether it is a global: variable, function or alias.
    pub fn is_global(self) -> bool {
        !c_api!(LLVMIsAGlobalValue(self.0)).is_null()
    }

    /// Whether it is a global variable that has a place in memory.
    pub fn is_variable(self) -> bool {
        !c_api!(LLVMIsAGlobalVariable(self.0)).is_null()
            && self.linkage() != LLVMLinkage::LLVMExternalWeakLinkage
    }

    /// Whether a load is volatile or atomic: what it reads may change without the function doing anything.
    pub fn is_volatile_or_atomic(self) -> bool {
        c_api!(LLVMGetVolatile(self.0)) != 0
            || c_api!(LLVMGetOrdering(self.0)) != LLVMAtomicOrdering::LLVMAtomicOrderingNotAtomic
    }

    /// Whether it is a constant, globals included.
    pub fn is_constant(self) -> bool {
        c_api!(LLVMIsConstant(self.0)) != 0
    }

    /// Whether it is zero, a null pointer, undef or poison.
    pub fn is_null_or_undef(self) -> bool {
        c_api!(LLVMIsNull(self.0)) != 0
            || c_api!(LLVMIsUndef(self.0)) != 0
            || c_api!(LLVMIsPoison(self.0)) != 0
    }

    /// Whether it is zero or a null pointer.
    pub fn is_null(self) -> bool {
        c_api!(LLVMIsNull(self.0)) != 0
    }

    /// The value of an integer constant of at most 64 bits, zero-extended.
    pub fn constant(self) -> Option<u64> {
        let fits = self.ty().int_width().is_some_and(|width| width <= 64);
        let constant = fits && !c_api!(LLVMIsAConstantInt(self.0)).is_null();
        constant.then(|| c_api!(LLVMConstIntGetZExtValue(self.0)))
    }

    /// The value of a floating-point constant.
    pub fn real(self) -> Option<f64> {
        let mut loses = 0;
        let constant = !c_api!(LLVMIsAConstantFP(self.0)).is_null();
        constant.then(|| c_api!(LLVMConstRealGetDouble(self.0, &mut loses)))
    }

    /// The function of a parameter.
    pub fn parameter_of(self) -> Value {
        Self(c_api!(LLVMGetParamParent(self.0)))
    }

    /// Its operands; a call's last is the callee.
    pub fn operands(self) -> impl Iterator<Item = Value> {
        let count = c_api!(LLVMGetNumOperands(self.0)).max(0) as c_uint;
        (0..count).filter_map(move |at| Self::from_raw(c_api!(LLVMGetOperand(self.0, at))))
    }

    /// The operand of the instruction at index `at`.
    pub fn operand(self, at: u32) -> Value {
        Self(c_api!(LLVMGetOperand(self.0, at)))
    }

    /// What uses it, each user once.
    pub fn users(self) -> Vec<Value> {
        let first = c_api!(LLVMGetFirstUse(self.0));
        let uses = list((!first.is_null()).then_some(first), |at| {
            let next = c_api!(LLVMGetNextUse(at));
            (!next.is_null()).then_some(next)
        });
        // In the order of LLVM's list: pointers differ from run to run.
        let mut seen = HashSet::new();
        uses.filter_map(|at| Self::from_raw(c_api!(LLVMGetUser(at))))
            .filter(|&user| seen.insert(user))
            .collect()
    }

    /// Whether anything uses it.
    pub fn has_uses(self) -> bool {
        !c_api!(LLVMGetFirstUse(self.0)).is_null()
    }

    /// Whether it is a variable that nothing may write.
    pub fn is_constant_variable(self) -> bool {
        self.is_variable() && c_api!(LLVMIsGlobalConstant(self.0)) != 0
    }

    /// Whether it is a call or an invoke (`callbr` counts as neither).
    pub fn is_call(self) -> bool {
        matches!(self.opcode(), Some(LLVMOpcode::LLVMCall | LLVMOpcode::LLVMInvoke))
    }

    /// The function that a call or invoke names; none for calls through pointers.
    pub fn callee(self) -> Option<Value> {
        if !self.is_call() {
            return None;
        }
        Self::from_raw(c_api!(LLVMGetCalledValue(self.0))).filter(|callee| callee.is_function())
    }

    /// Whether it is a debug, lifetime or assumption intrinsic: it describes other values and does nothing
    /// itself.
    pub fn is_marker(self) -> bool {
        let markers = ["llvm.lifetime.", "llvm.dbg.", "llvm.invariant.", "llvm.assume"];
        let name = self
            .callee()
            .filter(|_| self.is(LLVMOpcode::LLVMCall))
            .map(Value::name);
        name.is_some_and(|name| markers.iter().any(|one| name.starts_with(one)))
    }

    /// How many arguments a call has.
    pub fn argument_count(self) -> u32 {
        c_api!(LLVMGetNumArgOperands(self.0))
    }

    /// The arguments of a call.
    pub fn arguments(self) -> impl Iterator<Item = Value> {
        (0..self.argument_count()).map(move |at| self.operand(at))
    }

    /// The incoming values of a phi.
    pub fn incoming(self) -> impl Iterator<Item = Value> {
        (0..c_api!(LLVMCountIncoming(self.0))).map(move |at| Self(c_api!(LLVMGetIncomingValue(self.0, at))))
    }

    /// The incoming values of a phi, with the blocks they come from.
    pub fn incoming_from(self) -> impl Iterator<Item = (Value, BasicBlock)> {
        let from = move |at| BasicBlock::from_raw(c_api!(LLVMGetIncomingBlock(self.0, at)));
        self.incoming().zip((0..).filter_map(from))
    }

    /// The predicate of an integer comparison.
    pub fn predicate(self) -> LLVMIntPredicate {
        c_api!(LLVMGetICmpPredicate(self.0))
    }

    /// The type an alloca makes room for.
    pub fn allocated_type(self) -> Type {
        Type(c_api!(LLVMGetAllocatedType(self.0)))
    }

    /// The block an instruction stands in.
    pub fn block(self) -> BasicBlock {
        BasicBlock(c_api!(LLVMGetInstructionParent(self.0)))
    }

    /// The instruction after it.
    pub fn next(self) -> Option<Value> {
        Self::from_raw(c_api!(LLVMGetNextInstruction(self.0)))
    }

    /// The block that an invoke continues in if nothing is thrown.
    pub fn normal_successor(self) -> BasicBlock {
        BasicBlock(c_api!(LLVMGetNormalDest(self.0)))
    }

    /// Whether a function has no body here.
    pub fn is_declaration(self) -> bool {
        c_api!(LLVMIsDeclaration(self.0)) != 0
    }

    /// Whether a global variable has a definition here that leaves its value undefined.
    pub fn is_undefined_variable(self) -> bool {
        let initializer = c_api!(LLVMGetInitializer(self.0));
        !initializer.is_null() && c_api!(LLVMIsUndef(initializer)) != 0
    }

    /// Whether a global variable is there once for the process, and zero when it starts.
    pub fn starts_as_zero(self) -> bool {
        let initializer = Self::from_raw(c_api!(LLVMGetInitializer(self.0)));
        initializer.is_some_and(Value::is_null)
            && c_api!(LLVMIsThreadLocal(self.0)) == 0
            && c_api!(LLVMIsExternallyInitialized(self.0)) == 0
    }

    /// The section that a global is to be in; empty where the target chooses.
    pub fn section(self) -> String {
        let name = c_api!(LLVMGetSection(self.0));
        if name.is_null() {
            return String::new();
        }
        // SAFETY: LLVM gave a C string, which lives as long as the global.
        let name = unsafe { std::ffi::CStr::from_ptr(name) };
        name.to_string_lossy().into_owned()
    }

    /// The bytes of a global string constant, with its zero byte.
    pub fn text(self) -> Option<Vec<u8>> {
        if c_api!(LLVMIsAGlobalVariable(self.0)).is_null() {
            return None;
        }
        let initializer = c_api!(LLVMGetInitializer(self.0));
        if initializer.is_null() || c_api!(LLVMIsAConstantDataSequential(initializer)).is_null() {
            return None;
        }
        if c_api!(LLVMIsConstantString(initializer)) == 0 {
            return None;
        }
        let mut length = 0;
        // SAFETY: LLVM gives the address and length of bytes that live as long as the constant.
        let bytes = unsafe {
            let start = LLVMGetAsString(initializer, &mut length);
            std::slice::from_raw_parts(start.cast::<u8>(), length)
        };
        Some(bytes.to_vec())
    }

    /// How the linker sees a global.
    pub fn linkage(self) -> LLVMLinkage {
        c_api!(LLVMGetLinkage(self.0))
    }

    /// The blocks of a function, its entry first.
    pub fn blocks(self) -> impl Iterator<Item = BasicBlock> {
        let first = BasicBlock::from_raw(c_api!(LLVMGetFirstBasicBlock(self.0)));
        list(first, |block| {
            BasicBlock::from_raw(c_api!(LLVMGetNextBasicBlock(block.0)))
        })
    }

    /// The instructions of a function, in the order they stand.
    pub fn instructions(self) -> impl Iterator<Item = Value> {
        self.blocks().flat_map(BasicBlock::instructions)
    }

    /// The parameters of a function.
    pub fn parameters(self) -> impl Iterator<Item = Value> {
        (0..c_api!(LLVMCountParams(self.0))).map(move |at| Self(c_api!(LLVMGetParam(self.0, at))))
    }
}

impl BasicBlock {
    /// A handle for LLVM's pointer; none for null.
    pub fn from_raw(raw: LLVMBasicBlockRef) -> Option<Self> {
        (!raw.is_null()).then_some(Self(raw))
    }

    /// The pointer that LLVM's C API has for the block.
    pub fn raw(self) -> LLVMBasicBlockRef {
        self.0
    }

    /// The function it is part of.
    pub fn function(self) -> Value {
        Value(c_api!(LLVMGetBasicBlockParent(self.0)))
    }

    /// The instructions of the block, in order.
    pub fn instructions(self) -> impl Iterator<Item = Value> {
        list(
            Value::from_raw(c_api!(LLVMGetFirstInstruction(self.0))),
            Value::next,
        )
    }

    /// Its last instruction.
    pub fn terminator(self) -> Option<Value> {
        Value::from_raw(c_api!(LLVMGetBasicBlockTerminator(self.0)))
    }

    /// The blocks its terminator may go to; one that is named twice is here twice.
    pub fn successors(self) -> Vec<BasicBlock> {
        let Some(terminator) = self.terminator() else {
            return Vec::new();
        };
        let count = c_api!(LLVMGetNumSuccessors(terminator.0));
        (0..count)
            .map(|at| BasicBlock(c_api!(LLVMGetSuccessor(terminator.0, at))))
            .collect()
    }

    /// The first place where an ordinary instruction may stand; none in blocks that allow none.
    pub fn first_insertion_point(self) -> Option<Value> {
        let past_head = |at: &Value| {
            !matches!(
                at.opcode(),
                Some(LLVMOpcode::LLVMPHI | LLVMOpcode::LLVMLandingPad)
            )
        };
        let first = self.instructions().find(past_head)?;
        let funclet = matches!(
            first.opcode(),
            Some(LLVMOpcode::LLVMCatchSwitch | LLVMOpcode::LLVMCatchPad | LLVMOpcode::LLVMCleanupPad)
        );
        (!funclet).then_some(first)
    }
}

impl Type {
    /// What kind of type it is.
    pub fn kind(self) -> LLVMTypeKind {
        c_api!(LLVMGetTypeKind(self.0))
    }

    /// Whether it is a pointer.
    pub fn is_pointer(self) -> bool {
        self.kind() == LLVMTypeKind::LLVMPointerTypeKind
    }

    /// The bits of an integer; none for other types.
    pub fn int_width(self) -> Option<u32> {
        (self.kind() == LLVMTypeKind::LLVMIntegerTypeKind).then(|| c_api!(LLVMGetIntTypeWidth(self.0)))
    }

    /// Whether a value of this type may hold a pointer.
    pub fn holds_pointer(self) -> bool {
        self.pointers() > 0
    }

    /// How many pointers it holds.
    pub fn pointers(self) -> u64 {
        let elements = |count: u64| count.saturating_mul(Type(c_api!(LLVMGetElementType(self.0))).pointers());
        match self.kind() {
            LLVMTypeKind::LLVMPointerTypeKind => 1,
            LLVMTypeKind::LLVMStructTypeKind => (0..c_api!(LLVMCountStructElementTypes(self.0)))
                .map(|at| Type(c_api!(LLVMStructGetTypeAtIndex(self.0, at))).pointers())
                .fold(0, u64::saturating_add),
            LLVMTypeKind::LLVMArrayTypeKind => elements(c_api!(LLVMGetArrayLength2(self.0))),
            LLVMTypeKind::LLVMVectorTypeKind => elements(u64::from(c_api!(LLVMGetVectorSize(self.0)))),
            _ => 0,
        }
    }
}

/// The functions of a module.
pub fn functions(module: LLVMModuleRef) -> impl Iterator<Item = Value> {
    let first = Value::from_raw(c_api!(LLVMGetFirstFunction(module)));
    list(first, |at| Value::from_raw(c_api!(LLVMGetNextFunction(at.raw()))))
}

/// The global variables of a module.
pub fn globals(module: LLVMModuleRef) -> impl Iterator<Item = Value> {
    let first = Value::from_raw(c_api!(LLVMGetFirstGlobal(module)));
    list(first, |at| Value::from_raw(c_api!(LLVMGetNextGlobal(at.raw()))))
}
