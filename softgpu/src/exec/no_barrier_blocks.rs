//! Blocks whose threads never wait at barriers: one thread after another, on one stack.
//!
//! A thread that waits for what others write gives its turn back: it keeps the stack it has, and the threads
//! after it go on on another. It is resumed from time to time until it ends.

use std::rc::Rc;
use std::sync::Arc;

use corosensei::CoroutineResult;

use super::block_memory::BlockMemory;
use super::calls;
use super::fault;
use super::fiber::{Exit, Fiber, Pause, Stacks};
use super::grid::{Grid, GridCode, InstructionCounts, KernelFailure};
use super::step::GridStep;
use super::thread::{BlockShared, BlockThread};
use crate::error::Error;

/// Threads that run one after another.
pub struct ThreadRow {
    fiber: Option<Fiber>,
    state: Box<RowState>,
    /// Of the blocks that it runs, one after another.
    memory: Rc<BlockMemory>,
}

/// What a row's fiber works on.
struct RowState {
    thread: BlockThread,
    shared: BlockShared,
    counts: InstructionCounts,
    /// The block that runs, and past the last.
    block: u64,
    end: u64,
    /// The thread of the block that is next.
    index: u32,
    /// Whether the thread that runs is the last: others have taken over.
    alone: bool,
}

/// What came of running a row.
pub enum RowOutcome {
    /// All of its threads have ended.
    Over,
    /// Its thread waits, or has ended without returning; it runs no other.
    Split {
        /// Whether it has ended.
        ended: bool,
        /// The threads after it, of the same block.
        next: Option<ThreadRow>,
        /// The blocks after its block, still to run.
        after: std::ops::Range<u64>,
    },
}

impl ThreadRow {
    /// The threads of some blocks, from one of the first block's on.
    fn new(
        stacks: &mut Stacks,
        grid: &Grid,
        memory: Rc<BlockMemory>,
        blocks: std::ops::Range<u64>,
        index: u32,
    ) -> Result<ThreadRow, KernelFailure> {
        let plan = &grid.plan;
        let stack = stacks.take().map_err(|error| no_stack(error, &plan.name))?;
        let mut state = Box::new(RowState {
            thread: BlockThread::new(calls::public(plan, &memory), std::ptr::null_mut()),
            shared: BlockShared::default(),
            counts: InstructionCounts::default(),
            block: blocks.start,
            end: blocks.end,
            index,
            alone: false,
        });
        state.shared.kernel = Arc::clone(&plan.name);
        state.shared.objects = Arc::clone(&plan.objects);
        state.thread.block = &raw mut state.shared;
        let GridCode::Rows(entry) = plan.code else {
            unreachable!("threads that wait for each other are no row");
        };
        let (own, grid) = (&raw mut *state, &raw const *grid);
        let body = move |suspender: &super::fiber::Suspender, ()| {
            // SAFETY: the row gives its fiber back before its state goes, and nothing else touches that
            // while the fiber runs; the grid outlives its rows. The entry is generated for this plan's
            // image, whose slots are set.
            unsafe {
                (*own).thread.suspender = suspender;
                (*own).thread.stack_end = (&raw const suspender).cast();
                let (plan, per_block) = (&(*grid).plan, (*grid).plan.block.iter().product::<u32>());
                while (*own).block < (*own).end && !(*grid).cancelled() {
                    (*own).thread.public.ctaid = (*grid).index((*own).block);
                    while (*own).index < per_block {
                        (*own)
                            .thread
                            .place((*grid).threads.at(u64::from((*own).index)) as u32);
                        (*own).index += 1;
                        entry(&raw mut (*own).thread.public, plan.arguments.pointers());
                        (*own).counts.add((*own).thread.public.ops);
                        if (*own).alone {
                            return Exit::Done;
                        }
                    }
                    (*own).block += 1;
                    (*own).index = 0;
                }
            }
            Exit::Done
        };
        // SAFETY: the fiber is given back in `end`, before anything it borrows goes.
        let fiber = unsafe { Fiber::with_stack_unchecked(stack, body) };
        Ok(ThreadRow {
            fiber: Some(fiber),
            state,
            memory,
        })
    }

    /// The threads of some blocks.
    pub fn of_blocks(
        stacks: &mut Stacks,
        grid: &Grid,
        blocks: std::ops::Range<u64>,
    ) -> Result<ThreadRow, KernelFailure> {
        let plan = &grid.plan;
        let memory = BlockMemory::new(plan.static_shared, plan.dynamic_shared)
            .map_err(|error| no_stack(error, &plan.name))?;
        ThreadRow::new(stacks, grid, Rc::new(memory), blocks, 0)
    }

