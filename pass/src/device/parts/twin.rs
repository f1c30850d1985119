//! Twins: a kernel that takes its blocks by tickets.
//!
//! A twin is launched with as many blocks as are to work at once, its *workers*, and has one parameter more:
//! the address of its control block. A worker takes the next ticket, runs the original's block of this number
//! from its begin to its end, and goes on until no ticket is left or the stop word is set; it looks at that
//! before it takes a ticket, so that each block is run as a whole, once.
//!
//! The control block, which the host fills:
//!
//! | byte | type | what |
//! |---|---|---|
//! | 0 | u64 | the next ticket |
//! | 8 | u64 | the number of blocks of the grid |
//! | 16 | 3 × u32 | the size of the grid |
//! | 32 | address of a u32 | the stop word: not 0 once workers are to stop |
//!
//! Threads that return from the original's code go on to the end of the twin's loop. Where others may then
//! meet at a barrier without them, all vote: who is at the original's barrier says that the block goes on,
//! who has returned says no, and meets the others at each barrier until all say no. This is what the GPU does
//! by itself for threads that have ended.
use inkwell::llvm_sys::core::*;
use inkwell::llvm_sys::debuginfo::{LLVMMetadataReplaceAllUsesWith, LLVMTemporaryMDNode};
use inkwell::llvm_sys::prelude::*;
use inkwell::llvm_sys::{LLVMAtomicOrdering, LLVMAtomicRMWBinOp, LLVMIntPredicate, LLVMLinkage, LLVMOpcode};

use super::super::ir::*;
use super::super::layout::Layout;
use super::super::{helpers, redundancy};
use super::barriers::{BARRIER, VOTE, intrinsic};
use super::replicate::Replicator;
use crate::assume::Proof;

/// Shared memory that a twin has beside the original's, in bytes.
pub const SHARED_BYTES: u64 = 16;

/// NVVM's address space of shared memory.
const SHARED: u32 = 3;
/// Where a worker's first thread tells the others which block is next: whether there is one, and its index.
const TICKET: &str = "__mgb_ticket_";

/// The attribute of a parameter that no thread may write to.
const GRID_CONSTANT: &str = "nvvm.grid_constant";

const TOTAL_AT: u64 = 8;
const GRID_AT: u64 = 16;
const STOP_AT: u64 = 32;

/// Adds the twin of a kernel under this symbol. Where `votes`, threads that return early vote at barriers.
pub fn add(module: LLVMModuleRef, kernel: LLVMValueRef, symbol: &str, votes: bool) {
    let mut replicator = Replicator::new(module, votes);
    let context = llvm!(LLVMGetModuleContext(module));
    let mut extra = [llvm!(LLVMPointerTypeInContext(context, 0))];
    let twin = helpers::replicate(kernel, symbol, &mut extra);
    let frame = TwinFrame::new(module, twin);
    let place = frame.build(votes);
    replicator.replace(twin, &place);
}

/// The loop around a kernel's code.
struct TwinFrame {
    module: LLVMModuleRef,
    twin: LLVMValueRef,
    control: LLVMValueRef,
    body: LLVMBasicBlockRef,
    returns: Vec<LLVMValueRef>,
    i1: LLVMTypeRef,
    i32: LLVMTypeRef,
    i64: LLVMTypeRef,
}

impl TwinFrame {
    fn new(module: LLVMModuleRef, twin: LLVMValueRef) -> Self {
        let context = llvm!(LLVMGetModuleContext(module));
        Self {
            module,
            twin,
            control: *parameters(twin).last().expect("one was added"),
            body: llvm!(LLVMGetEntryBasicBlock(twin)),
            returns: instructions(twin)
                .into_iter()
                .filter(|&at| opcode(at) == LLVMOpcode::LLVMRet)
                .collect(),
            i1: llvm!(LLVMInt1TypeInContext(context)),
            i32: llvm!(LLVMInt32TypeInContext(context)),
            i64: llvm!(LLVMInt64TypeInContext(context)),
        }
    }

