//! Blocks whose threads wait for each other: a fiber per thread, switched where they wait.

use std::sync::Arc;

use corosensei::CoroutineResult;

use super::block_memory::BlockMemory;
use super::calls;
use super::fault;
use super::fiber::{Exit, Fiber, Pause, Stacks, Suspender};
use super::grid::{Counts, Failure, Grid};
use super::plain::{fault_of, given_up, no_stack};
use super::pool::Step;
use super::sync::Sync;
use super::thread::{Shared, Thread};
use crate::error::Error;

/// Rounds in which all of a block's threads only look whether they may go on, before other blocks get a turn.
const ROUNDS: u32 = 2;

/// A block that runs.
#[derive(Default)]
pub struct Block {
    /// Reached through pointers while it runs: the vector does not grow then.
    threads: Vec<Thread>,
    fibers: Vec<Fiber>,
    shared: Box<Shared>,
    sync: Sync,
    memory: Option<BlockMemory>,
}

impl Block {
    /// Puts a block's threads on fibers. Call [`Block::end`] whatever this returns.
    pub fn begin(&mut self, stacks: &mut Stacks, grid: &Grid, number: u64) -> Result<(), Failure> {
        let plan = &grid.plan;
        let memory = BlockMemory::new(plan.static_shared, plan.dynamic_shared)
            .map_err(|error| no_stack(error, &plan.name))?;
        let mut public = calls::public(plan, &memory);
        self.memory = Some(memory);
        public.ctaid = grid.index(number);
        self.shared.fibers = true;
        self.shared.kernel = Arc::clone(&plan.name);
        let shared = &raw mut *self.shared;
        let count = plan.block.iter().product::<u32>();
        self.threads.extend((0..count).map(|index| {
            let mut thread = Thread::new(public, shared);
            thread.place(index);
            thread
        }));
        self.sync = Sync::new(count);
        let threads = self.threads.as_mut_ptr();
        for index in 0..count as usize {
            let stack = stacks.take().map_err(|error| no_stack(error, &plan.name))?;
            // SAFETY: the index is below the vector's length.
            let own = unsafe { threads.add(index) };
            let (entry, arguments) = (plan.entry, plan.arguments.pointers());
            let body = move |suspender: &Suspender, ()| {
                // SAFETY: the thread outlives its fiber, and is the fiber's alone while that runs. The
                // entry is generated for this plan's image, whose slots are set at every switch, and the
                // arguments live as long as the grid, which outlives its blocks.
                unsafe {
                    (*own).suspender = suspender;
                    entry(&raw mut (*own).public, arguments);
                }
                Exit::Done
            };
            // SAFETY: all fibers are given back in `end`, before anything they borrow goes.
            self.fibers
                .push(unsafe { Fiber::with_stack_unchecked(stack, body) });
        }
        Ok(())
    }

    /// Runs the threads until all have ended, or all that are left wait for what other blocks do.
    pub fn run(&mut self, grid: &Grid) -> Result<Step, Failure> {
        let name = &grid.plan.name;
        let slots = calls::Slots::of(&grid.plan);
        let threads = self.threads.as_mut_ptr();
        for _ in 0..ROUNDS {
            while let Some(index) = self.sync.ready.pop_front() {
                // SAFETY: there is a thread per fiber, and none runs now.
                let thread = unsafe { &mut *threads.add(index as usize) };
                thread.answer = self.sync.answers[index as usize];
                slots.enter(std::ptr::from_mut(thread).cast());
                match fault::resume(&mut self.fibers[index as usize]) {
                    CoroutineResult::Yield(Pause::Waiting) => self.sync.wait(index, thread.request),
                    CoroutineResult::Yield(Pause::Turn) => self.sync.turn(index),
                    CoroutineResult::Return(Exit::Done) | CoroutineResult::Yield(Pause::Ended) => {
                        self.sync.end(index);
                    }
                    CoroutineResult::Yield(Pause::GivenUp) => return Err(given_up(&mut self.shared, name)),
                    CoroutineResult::Return(Exit::Fault { signal, address }) => {
                        return Err(fault_of(thread, name, signal, address));
                    }
                }
            }
            if self.sync.over() {
                return Ok(Step::Over);
            }
            if !self.sync.take_turns() {
                // SAFETY: no thread runs now.
                let [x, y, z] = unsafe { (*threads).public.ctaid };
                return Err(Failure {
                    error: Error::LAUNCH_FAILURE,
                    text: format!(
                        "kernel {name} hangs in block ({x},{y},{z}): {}",
                        self.sync.describe()
                    ),
                });
            }
        }
        Ok(Step::Waits)
    }

    /// Takes the block apart, whether it has ended or not; what its threads did is the grid's.
    pub fn end(&mut self, stacks: &mut Stacks, grid: &Grid) -> Counts {
        self.fibers.drain(..).for_each(|fiber| stacks.give(fiber));
        let mut counts = Counts::default();
        self.threads
            .drain(..)
            .for_each(|thread| counts.add(thread.public.ops));
        self.memory = None;
        self.shared.failure = None;
        grid.print(std::mem::take(&mut self.shared.output));
        counts
    }
}
