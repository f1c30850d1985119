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

/// Calls LLVM.
macro_rules! llvm {
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
pub struct Block(LLVMBasicBlockRef);

/// A type.
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

    /// LLVM's pointer.
    pub fn raw(self) -> LLVMValueRef {
        self.0
    }

    /// Its name; empty when it has none.
    pub fn name(self) -> String {
        let mut length = 0;
        let name = llvm!(LLVMGetValueName2(self.0, &mut length));
        if name.is_null() || length == 0 {
            return String::new();
        }
        // SAFETY: LLVM gave the address and length of the name, which lives as long as the value.
        let bytes = unsafe { std::slice::from_raw_parts(name.cast::<u8>(), length) };
        String::from_utf8_lossy(bytes).into_owned()
    }

    /// Gives it a name.
    pub fn set_name(self, name: &str) {
        llvm!(LLVMSetValueName2(self.0, name.as_ptr().cast(), name.len()));
    }

    /// Its type.
    pub fn ty(self) -> Type {
        Type(llvm!(LLVMTypeOf(self.0)))
    }

    /// What instruction it is; none for anything else.
    pub fn opcode(self) -> Option<LLVMOpcode> {
        self.is_instruction()
            .then(|| llvm!(LLVMGetInstructionOpcode(self.0)))
    }

    /// Whether it is this instruction.
    pub fn is(self, opcode: LLVMOpcode) -> bool {
        self.opcode() == Some(opcode)
    }

    /// Whether it is an instruction.
    pub fn is_instruction(self) -> bool {
        !llvm!(LLVMIsAInstruction(self.0)).is_null()
    }

    /// Whether it is a function.
    pub fn is_function(self) -> bool {
        !llvm!(LLVMIsAFunction(self.0)).is_null()
    }

    /// Whether it is a parameter of a function.
    pub fn is_argument(self) -> bool {
        !llvm!(LLVMIsAArgument(self.0)).is_null()
    }

    /// Whether it is a global: variable, function or alias.
    pub fn is_global(self) -> bool {
        !llvm!(LLVMIsAGlobalValue(self.0)).is_null()
    }

    /// Whether it is a global variable that has a place in memory.
    pub fn is_variable(self) -> bool {
        !llvm!(LLVMIsAGlobalVariable(self.0)).is_null()
            && self.linkage() != LLVMLinkage::LLVMExternalWeakLinkage
    }

    /// Whether a load is volatile or atomic: what it reads may change without the function doing anything.
    pub fn is_volatile_or_atomic(self) -> bool {
        llvm!(LLVMGetVolatile(self.0)) != 0
            || llvm!(LLVMGetOrdering(self.0)) != LLVMAtomicOrdering::LLVMAtomicOrderingNotAtomic
    }

    /// Whether it is a constant, globals included.
    pub fn is_constant(self) -> bool {
        llvm!(LLVMIsConstant(self.0)) != 0
    }

    /// Whether it is zero, a null pointer, undef or poison.
    pub fn is_null_or_undef(self) -> bool {
        llvm!(LLVMIsNull(self.0)) != 0 || llvm!(LLVMIsUndef(self.0)) != 0 || llvm!(LLVMIsPoison(self.0)) != 0
    }

    /// Whether it is zero or a null pointer.
    pub fn is_null(self) -> bool {
        llvm!(LLVMIsNull(self.0)) != 0
    }

    /// The value of an integer constant of at most 64 bits, zero-extended.
    pub fn constant(self) -> Option<u64> {
        let fits = self.ty().int_width().is_some_and(|width| width <= 64);
        let constant = fits && !llvm!(LLVMIsAConstantInt(self.0)).is_null();
        constant.then(|| llvm!(LLVMConstIntGetZExtValue(self.0)))
    }

    /// The value of a floating-point constant.
    pub fn real(self) -> Option<f64> {
        let mut loses = 0;
        let constant = !llvm!(LLVMIsAConstantFP(self.0)).is_null();
        constant.then(|| llvm!(LLVMConstRealGetDouble(self.0, &mut loses)))
    }

    /// The function of a parameter.
    pub fn parameter_of(self) -> Value {
        Self(llvm!(LLVMGetParamParent(self.0)))
    }

    /// Its operands; a call's last is the callee.
    pub fn operands(self) -> impl Iterator<Item = Value> {
        let count = llvm!(LLVMGetNumOperands(self.0)).max(0) as c_uint;
        (0..count).filter_map(move |at| Self::from_raw(llvm!(LLVMGetOperand(self.0, at))))
    }

    /// One operand.
    pub fn operand(self, at: u32) -> Value {
        Self(llvm!(LLVMGetOperand(self.0, at)))
    }

    /// What uses it, each user once.
    pub fn users(self) -> Vec<Value> {
        let first = llvm!(LLVMGetFirstUse(self.0));
        let uses = list((!first.is_null()).then_some(first), |at| {
            let next = llvm!(LLVMGetNextUse(at));
            (!next.is_null()).then_some(next)
        });
        // In the order of LLVM's list: pointers differ from run to run.
        let mut seen = HashSet::new();
        uses.filter_map(|at| Self::from_raw(llvm!(LLVMGetUser(at))))
            .filter(|&user| seen.insert(user))
            .collect()
    }

    /// Whether anything uses it.
    pub fn has_uses(self) -> bool {
        !llvm!(LLVMGetFirstUse(self.0)).is_null()
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
        Self::from_raw(llvm!(LLVMGetCalledValue(self.0))).filter(|callee| callee.is_function())
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
        llvm!(LLVMGetNumArgOperands(self.0))
    }

    /// The arguments of a call.
    pub fn arguments(self) -> impl Iterator<Item = Value> {
        (0..self.argument_count()).map(move |at| self.operand(at))
    }

    /// The incoming values of a phi.
    pub fn incoming(self) -> impl Iterator<Item = Value> {
        (0..llvm!(LLVMCountIncoming(self.0))).map(move |at| Self(llvm!(LLVMGetIncomingValue(self.0, at))))
    }

    /// The incoming values of a phi, with the blocks they come from.
    pub fn incoming_from(self) -> impl Iterator<Item = (Value, Block)> {
        let from = move |at| Block::from_raw(llvm!(LLVMGetIncomingBlock(self.0, at)));
        self.incoming().zip((0..).filter_map(from))
    }

    /// The predicate of an integer comparison.
    pub fn predicate(self) -> LLVMIntPredicate {
        llvm!(LLVMGetICmpPredicate(self.0))
    }

    /// The type an alloca makes room for.
    pub fn allocated_type(self) -> Type {
        Type(llvm!(LLVMGetAllocatedType(self.0)))
    }

    /// The block an instruction stands in.
    pub fn block(self) -> Block {
        Block(llvm!(LLVMGetInstructionParent(self.0)))
    }

    /// The instruction after it.
    pub fn next(self) -> Option<Value> {
        Self::from_raw(llvm!(LLVMGetNextInstruction(self.0)))
    }

    /// The block that an invoke continues in if nothing is thrown.
    pub fn normal_successor(self) -> Block {
        Block(llvm!(LLVMGetNormalDest(self.0)))
    }

    /// Whether a function has no body here.
    pub fn is_declaration(self) -> bool {
        llvm!(LLVMIsDeclaration(self.0)) != 0
    }

    /// Whether a global variable has a definition here that leaves its value undefined.
    pub fn is_undefined_variable(self) -> bool {
        let initializer = llvm!(LLVMGetInitializer(self.0));
        !initializer.is_null() && llvm!(LLVMIsUndef(initializer)) != 0
    }

    /// Whether a global variable is there once for the process, and zero when it starts.
    pub fn starts_as_zero(self) -> bool {
        let initializer = Self::from_raw(llvm!(LLVMGetInitializer(self.0)));
        initializer.is_some_and(Value::is_null)
            && llvm!(LLVMIsThreadLocal(self.0)) == 0
            && llvm!(LLVMIsExternallyInitialized(self.0)) == 0
    }

    /// The section that a global is to be in; empty where the target chooses.
    pub fn section(self) -> String {
        let name = llvm!(LLVMGetSection(self.0));
        if name.is_null() {
            return String::new();
        }
        // SAFETY: LLVM gave a C string, which lives as long as the global.
        let name = unsafe { std::ffi::CStr::from_ptr(name) };
        name.to_string_lossy().into_owned()
    }

    /// The bytes of a global string constant, with its zero byte.
    pub fn text(self) -> Option<Vec<u8>> {
        if llvm!(LLVMIsAGlobalVariable(self.0)).is_null() {
            return None;
        }
        let initializer = llvm!(LLVMGetInitializer(self.0));
        if initializer.is_null() || llvm!(LLVMIsAConstantDataSequential(initializer)).is_null() {
            return None;
        }
        if llvm!(LLVMIsConstantString(initializer)) == 0 {
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
        llvm!(LLVMGetLinkage(self.0))
    }

    /// The blocks of a function, its entry first.
    pub fn blocks(self) -> impl Iterator<Item = Block> {
        let first = Block::from_raw(llvm!(LLVMGetFirstBasicBlock(self.0)));
        list(first, |block| {
            Block::from_raw(llvm!(LLVMGetNextBasicBlock(block.0)))
        })
    }

    /// The instructions of a function, in the order they stand.
    pub fn instructions(self) -> impl Iterator<Item = Value> {
        self.blocks().flat_map(Block::instructions)
    }

    /// The parameters of a function.
    pub fn parameters(self) -> impl Iterator<Item = Value> {
        (0..llvm!(LLVMCountParams(self.0))).map(move |at| Self(llvm!(LLVMGetParam(self.0, at))))
    }
}

impl Block {
    /// A handle for LLVM's pointer; none for null.
    pub fn from_raw(raw: LLVMBasicBlockRef) -> Option<Self> {
        (!raw.is_null()).then_some(Self(raw))
    }

    /// LLVM's pointer.
    pub fn raw(self) -> LLVMBasicBlockRef {
        self.0
    }

    /// The function it is part of.
    pub fn function(self) -> Value {
        Value(llvm!(LLVMGetBasicBlockParent(self.0)))
    }

    /// Its instructions.
    pub fn instructions(self) -> impl Iterator<Item = Value> {
        list(
            Value::from_raw(llvm!(LLVMGetFirstInstruction(self.0))),
            Value::next,
        )
    }

    /// Its last instruction.
    pub fn terminator(self) -> Option<Value> {
        Value::from_raw(llvm!(LLVMGetBasicBlockTerminator(self.0)))
    }

    /// The blocks its terminator may go to; one that is named twice is here twice.
    pub fn successors(self) -> Vec<Block> {
        let Some(terminator) = self.terminator() else {
            return Vec::new();
        };
        let count = llvm!(LLVMGetNumSuccessors(terminator.0));
        (0..count)
            .map(|at| Block(llvm!(LLVMGetSuccessor(terminator.0, at))))
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
        llvm!(LLVMGetTypeKind(self.0))
    }

    /// Whether it is a pointer.
    pub fn is_pointer(self) -> bool {
        self.kind() == LLVMTypeKind::LLVMPointerTypeKind
    }

    /// The bits of an integer; none for other types.
    pub fn int_width(self) -> Option<u32> {
        (self.kind() == LLVMTypeKind::LLVMIntegerTypeKind).then(|| llvm!(LLVMGetIntTypeWidth(self.0)))
    }

    /// Whether a value of this type may hold a pointer.
    pub fn holds_pointer(self) -> bool {
        match self.kind() {
            LLVMTypeKind::LLVMPointerTypeKind => true,
            LLVMTypeKind::LLVMStructTypeKind => (0..llvm!(LLVMCountStructElementTypes(self.0)))
                .any(|at| Type(llvm!(LLVMStructGetTypeAtIndex(self.0, at))).holds_pointer()),
            LLVMTypeKind::LLVMArrayTypeKind | LLVMTypeKind::LLVMVectorTypeKind => {
                Type(llvm!(LLVMGetElementType(self.0))).holds_pointer()
            }
            _ => false,
        }
    }
}

/// The functions of a module.
pub fn functions(module: LLVMModuleRef) -> impl Iterator<Item = Value> {
    let first = Value::from_raw(llvm!(LLVMGetFirstFunction(module)));
    list(first, |at| Value::from_raw(llvm!(LLVMGetNextFunction(at.raw()))))
}

/// The global variables of a module.
pub fn globals(module: LLVMModuleRef) -> impl Iterator<Item = Value> {
    let first = Value::from_raw(llvm!(LLVMGetFirstGlobal(module)));
    list(first, |at| Value::from_raw(llvm!(LLVMGetNextGlobal(at.raw()))))
}