    /// Puts the loop around the code; returns the block's place, as values that hold in it.
    fn build(&self, votes: bool) -> [LLVMValueRef; 6] {
        let context = llvm!(LLVMGetModuleContext(self.module));
        let add =
            |name: &std::ffi::CStr| llvm!(LLVMInsertBasicBlockInContext(context, self.body, name.as_ptr()));
        let [entry, take, look, draw, none, meet] = [
            c"parts.entry",
            c"parts.take",
            c"parts.look",
            c"parts.draw",
            c"parts.none",
            c"parts.meet",
        ]
        .map(add);
        let append =
            |name: &std::ffi::CStr| llvm!(LLVMAppendBasicBlockInContext(context, self.twin, name.as_ptr()));
        let [end, done] = [c"parts.end", c"parts.done"].map(append);

        self.move_allocas(entry);
        self.copy_structures(entry);
        let grid = self.enter(entry, take);
        let ticket = self.ticket();
        self.choose(take, look, meet);
        self.look(look, draw, none);
        self.draw(draw, meet, ticket, grid);
        let builder = Builder::at_end(none);
        llvm!(LLVMBuildStore(builder.raw(), self.word(0), ticket));
        llvm!(LLVMBuildBr(builder.raw(), meet));
        let index = self.meet(meet, ticket, done);
        self.end(end, take, votes);
        llvm!(LLVMBuildRetVoid(Builder::at_end(done).raw()));
        let [x, y, z] = index;
        let [width, height, depth] = grid;
        [x, y, z, width, height, depth]
    }

    /// Variables of the code have one place each, however many blocks a worker runs.
    fn move_allocas(&self, entry: LLVMBasicBlockRef) {
        let builder = Builder::at_end(entry);
        let is_variable = |at: &LLVMValueRef| opcode(*at) == LLVMOpcode::LLVMAlloca;
        for alloca in block_instructions(self.body).into_iter().filter(is_variable) {
            llvm!(LLVMInstructionRemoveFromParent(alloca));
            llvm!(LLVMInsertIntoBuilder(builder.raw(), alloca));
        }
    }

    /// Structures that are passed by value are each block's own, which may write to them.
    fn copy_structures(&self, entry: LLVMBasicBlockRef) {
        if Proof::Structures.is_assumed() {
            return;
        }
        let layout = Layout::of(self.module);
        let first = llvm!(LLVMGetFirstInstruction(self.body));
        let (variables, body) = (Builder::at_end(entry), Builder::before(first));
        for (at, argument) in (1..).zip(parameters(self.twin)) {
            let Some(ty) = redundancy::by_value(argument) else {
                continue;
            };
            if parameter_attribute(self.twin, at, GRID_CONSTANT).is_some()
                || redundancy::is_only_read(argument)
            {
                continue;
            }
            let stated = llvm!(LLVMGetEnumAttributeAtIndex(
                self.twin,
                at,
                attribute_kind("align")
            ));
            let stated = if stated.is_null() {
                1
            } else {
                llvm!(LLVMGetEnumAttributeValue(stated))
            };
            let align = stated.max(layout.align(ty)) as u32;
            let own = llvm!(LLVMBuildAlloca(variables.raw(), ty, c"".as_ptr()));
            llvm!(LLVMSetAlignment(own, align));
            llvm!(LLVMReplaceAllUsesWith(argument, own));
            let bytes = llvm!(LLVMConstInt(self.i64, layout.size(ty), 0));
            llvm!(LLVMBuildMemCpy(body.raw(), own, align, argument, align, bytes));
        }
    }

    /// Reads the size of the grid.
    fn enter(&self, entry: LLVMBasicBlockRef, next: LLVMBasicBlockRef) -> [LLVMValueRef; 3] {
        let builder = Builder::at_end(entry);
        let grid = [0, 1, 2].map(|at| {
            let address = builder.byte_offset(self.control, GRID_AT + 4 * at);
            llvm!(LLVMBuildLoad2(builder.raw(), self.i32, address, c"".as_ptr()))
        });
        llvm!(LLVMBuildBr(builder.raw(), next));
        grid
    }

