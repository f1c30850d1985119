//! Twins: a kernel that takes its blocks by tickets.
//!
//! A twin is launched with as many blocks as are to work at once, its *workers*, and has one parameter more:
//! the address of its control block. A worker takes the next ticket, which stands for one or some of the
//! original's blocks, runs these one after the other, each from its begin to its end, and goes on until no
//! ticket is left. Who wants the launch to stop takes all tickets that are left, by a number in the upper
//! half of the next one; a ticket that was taken is run, so that each block is run as a whole, once. A worker
//! takes a ticket ahead, so that it has it when it comes to need it.
//!
//! Threads that return from the original's code go on to the end of the loop, and wait for the others there.
//! Where those may still meet at a barrier of the original's, or work together in another way that counts on
//! the threads being gone, the workers do not loop: each takes one ticket, as many are launched as there are
//! blocks left, and threads return as they do in the original. Such a launch runs a *slice* of the blocks;
//! workers that begin after a stop return at once.
use inkwell::llvm_sys::core::*;
use inkwell::llvm_sys::debuginfo::{LLVMMetadataReplaceAllUsesWith, LLVMTemporaryMDNode};
use inkwell::llvm_sys::prelude::*;
use inkwell::llvm_sys::{LLVMIntPredicate, LLVMOpcode};

use super::super::ir::*;
use super::super::layout::Layout;
use super::super::{helpers, redundancy};
use super::barriers;
use super::frame::{TwinFrame, Workers, come};
use super::gone;
use super::replicate::Replicator;
use crate::assume::Proof;

/// The attribute of a parameter that no thread may write to.
const GRID_CONSTANT: &str = "nvvm.grid_constant";

/// Adds the twin of a kernel under this symbol.
pub fn add(module: LLVMModuleRef, kernel: LLVMValueRef, symbol: &str, workers: Workers) {
    let mut replicator = Replicator::new(module);
    let context = llvm!(LLVMGetModuleContext(module));
    let mut extra = [llvm!(LLVMPointerTypeInContext(context, 0))];
    let twin = helpers::replicate(kernel, symbol, &mut extra);
    let place = TwinFrame::new(module, twin).build(workers);
    replicator.replace(twin, &place);
}

impl TwinFrame {
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
        let asks = self.asks(&builder, drawn, &control, workers);
        llvm!(LLVMBuildBr(builder.raw(), take));
        let taken = self.take(take, &control, look, meet);
        let none = llvm!(LLVMConstInt(self.i64, 0, 0));
        let no = llvm!(LLVMTypeOf(asks));
        let no = llvm!(LLVMConstNull(no));
        come(&taken, &[none, no], entry);
        come(&taken, &[drawn, asks], first);
        let [number, asks] = taken;
        let look = gone::ask(self, look, asks, &control);
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
            come(&taken, &[ahead, asks], ends[2]);
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
}