    /// Runs until all threads have ended, or one waits.
    pub fn run(&mut self, stacks: &mut Stacks, grid: &Grid) -> Result<RowOutcome, KernelFailure> {
        let result = self.resume(grid);
        let name = &grid.plan.name;
        let state = &mut *self.state;
        let (block, index, end) = (state.block, state.index, state.end);
        match result {
            CoroutineResult::Return(Exit::Done) => return Ok(RowOutcome::Over),
            CoroutineResult::Return(Exit::Fault { signal, address }) => {
                return Err(fault_of(&state.thread, name, signal, address));
            }
            CoroutineResult::Yield(Pause::Waiting | Pause::GivenUp | Pause::Done) => {
                return Err(given_up(&mut state.shared, name));
            }
            CoroutineResult::Yield(Pause::Turn | Pause::Ended) => state.alone = true,
        }
        let ended = matches!(result, CoroutineResult::Yield(Pause::Ended));
        if ended {
            state.counts.add(state.thread.public.ops);
        }
        let rest = if index < grid.plan.block.iter().product() {
            Some(ThreadRow::new(
                stacks,
                grid,
                Rc::clone(&self.memory),
                block..block + 1,
                index,
            )?)
        } else {
            None
        };
        Ok(RowOutcome::Split {
            ended,
            next: rest,
            after: block + 1..end,
        })
    }

    /// Resumes a row whose thread is alone.
    pub fn again(&mut self, grid: &Grid) -> Result<GridStep, KernelFailure> {
        let name = &grid.plan.name;
        match self.resume(grid) {
            CoroutineResult::Return(Exit::Done) | CoroutineResult::Yield(Pause::Ended) => Ok(GridStep::Over),
            CoroutineResult::Yield(Pause::Turn) => Ok(GridStep::Waits),
            CoroutineResult::Return(Exit::Fault { signal, address }) => {
                Err(fault_of(&self.state.thread, name, signal, address))
            }
            CoroutineResult::Yield(Pause::Waiting | Pause::GivenUp | Pause::Done) => {
                Err(given_up(&mut self.state.shared, name))
            }
        }
    }

    fn resume(&mut self, grid: &Grid) -> CoroutineResult<Pause, Exit> {
        calls::Slots::of(&grid.plan).enter((&raw mut self.state.thread).cast());
        let fiber = self.fiber.as_mut().expect("a row that has not been taken apart");
        fault::resume(fiber)
    }

    /// Takes the row apart, whether it has ended or not; the blocks that share its memory still, this one not
    /// counted.
    pub fn end(mut self, stacks: &mut Stacks, grid: &Grid) -> (InstructionCounts, usize) {
        stacks.give(self.fiber.take().expect("a row is taken apart once"));
        grid.print(std::mem::take(&mut self.state.shared.output));
        (self.state.counts, Rc::strong_count(&self.memory) - 1)
    }
}

/// Why a thread was given up: what it noted itself.
pub fn given_up(shared: &mut BlockShared, kernel: &str) -> KernelFailure {
    let unknown = || KernelFailure {
        error: Error::LAUNCH_FAILURE,
        text: format!("kernel {kernel} gave up"),
    };
    shared.failure.take().unwrap_or_else(unknown)
}

/// A fault of the machine in CUDA's terms.
pub fn fault_of(thread: &BlockThread, kernel: &str, signal: i32, address: usize) -> KernelFailure {
    let at = thread.position();
    match signal {
        libc::SIGSEGV | libc::SIGBUS => KernelFailure {
            error: Error::ILLEGAL_ADDRESS,
            text: format!("kernel {kernel} touched {address:#x}, where it has no memory ({at})"),
        },
        libc::SIGILL => KernelFailure {
            error: Error::LAUNCH_FAILURE,
            text: format!("kernel {kernel} executed a trap or an illegal instruction ({at})"),
        },
        _ => KernelFailure {
            error: Error::LAUNCH_FAILURE,
            text: format!("kernel {kernel} stopped with signal {signal} ({at})"),
        },
    }
}

/// The host has no room for a stack, or for a block's shared memory.
pub fn no_stack(error: Error, kernel: &str) -> KernelFailure {
    let text = format!("failed to run kernel {kernel}: the host has no memory for the stacks of its threads");
    KernelFailure { error, text }
}
