//! Tickets: how a worker takes them, and tells its threads which blocks are next.
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
//! | 36 | u32 | the first block of the first ticket |
//! | 40 | address | the first of all control blocks of the process on this GPU: see [`super::gone`] |
//! | 48 | address | a word of the host's, not 0 once the process is gone; or 0 |
use inkwell::llvm_sys::core::*;
use inkwell::llvm_sys::prelude::*;
use inkwell::llvm_sys::{LLVMAtomicOrdering, LLVMAtomicRMWBinOp, LLVMIntPredicate, LLVMLinkage};

use super::super::helpers;
use super::super::ir::*;
use super::barriers::{self, intrinsic};
use super::frame::{SHARED_BYTES, TwinFrame, Workers, come};

/// NVVM's address space of shared memory.
const SHARED: u32 = 3;
/// Where a worker's first thread tells the others which blocks are next: how many, and the index of the
/// first.
const TICKET: &str = "__mgb_ticket_";

const TOTAL_AT: u64 = 8;
const GRID_AT: u64 = 16;
const EACH_AT: u64 = 28;
/// Of workers that take one block each one in so many asks whether the process is gone.
const ASKS_OF: u64 = 1024;

const VAIN_AT: u64 = 32;
const FIRST_AT: u64 = 36;
const ALL_AT: u64 = 40;
const GONE_AT: u64 = 48;

/// What a worker reads once.
pub struct ControlValues {
    pub grid: [LLVMValueRef; 3],
    pub total: LLVMValueRef,
    each: LLVMValueRef,
    /// Whether this is the thread that draws tickets.
    is_first: LLVMValueRef,
    /// The first block of the first ticket.
    first: LLVMValueRef,
    /// The first of all control blocks, and the word that says that the process is gone.
    pub all: LLVMValueRef,
    pub gone: LLVMValueRef,
}

impl TwinFrame {
    /// Reads the control block. Only the first thread draws tickets.
    pub fn enter(
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
        let pointer = llvm!(LLVMTypeOf(self.control));
        let control = ControlValues {
            grid,
            total,
            each,
            is_first,
            first: read(FIRST_AT, self.i32),
            all: read(ALL_AT, pointer),
            gone: read(GONE_AT, pointer),
        };
        llvm!(LLVMBuildCondBr(raw, is_first, first, take));
        control
    }

    /// Draws a ticket: the number of its first block.
    pub fn draw(&self, builder: &Builder, control: &ControlValues) -> LLVMValueRef {
        self.add(builder, self.control, control.each)
    }

    /// Adds to a word of the control block; returns what it was.
    pub fn add(&self, builder: &Builder, address: LLVMValueRef, value: LLVMValueRef) -> LLVMValueRef {
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

    /// Whether the worker that has drawn this ticket first asks whether the process is gone: one of those
    /// that loop, and now and then one of those that take one.
    pub fn asks(
        &self,
        builder: &Builder,
        drawn: LLVMValueRef,
        control: &ControlValues,
        workers: Workers,
    ) -> LLVMValueRef {
        let raw = builder.raw();
        let (equal, other) = (LLVMIntPredicate::LLVMIntEQ, LLVMIntPredicate::LLVMIntNE);
        let drawn = llvm!(LLVMBuildTrunc(raw, drawn, self.i32, c"".as_ptr()));
        let is_chosen = if workers == Workers::TakeOne {
            let rest = llvm!(LLVMBuildAnd(raw, drawn, self.word(ASKS_OF - 1), c"".as_ptr()));
            self.is_zero(builder, rest)
        } else {
            llvm!(LLVMBuildICmp(raw, equal, drawn, control.first, c"".as_ptr()))
        };
        let pointer = llvm!(LLVMTypeOf(control.gone));
        let null = llvm!(LLVMConstNull(pointer));
        let can = llvm!(LLVMBuildICmp(raw, other, control.gone, null, c"".as_ptr()));
        llvm!(LLVMBuildAnd(raw, is_chosen, can, c"".as_ptr()))
    }

    /// The first thread has a ticket. Returns its number, and whether the worker asks for the process.
    pub fn take(
        &self,
        take: LLVMBasicBlockRef,
        control: &ControlValues,
        look: LLVMBasicBlockRef,
        meet: LLVMBasicBlockRef,
    ) -> [LLVMValueRef; 2] {
        let builder = Builder::at_end(take);
        let i1 = llvm!(LLVMTypeOf(control.is_first));
        let [number, asks] = [self.i64, i1].map(|ty| llvm!(LLVMBuildPhi(builder.raw(), ty, c"".as_ptr())));
        // No pass duplicates this block, then, so that the loop is entered here alone. In a loop that is
        // entered in two places, ptxas lets the lanes of a warp run apart from each other.
        barriers::meet_in_warp(self.module, &builder);
        llvm!(LLVMBuildCondBr(builder.raw(), control.is_first, look, meet));
        [number, asks]
    }

    /// It looks whether there are blocks of this number. Returns how many are left.
    pub fn look(
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
    pub fn tell_none(
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
    pub fn tell(
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
    pub fn meet(
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

    /// Where the ticket lies in shared memory. Each twin has a variable of its own, so that no other kernel
    /// counts it.
    pub fn ticket(&self) -> LLVMValueRef {
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
}
