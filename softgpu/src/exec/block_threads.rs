//! The threads of a block that wait for each other: what is the same whether they wait on stacks of their own
//! ([`super::fibers`]) or in frames ([`super::coroutines`]).

use std::sync::Arc;

use super::block_memory::BlockMemory;
use super::calls;
use super::grid::{Grid, InstructionCounts, KernelFailure};
use super::no_barrier_blocks::{fault_of, given_up, no_stack};
use super::step::GridStep;
use super::sync::{Sync, WaitRequests};
use super::thread::{BlockShared, BlockThread, WaitMode, WaitRequest};
use crate::error::Error;
use crate::image;

/// Threads of the largest block that any GPU takes.
const MAX_THREADS: usize = 1024;

/// Rounds in which all of a block's threads only look whether they may go on, before other blocks get a turn.
const ROUNDS: u32 = 2;

/// The threads of a block, or of one that has been.
pub struct Team {
    /// Reached through pointers: it never grows beyond its first capacity. It may be longer than the block
    /// has threads.
    pub threads: Vec<BlockThread>,
    /// Threads of the block.
    pub count: usize,
    /// What they share.
    pub shared: Box<BlockShared>,
    sync: Sync,
    memory: Option<BlockMemory>,
    /// The grid that the threads are laid out for, and the memory.
    laid_out: Option<(u64, *mut u8)>,
}

impl WaitRequests for Vec<BlockThread> {
    fn of(&self, thread: u32) -> &WaitRequest {
        &self[thread as usize].request
    }
}

/// What a thread does once it has gone on for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThreadEvent {
    /// It waits for what its request says.
    Waits,
    /// It has ended.
    Ended,
}

/// Why a thread cannot go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Broken {
    /// It has noted the reason.
    GivenUp,
    /// By a fault of the machine.
    Fault {
        /// The number of the signal.
        signal: i32,
        /// The address it is about.
        address: usize,
    },
}

impl Default for Team {
    fn default() -> Team {
        Team {
            threads: Vec::with_capacity(MAX_THREADS),
            count: 0,
            shared: Box::default(),
            sync: Sync::default(),
            memory: None,
            laid_out: None,
        }
    }
}

impl Team {
    /// Makes the threads those of a block, at its start.
    pub fn gather(&mut self, grid: &Grid, number: u64, waiting: WaitMode) -> Result<(), KernelFailure> {
        let plan = &grid.plan;
        let memory = BlockMemory::new(plan.static_shared, plan.dynamic_shared)
            .map_err(|error| no_stack(error, &plan.name))?;
        let index = grid.index(number);
        let layout = Some((grid.number, memory.fixed));
        if self.laid_out == layout {
            // The block before was of the same grid, in the same memory.
            for thread in &mut self.threads[..self.count] {
                thread.again(index);
            }
        } else {
            self.lay_out(grid, index, calls::public(plan, &memory), waiting);
            self.laid_out = layout;
        }
        self.memory = Some(memory);
        let order = (0..self.count as u64).map(|number| grid.threads.at(number) as u32);
        self.sync.begin(self.count as u32, order);
        Ok(())
    }

    /// Places the threads of a grid's first block here.
    fn lay_out(&mut self, grid: &Grid, index: [u32; 3], public: image::Thread, waiting: WaitMode) {
        let plan = &grid.plan;
        self.shared.waiting = waiting;
        self.shared.kernel = Arc::clone(&plan.name);
        self.shared.objects = Arc::clone(&plan.objects);
        let shared = &raw mut *self.shared;
        self.count = plan.block.iter().product::<u32>() as usize;
        assert!(
            self.count <= MAX_THREADS,
            "launches are checked: no block is larger"
        );
        while self.threads.len() < self.count {
            self.threads.push(BlockThread::new(public, shared));
        }
        for (number, thread) in self.threads[..self.count].iter_mut().enumerate() {
            thread.public = public;
            thread.place(number as u32);
            thread.again(index);
        }
    }

    /// Has the threads go on, by `go_on`, until all have ended, or all that are left wait for what other
    /// blocks do.
    pub fn advance(
        &mut self,
        grid: &Grid,
        mut go_on: impl FnMut(u32, *mut BlockThread) -> Result<ThreadEvent, Broken>,
    ) -> Result<GridStep, KernelFailure> {
        let slots = calls::Slots::of(&grid.plan);
        let threads = self.threads.as_mut_ptr();
        for _ in 0..ROUNDS {
            while let Some(index) = self.sync.ready.pop_front() {
                // SAFETY: below the number of threads; none of them runs now.
                let thread = unsafe { threads.add(index as usize) };
                // SAFETY: the thread is the team's own, and none of its threads runs now.
                unsafe { (*thread).public.answer = self.sync.answers[index as usize] };
                slots.enter(thread.cast());
                match go_on(index, thread) {
                    Ok(ThreadEvent::Waits) => self.sync.wait(index, &self.threads),
                    Ok(ThreadEvent::Ended) => self.sync.end(index, &self.threads),
                    Err(broken) => return Err(self.failure(grid, index, broken)),
                }
            }
            if self.sync.over() {
                return Ok(GridStep::Over);
            }
            if !self.sync.take_turns(&self.threads) {
                return Err(self.hangs(grid));
            }
        }
        Ok(GridStep::Waits)
    }

    /// Why a thread broke, in CUDA's terms.
    pub fn failure(&mut self, grid: &Grid, index: u32, broken: Broken) -> KernelFailure {
        let name = &grid.plan.name;
        match broken {
            Broken::GivenUp => given_up(&mut self.shared, name),
            Broken::Fault { signal, address } => {
                fault_of(&self.threads[index as usize], name, signal, address)
            }
        }
    }

    fn hangs(&self, grid: &Grid) -> KernelFailure {
        let name = &grid.plan.name;
        let [x, y, z] = self.threads[0].public.ctaid;
        KernelFailure {
            error: Error::LAUNCH_FAILURE,
            text: format!(
                "kernel {name} hangs in block ({x},{y},{z}): {}",
                self.sync.describe(&self.threads)
            ),
        }
    }

    /// Ends the block, whether its threads have ended or not; what they did is the grid's.
    pub fn part(&mut self, grid: &Grid) -> InstructionCounts {
        let mut counts = InstructionCounts::default();
        let threads = self.threads.iter().take(self.count);
        threads.for_each(|thread| counts.add(thread.public.ops));
        self.memory = None;
        self.shared.failure = None;
        if !self.shared.output.is_empty() {
            grid.print(std::mem::take(&mut self.shared.output));
        }
        counts
    }
}
