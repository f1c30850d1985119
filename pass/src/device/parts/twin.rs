//! Twins: a kernel that takes its blocks by tickets.
//!
//! A twin is launched with as many blocks as are to work at once, its *workers*, and has one parameter more:
//! the address of its control block. A worker takes the next ticket, which stands for one or some of the
//! original's blocks, runs these one after the other, each from its begin to its end, and goes on until no
//! ticket is left. Who wants the launch to stop takes all tickets that are left, by a number in the upper
//! half of the next one; a ticket that was taken is run, so that each block is run as a whole, once. A worker
//! takes a ticket ahead, so that it has it when it comes to need it.
//!
//! The control block, which the host fills:
//!
//! | byte | type | what |
//! |---|---|---|
//! | 0 | u64 | the first block of the next ticket; 2^62 more to stop |
//! | 8 | u64 | the number of blocks of the grid |
//! | 16 | 3 × u32 | the size of the grid |
//! | 28 | u32 | how many blocks a ticket stands for |
//! | 32 | u32 | the blocks of all tickets that were drawn in vain: beyond the grid, or after a stop |
//!
//! Threads that return from the original's code go on to the end of the loop, and wait for the others there.
//! Where those may still meet at a barrier of the original's, or work together in another way that counts on
//! the threads being gone, the workers do not loop: each takes one ticket, as many are launched as there are
//! blocks left, and threads return as they do in the original. Such a launch runs a *slice* of the blocks;
//! workers that begin after a stop return at once.
use inkwell::llvm_sys::core::*;
use inkwell::llvm_sys::debuginfo::{LLVMMetadataReplaceAllUsesWith, LLVMTemporaryMDNode};
use inkwell::llvm_sys::prelude::*;
use inkwell::llvm_sys::{LLVMAtomicOrdering, LLVMAtomicRMWBinOp, LLVMIntPredicate, LLVMLinkage, LLVMOpcode};

use super::super::ir::*;
use super::super::layout::Layout;
use super::super::{helpers, redundancy};
use super::barriers::{self, intrinsic};
use super::replicate::Replicator;
use crate::assume::Proof;

/// Shared memory that a twin has beside the original's, in bytes.
pub const SHARED_BYTES: u64 = 16;

/// NVVM's address space of shared memory.
const SHARED: u32 = 3;
/// Where a worker's first thread tells the others which blocks are next: how many, and the index of the
/// first.
const TICKET: &str = "__mgb_ticket_";

/// The attribute of a parameter that no thread may write to.
const GRID_CONSTANT: &str = "nvvm.grid_constant";

const TOTAL_AT: u64 = 8;
const GRID_AT: u64 = 16;
const EACH_AT: u64 = 28;
const VAIN_AT: u64 = 32;

/// What the workers of a twin do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Workers {
    /// They take one block each.
    TakeOne,
    /// They take tickets until none is left. Threads of a block have nothing in common that the next one's
    /// could find too early.
    Loop,
    /// The same, but a block begins when all threads of the one before have ended, not only those of a warp.
    LoopTogether,
}

/// Adds the twin of a kernel under this symbol.
pub fn add(module: LLVMModuleRef, kernel: LLVMValueRef, symbol: &str, workers: Workers) {
    let mut replicator = Replicator::new(module);
    let context = llvm!(LLVMGetModuleContext(module));
    let mut extra = [llvm!(LLVMPointerTypeInContext(context, 0))];
    let twin = helpers::replicate(kernel, symbol, &mut extra);
    let place = TwinFrame::new(module, twin).build(workers);
    replicator.replace(twin, &place);
}

/// The phis have these values where they are come to from there.
fn come(phis: &[LLVMValueRef], values: &[LLVMValueRef], from: LLVMBasicBlockRef) {
    for (&phi, &value) in phis.iter().zip(values) {
        llvm!(LLVMAddIncoming(phi, [value].as_mut_ptr(), [from].as_mut_ptr(), 1));
    }
}

/// What a worker reads once.
struct ControlValues {
    grid: [LLVMValueRef; 3],
    total: LLVMValueRef,
    each: LLVMValueRef,
    /// Whether this is the thread that draws tickets.
    is_first: LLVMValueRef,
}

