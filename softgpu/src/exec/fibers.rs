//! Blocks whose threads wait for each other: a fiber per thread, switched where they wait.
//!
//! Fibers are kept from block to block, and from kernel to kernel: making one costs more than a switch.

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

/// Threads of the largest block that any GPU takes.
const MOST_THREADS: usize = 1024;

/// A block that runs, or the fibers of one that has.
pub struct Block {
    /// Reached through pointers for as long as the fibers live: it never grows beyond its first capacity.
    threads: Vec<Thread>,
    /// The first so many threads have one. `None`: what it ran cannot be gone back from.
    fibers: Vec<Option<Fiber>>,
    /// Bytes of the fibers' stacks.
    usable: usize,
    /// Threads of the block, and those of them that have returned.
    count: usize,
    returned: usize,
    shared: Box<Shared>,
    sync: Sync,
    memory: Option<BlockMemory>,
}

impl Default for Block {
    fn default() -> Block {
        Block {
            threads: Vec::with_capacity(MOST_THREADS),
            fibers: Vec::new(),
            usable: 0,
            count: 0,
            returned: 0,
            shared: Box::default(),
            sync: Sync::default(),
            memory: None,
        }
    }
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
        if !Arc::ptr_eq(&self.shared.kernel, &plan.name) {
            self.shared.kernel = Arc::clone(&plan.name);
        }
        if self.usable != stacks.usable() {
            self.let_go(stacks);
            self.usable = stacks.usable();
        }
        let shared = &raw mut *self.shared;
        (self.count, self.returned) = (plan.block.iter().product::<u32>() as usize, 0);
        while self.threads.len() < self.count {
            assert!(
                self.threads.len() < self.threads.capacity(),
                "launches are checked: no block is larger"
            );
            self.threads.push(Thread::new(public, shared));
        }
        for (index, thread) in self.threads[..self.count].iter_mut().enumerate() {
            thread.public = public;
            thread.place(index as u32);
            (thread.entry, thread.arguments) = (Some(plan.entry), plan.arguments.pointers());
        }
        self.sync.begin(self.count as u32);
        let threads = self.threads.as_mut_ptr();
        for index in 0..self.count {
            if index == self.fibers.len() {
                self.fibers.push(None);
            }
            if self.fibers[index].is_none() {
                // SAFETY: the index is below the vector's length.
                let own = unsafe { threads.add(index) };
                let stack = stacks.take().map_err(|error| no_stack(error, &plan.name))?;
                // SAFETY: fibers are given back before the threads go, which are never moved.
                self.fibers[index] = Some(unsafe { Fiber::with_stack_unchecked(stack, life(own)) });
            }
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
                let seat = &mut self.fibers[index as usize];
                let fiber = seat.as_mut().expect("a thread that has not ended has its fiber");
                match fault::resume(fiber) {
                    CoroutineResult::Yield(Pause::Waiting) => self.sync.wait(index, thread.request),
                    CoroutineResult::Yield(Pause::Turn) => self.sync.turn(index),
                    CoroutineResult::Yield(Pause::Done) => {
                        self.returned += 1;
                        thread.entry = None;
                        self.sync.end(index);
                    }
                    CoroutineResult::Yield(Pause::Ended) => self.sync.end(index),
                    CoroutineResult::Yield(Pause::GivenUp) => return Err(given_up(&mut self.shared, name)),
                    CoroutineResult::Return(Exit::Fault { signal, address }) => {
                        return Err(fault_of(thread, name, signal, address));
                    }
                    CoroutineResult::Return(Exit::Done) => {
                        unreachable!("a fiber goes on until it is given back")
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
        let mut counts = Counts::default();
        let threads = self.threads.iter().take(self.count);
        threads.for_each(|thread| counts.add(thread.public.ops));
        if self.returned < self.count {
            // Whoever has not returned is in the middle of its kernel.
            for (thread, seat) in self.threads[..self.count].iter_mut().zip(&mut self.fibers) {
                if thread.entry.take().is_some()
                    && let Some(fiber) = seat.take()
                {
                    stacks.give(fiber);
                }
            }
        }
        self.memory = None;
        self.shared.failure = None;
        if !self.shared.output.is_empty() {
            grid.print(std::mem::take(&mut self.shared.output));
        }
        counts
    }

    /// Gives all stacks back.
    fn let_go(&mut self, stacks: &mut Stacks) {
        self.fibers
            .drain(..)
            .flatten()
            .for_each(|fiber| stacks.give(fiber));
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        self.let_go(&mut Stacks::default());
    }
}

/// What a fiber does: runs its thread, again and again.
fn life(own: *mut Thread) -> impl FnOnce(&Suspender, ()) -> Exit {
    move |suspender, ()| {
        loop {
            // SAFETY: the thread outlives its fiber, and is the fiber's alone while that runs. The entry is
            // generated for the running grid's image, whose slots are set at every switch, and the arguments
            // live as long as the grid, which outlives its blocks.
            unsafe {
                (*own).suspender = suspender;
                let entry = (*own)
                    .entry
                    .expect("a thread that is resumed has something to run");
                entry(&raw mut (*own).public, (*own).arguments);
            }
            suspender.suspend(Pause::Done);
        }
    }
}