    /// Only the first thread takes a ticket.
    fn choose(&self, take: LLVMBasicBlockRef, look: LLVMBasicBlockRef, meet: LLVMBasicBlockRef) {
        let builder = Builder::at_end(take);
        let [x, y, z] = ["x", "y", "z"].map(|dimension| {
            let name = format!("llvm.nvvm.read.ptx.sreg.tid.{dimension}");
            builder.call(intrinsic(self.module, &name), &mut [])
        });
        let raw = builder.raw();
        let any = llvm!(LLVMBuildOr(raw, x, y, c"".as_ptr()));
        let any = llvm!(LLVMBuildOr(raw, any, z, c"".as_ptr()));
        let is_first = self.is_zero(&builder, any);
        llvm!(LLVMBuildCondBr(raw, is_first, look, meet));
    }

    fn look(&self, look: LLVMBasicBlockRef, draw: LLVMBasicBlockRef, none: LLVMBasicBlockRef) {
        let builder = Builder::at_end(look);
        let raw = builder.raw();
        let pointer = llvm!(LLVMTypeOf(self.control));
        let address = builder.byte_offset(self.control, STOP_AT);
        let address = llvm!(LLVMBuildLoad2(raw, pointer, address, c"".as_ptr()));
        let word = llvm!(LLVMBuildLoad2(raw, self.i32, address, c"".as_ptr()));
        llvm!(LLVMSetVolatile(word, 1));
        let goes_on = self.is_zero(&builder, word);
        llvm!(LLVMBuildCondBr(raw, goes_on, draw, none));
    }

    /// Takes a ticket, and tells the others which block it is.
    fn draw(
        &self,
        draw: LLVMBasicBlockRef,
        meet: LLVMBasicBlockRef,
        ticket: LLVMValueRef,
        [width, height, _]: [LLVMValueRef; 3],
    ) {
        let builder = Builder::at_end(draw);
        let raw = builder.raw();
        let one = llvm!(LLVMConstInt(self.i64, 1, 0));
        let number = llvm!(LLVMBuildAtomicRMW(
            raw,
            LLVMAtomicRMWBinOp::LLVMAtomicRMWBinOpAdd,
            self.control,
            one,
            LLVMAtomicOrdering::LLVMAtomicOrderingMonotonic,
            0
        ));
        helpers::scope_to_gpu(number);
        let total = builder.byte_offset(self.control, TOTAL_AT);
        let total = llvm!(LLVMBuildLoad2(raw, self.i64, total, c"".as_ptr()));
        let less = LLVMIntPredicate::LLVMIntULT;
        let is_one = llvm!(LLVMBuildICmp(raw, less, number, total, c"".as_ptr()));
        let [width, height] =
            [width, height].map(|size| llvm!(LLVMBuildZExt(raw, size, self.i64, c"".as_ptr())));
        let x = llvm!(LLVMBuildURem(raw, number, width, c"".as_ptr()));
        let rows = llvm!(LLVMBuildUDiv(raw, number, width, c"".as_ptr()));
        let y = llvm!(LLVMBuildURem(raw, rows, height, c"".as_ptr()));
        let z = llvm!(LLVMBuildUDiv(raw, rows, height, c"".as_ptr()));
        let told = llvm!(LLVMBuildZExt(raw, is_one, self.i32, c"".as_ptr()));
        let index = [x, y, z].map(|at| llvm!(LLVMBuildTrunc(raw, at, self.i32, c"".as_ptr())));
        for (at, value) in (0..).zip([told].into_iter().chain(index)) {
            let place = builder.byte_offset(ticket, 4 * at);
            llvm!(LLVMBuildStore(raw, value, place));
        }
        llvm!(LLVMBuildBr(raw, meet));
    }