/// The loop around a kernel's code.
struct TwinFrame {
    module: LLVMModuleRef,
    twin: LLVMValueRef,
    control: LLVMValueRef,
    body: LLVMBasicBlockRef,
    returns: Vec<LLVMValueRef>,
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
            i32: llvm!(LLVMInt32TypeInContext(context)),
            i64: llvm!(LLVMInt64TypeInContext(context)),
        }
    }

    /// Puts what takes a ticket before the code, perhaps as a loop around it; returns the block's place, as
    /// values that hold in it.
    fn build(&self, workers: Workers) -> [LLVMValueRef; 6] {
        let context = llvm!(LLVMGetModuleContext(self.module));
        let add =
            |name: &std::ffi::CStr| llvm!(LLVMInsertBasicBlockInContext(context, self.body, name.as_ptr()));
        let [entry, first, take, look, tell, vain, meet, begin] = [
            c"parts.entry",
            c"parts.first",
            c"parts.take",
            c"parts.look",
            c"parts.tell",
            c"parts.vain",
            c"parts.meet",
            c"parts.begin",
        ]
        .map(add);
        let append =
            |name: &std::ffi::CStr| llvm!(LLVMAppendBasicBlockInContext(context, self.twin, name.as_ptr()));
        let done = append(c"parts.done");

        self.move_allocas(entry);
        if workers != Workers::TakeOne {
            self.copy_structures(entry);
        }
        let control = self.enter(entry, first, take);
        let grid = control.grid;
        let ticket = self.ticket();
        let builder = Builder::at_end(first);
        let drawn = self.draw(&builder, &control);
        llvm!(LLVMBuildBr(builder.raw(), take));
        let number = self.take(take, &control, look, meet);
        let none = llvm!(LLVMConstInt(self.i64, 0, 0));
        come(&[number], &[none], entry);
        come(&[number], &[drawn], first);
        let left = self.look(look, number, &control, tell, vain);
        let ahead = self.tell(tell, meet, ticket, (number, left), &control, workers);
        self.tell_none(vain, meet, ticket, &control);
        let ahead = [(none, take), (ahead, tell), (none, vain)];
        let (ahead, blocks) = self.meet(meet, ticket, begin, done, ahead);
        let now = self.begin(begin, blocks, meet);
        if workers != Workers::TakeOne {
            let ends = [c"parts.end", c"parts.next", c"parts.last"].map(append);
            let next = self.end(ends, take, begin, now, grid, workers);
            come(&now, &next, ends[1]);
            come(&[number], &[ahead], ends[2]);
        }
        llvm!(LLVMBuildRetVoid(Builder::at_end(done).raw()));
        let [_, x, y, z] = now;
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

    /// Reads the control block. Only the first thread draws tickets.
    fn enter(
        &self,
        entry: LLVMBasicBlockRef,
        first: LLVMBasicBlockRef,
        take: LLVMBasicBlockRef,
    ) -> ControlValues {
        let builder = Builder::at_end(entry);
        let raw = builder.raw();
        let read = |at: u64, ty: LLVMTypeRef| {
            let address = builder.byte_offset(self.control, at);
            llvm!(LLVMBuildLoad2(raw, ty, address, c"".as_ptr()))
        };
        let grid = [0, 1, 2].map(|at| read(GRID_AT + 4 * at, self.i32));
        let total = read(TOTAL_AT, self.i64);
        let each = llvm!(LLVMBuildZExt(
            raw,
            read(EACH_AT, self.i32),
            self.i64,
            c"".as_ptr()
        ));
        let [x, y, z] = ["x", "y", "z"].map(|dimension| {
            let name = format!("llvm.nvvm.read.ptx.sreg.tid.{dimension}");
            builder.call(intrinsic(self.module, &name), &mut [])
        });
        let any = llvm!(LLVMBuildOr(raw, x, y, c"".as_ptr()));
        let any = llvm!(LLVMBuildOr(raw, any, z, c"".as_ptr()));
        let is_first = self.is_zero(&builder, any);
        llvm!(LLVMBuildCondBr(raw, is_first, first, take));
        ControlValues {
            grid,
            total,
            each,
            is_first,
        }
    }

    /// Draws a ticket: the number of its first block.
    fn draw(&self, builder: &Builder, control: &ControlValues) -> LLVMValueRef {
        self.add(builder, self.control, control.each)
    }

    /// Adds to a word of the control block; returns what it was.
    fn add(&self, builder: &Builder, address: LLVMValueRef, value: LLVMValueRef) -> LLVMValueRef {
        let before = llvm!(LLVMBuildAtomicRMW(
            builder.raw(),
            LLVMAtomicRMWBinOp::LLVMAtomicRMWBinOpAdd,
            address,
            value,
            LLVMAtomicOrdering::LLVMAtomicOrderingMonotonic,
            0
        ));
        helpers::scope_to_gpu(before);
        before
    }

    /// The first thread has a ticket. Returns its number.
    fn take(
        &self,
        take: LLVMBasicBlockRef,
        control: &ControlValues,
        look: LLVMBasicBlockRef,
        meet: LLVMBasicBlockRef,
    ) -> LLVMValueRef {
        let builder = Builder::at_end(take);
        let number = llvm!(LLVMBuildPhi(builder.raw(), self.i64, c"".as_ptr()));
        // No pass duplicates this block, then, so that the loop is entered here alone. In a loop that is entered in
        // two places, ptxas lets the lanes of a warp run apart from each other.
        barriers::meet_in_warp(self.module, &builder);
        llvm!(LLVMBuildCondBr(builder.raw(), control.is_first, look, meet));
        number
    }

    /// It looks whether there are blocks of this number. Returns how many are left.
    fn look(
        &self,
        look: LLVMBasicBlockRef,
        number: LLVMValueRef,
        control: &ControlValues,
        tell: LLVMBasicBlockRef,
        vain: LLVMBasicBlockRef,
    ) -> LLVMValueRef {
        let builder = Builder::at_end(look);
        let raw = builder.raw();
        let less = LLVMIntPredicate::LLVMIntULT;
        let is_one = llvm!(LLVMBuildICmp(raw, less, number, control.total, c"".as_ptr()));
        let left = llvm!(LLVMBuildSub(raw, control.total, number, c"".as_ptr()));
        llvm!(LLVMBuildCondBr(raw, is_one, tell, vain));
        left
    }

    /// It tells the others that there are none.
    fn tell_none(
        &self,
        vain: LLVMBasicBlockRef,
        meet: LLVMBasicBlockRef,
        ticket: LLVMValueRef,
        control: &ControlValues,
    ) {
        let builder = Builder::at_end(vain);
        let raw = builder.raw();
        let each = llvm!(LLVMBuildTrunc(raw, control.each, self.i32, c"".as_ptr()));
        self.add(&builder, builder.byte_offset(self.control, VAIN_AT), each);
        llvm!(LLVMBuildStore(raw, self.word(0), ticket));
        llvm!(LLVMBuildBr(raw, meet));
    }

    /// It tells the others which blocks these are, and draws the next ticket. Returns that one's number.
    fn tell(
        &self,
        tell: LLVMBasicBlockRef,
        meet: LLVMBasicBlockRef,
        ticket: LLVMValueRef,
        (number, left): (LLVMValueRef, LLVMValueRef),
        control: &ControlValues,
        workers: Workers,
    ) -> LLVMValueRef {
        let builder = Builder::at_end(tell);
        let raw = builder.raw();
        let (each, less) = (control.each, LLVMIntPredicate::LLVMIntULT);
        let is_last = llvm!(LLVMBuildICmp(raw, less, left, each, c"".as_ptr()));
        let count = llvm!(LLVMBuildSelect(raw, is_last, left, each, c"".as_ptr()));
        // Grids have less than 2^32 blocks where they are run in parts.
        let narrow = |value| llvm!(LLVMBuildTrunc(raw, value, self.i32, c"".as_ptr()));
        let (number, [width, height, _]) = (narrow(number), control.grid);
        let x = llvm!(LLVMBuildURem(raw, number, width, c"".as_ptr()));
        let rows = llvm!(LLVMBuildUDiv(raw, number, width, c"".as_ptr()));
        let y = llvm!(LLVMBuildURem(raw, rows, height, c"".as_ptr()));
        let z = llvm!(LLVMBuildUDiv(raw, rows, height, c"".as_ptr()));
        for (at, value) in (0..).zip([narrow(count), x, y, z]) {
            let place = builder.byte_offset(ticket, 4 * at);
            llvm!(LLVMBuildStore(raw, value, place));
        }
        let ahead = if workers == Workers::TakeOne {
            llvm!(LLVMConstInt(self.i64, 0, 0))
        } else {
            self.draw(&builder, control)
        };
        llvm!(LLVMBuildBr(raw, meet));
        ahead
    }

    /// All threads learn which blocks are next, if there are any: how many, and the index of the first.
    /// Returns the number of the ticket ahead, too.
    fn meet(
        &self,
        meet: LLVMBasicBlockRef,
        ticket: LLVMValueRef,
        begin: LLVMBasicBlockRef,
        done: LLVMBasicBlockRef,
        ahead: [(LLVMValueRef, LLVMBasicBlockRef); 3],
    ) -> (LLVMValueRef, [LLVMValueRef; 4]) {
        let builder = Builder::at_end(meet);
        let raw = builder.raw();
        let kept = llvm!(LLVMBuildPhi(raw, self.i64, c"".as_ptr()));
        for (value, from) in ahead {
            come(&[kept], &[value], from);
        }
        barriers::meet(self.module, &builder);
        let told = [0, 1, 2, 3].map(|at| {
            let place = builder.byte_offset(ticket, 4 * at);
            llvm!(LLVMBuildLoad2(raw, self.i32, place, c"".as_ptr()))
        });
        let is_none = self.is_zero(&builder, told[0]);
        llvm!(LLVMBuildCondBr(raw, is_none, done, begin));
        (kept, told)
    }

    /// Where a block begins: how many are left with it, and its index.
    fn begin(
        &self,
        begin: LLVMBasicBlockRef,
        told: [LLVMValueRef; 4],
        meet: LLVMBasicBlockRef,
    ) -> [LLVMValueRef; 4] {
        let builder = Builder::at_end(begin);
        let now = told.map(|_| llvm!(LLVMBuildPhi(builder.raw(), self.i32, c"".as_ptr())));
        llvm!(LLVMBuildBr(builder.raw(), self.body));
        come(&now, &told, meet);
        now
    }

    /// Where threads go that return: to the ticket's next block, or to the next ticket. They wait for the
    /// others where the next block has the same shared memory, as has the next ticket. Returns how many
    /// blocks are left and the index of the next.
    fn end(
        &self,
        [end, next, last]: [LLVMBasicBlockRef; 3],
        take: LLVMBasicBlockRef,
        begin: LLVMBasicBlockRef,
        [left, x, y, z]: [LLVMValueRef; 4],
        [width, height, _]: [LLVMValueRef; 3],
        workers: Workers,
    ) -> [LLVMValueRef; 4] {
        for &at in &self.returns {
            llvm!(LLVMBuildBr(Builder::before(at).raw(), end));
            llvm!(LLVMInstructionEraseFromParent(at));
        }
        let builder = Builder::at_end(end);
        let raw = builder.raw();
        if workers == Workers::LoopTogether {
            barriers::meet(self.module, &builder);
        } else {
            barriers::meet_in_warp(self.module, &builder);
        }
        let left = llvm!(LLVMBuildSub(raw, left, self.word(1), c"".as_ptr()));
        let is_last = self.is_zero(&builder, left);
        llvm!(LLVMBuildCondBr(raw, is_last, last, next));

        let builder = Builder::at_end(last);
        if workers == Workers::Loop {
            barriers::meet(self.module, &builder);
        }
        self.keep_in_loop(llvm!(LLVMBuildBr(builder.raw(), take)));

        let builder = Builder::at_end(next);
        let raw = builder.raw();
        // One further, along a row, then down the rows.
        let step = |at: LLVMValueRef, by: LLVMValueRef, size: LLVMValueRef| {
            let at = llvm!(LLVMBuildAdd(raw, at, by, c"".as_ptr()));
            let equal = LLVMIntPredicate::LLVMIntEQ;
            let is_over = llvm!(LLVMBuildICmp(raw, equal, at, size, c"".as_ptr()));
            let over = llvm!(LLVMBuildZExt(raw, is_over, self.i32, c"".as_ptr()));
            let at = llvm!(LLVMBuildSelect(raw, is_over, self.word(0), at, c"".as_ptr()));
            (at, over)
        };
        let (x, rows) = step(x, self.word(1), width);
        let (y, layers) = step(y, rows, height);
        let z = llvm!(LLVMBuildAdd(raw, z, layers, c"".as_ptr()));
        self.keep_in_loop(llvm!(LLVMBuildBr(raw, begin)));
        [left, x, y, z]
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