    /// All threads learn which block is next, if there is one.
    fn meet(
        &self,
        meet: LLVMBasicBlockRef,
        ticket: LLVMValueRef,
        done: LLVMBasicBlockRef,
    ) -> [LLVMValueRef; 3] {
        let builder = Builder::at_end(meet);
        let raw = builder.raw();
        builder.call(intrinsic(self.module, BARRIER), &mut [self.word(0)]);
        let [told, x, y, z] = [0, 1, 2, 3].map(|at| {
            let place = builder.byte_offset(ticket, 4 * at);
            llvm!(LLVMBuildLoad2(raw, self.i32, place, c"".as_ptr()))
        });
        let is_none = self.is_zero(&builder, told);
        llvm!(LLVMBuildCondBr(raw, is_none, done, self.body));
        [x, y, z]
    }

    /// Where threads go that return: they wait for the others, since the next block has the same shared
    /// memory.
    fn end(&self, end: LLVMBasicBlockRef, take: LLVMBasicBlockRef, votes: bool) {
        for &at in &self.returns {
            llvm!(LLVMBuildBr(Builder::before(at).raw(), end));
            llvm!(LLVMInstructionEraseFromParent(at));
        }
        let builder = Builder::at_end(end);
        if votes {
            let returned = llvm!(LLVMConstInt(self.i1, 0, 0));
            let goes_on = builder.call(intrinsic(self.module, VOTE), &mut [self.word(0), returned]);
            self.keep_in_loop(llvm!(LLVMBuildCondBr(builder.raw(), goes_on, end, take)));
        } else {
            builder.call(intrinsic(self.module, BARRIER), &mut [self.word(0)]);
            self.keep_in_loop(llvm!(LLVMBuildBr(builder.raw(), take)));
        }
    }

    /// Nothing of the original's code moves out of the loop: a product that is computed once for all blocks
    /// is not contracted with a sum any more, and that has another result.
    fn keep_in_loop(&self, back: LLVMValueRef) {
        const HINT: &str = "llvm.licm.disable";
        let context = llvm!(LLVMGetModuleContext(self.module));
        let node = |parts: &mut [LLVMMetadataRef]| {
            llvm!(LLVMMDNodeInContext2(context, parts.as_mut_ptr(), parts.len()))
        };
        let hint = node(&mut [llvm!(LLVMMDStringInContext2(
            context,
            HINT.as_ptr().cast(),
            HINT.len()
        ))]);
        // The name of a loop names itself.
        let placeholder = llvm!(LLVMTemporaryMDNode(context, std::ptr::null_mut(), 0));
        let name = node(&mut [placeholder, hint]);
        llvm!(LLVMMetadataReplaceAllUsesWith(placeholder, name));
        const KIND: &str = "llvm.loop";
        let kind = llvm!(LLVMGetMDKindIDInContext(
            context,
            KIND.as_ptr().cast(),
            KIND.len() as u32
        ));
        llvm!(LLVMSetMetadata(back, kind, LLVMMetadataAsValue(context, name)));
    }

    /// Where the ticket lies in shared memory. Each twin has a variable of its own, so that no other kernel
    /// counts it.
    fn ticket(&self) -> LLVMValueRef {
        let symbol = c_string(&format!("{TICKET}{}", name(self.twin)));
        let ty = llvm!(LLVMArrayType2(self.i32, SHARED_BYTES / 4));
        let ticket = llvm!(LLVMAddGlobalInAddressSpace(
            self.module,
            ty,
            symbol.as_ptr(),
            SHARED
        ));
        llvm!(LLVMSetLinkage(ticket, LLVMLinkage::LLVMInternalLinkage));
        llvm!(LLVMSetInitializer(ticket, LLVMGetUndef(ty)));
        llvm!(LLVMSetAlignment(ticket, 16));
        ticket
    }

    fn word(&self, value: u64) -> LLVMValueRef {
        llvm!(LLVMConstInt(self.i32, value, 0))
    }

    fn is_zero(&self, builder: &Builder, value: LLVMValueRef) -> LLVMValueRef {
        let equal = LLVMIntPredicate::LLVMIntEQ;
        llvm!(LLVMBuildICmp(
            builder.raw(),
            equal,
            value,
            self.word(0),
            c"".as_ptr()
        ))
    }
}
