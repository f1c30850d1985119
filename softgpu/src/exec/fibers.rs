//! Threads that wait on stacks of their own: a fiber each, switched where they wait.
//!
//! Fibers are kept from block to block, and from kernel to kernel: making one costs more than a switch.

use corosensei::CoroutineResult;

use super::block_threads::{Broken, Team, ThreadEvent};
use super::fault;
use super::fiber::{Exit, Fiber, Pause, Stacks, Suspender};
use super::grid::{Grid, KernelFailure};
use super::no_barrier_blocks::no_stack;
use super::step::GridStep;
use super::thread::BlockThread;
use crate::image::KernelEntry;

/// The fibers of a team's threads.
#[derive(Default)]
pub struct Fibers {
    /// The first so many threads have one. `None`: what it ran cannot be gone back from.
    seats: Vec<Option<Fiber>>,
    /// Bytes of their stacks.
    usable: usize,
    /// Threads that have returned.
    returned: usize,
}

impl Fibers {
    /// Puts a team's threads on fibers.
    pub fn begin(
        &mut self,
        team: &mut Team,
        stacks: &mut Stacks,
        grid: &Grid,
        entry: KernelEntry,
    ) -> Result<(), KernelFailure> {
        let plan = &grid.plan;
        if self.usable != stacks.usable() {
            self.let_go(stacks);
            self.usable = stacks.usable();
        }
        self.returned = 0;
        for thread in &mut team.threads[..team.count] {
            (thread.entry, thread.arguments) = (Some(entry), plan.arguments.pointers());
        }
        let threads = team.threads.as_mut_ptr();
        for index in 0..team.count {
            if index == self.seats.len() {
                self.seats.push(None);
            }
            if self.seats[index].is_none() {
                // SAFETY: the index is below the vector's length.
                let own = unsafe { threads.add(index) };
                let stack = stacks.take().map_err(|error| no_stack(error, &plan.name))?;
                // SAFETY: fibers are given back before the threads go, which are never moved.
                self.seats[index] = Some(unsafe { Fiber::with_stack_unchecked(stack, life(own)) });
            }
        }
        Ok(())
    }

    /// Runs the threads until all have ended, or all that are left wait for what other blocks do.
    pub fn run(&mut self, team: &mut Team, grid: &Grid) -> Result<GridStep, KernelFailure> {
        let (seats, returned) = (&mut self.seats, &mut self.returned);
        team.advance(grid, |index, thread| {
            let fiber = seats[index as usize].as_mut();
            let fiber = fiber.expect("a thread that has not ended has its fiber");
            match fault::resume(fiber) {
                CoroutineResult::Yield(Pause::Waiting | Pause::Turn) => Ok(ThreadEvent::Waits),
                CoroutineResult::Yield(Pause::Done) => {
                    *returned += 1;
                    // SAFETY: the thread that was handed out, which does not run now.
                    unsafe { (*thread).entry = None };
                    Ok(ThreadEvent::Ended)
                }
                CoroutineResult::Yield(Pause::Ended) => Ok(ThreadEvent::Ended),
                CoroutineResult::Yield(Pause::GivenUp) => Err(Broken::GivenUp),
                CoroutineResult::Return(Exit::Fault { signal, address }) => {
                    Err(Broken::Fault { signal, address })
                }
                CoroutineResult::Return(Exit::Done) => {
                    unreachable!("a fiber goes on until it is given back")
                }
            }
        })
    }

    /// Gives back the fibers that are in the middle of their kernel.
    pub fn end(&mut self, team: &mut Team, stacks: &mut Stacks) {
        if self.returned == team.count {
            return;
        }
        for (thread, seat) in team.threads[..team.count].iter_mut().zip(&mut self.seats) {
            if thread.entry.take().is_some()
                && let Some(fiber) = seat.take()
            {
                stacks.give(fiber);
            }
        }
    }

    /// Gives all stacks back.
    fn let_go(&mut self, stacks: &mut Stacks) {
        self.seats
            .drain(..)
            .flatten()
            .for_each(|fiber| stacks.give(fiber));
    }
}

impl Drop for Fibers {
    fn drop(&mut self) {
        self.let_go(&mut Stacks::default());
    }
}

/// What a fiber does: runs its thread, again and again.
fn life(own: *mut BlockThread) -> impl FnOnce(&Suspender, ()) -> Exit {
    move |suspender, ()| {
        loop {
            // SAFETY: the thread outlives its fiber, and is the fiber's alone while that runs. The entry is
            // generated for the running grid's image, whose slots are set at every switch, and the arguments
            // live as long as the grid, which outlives its blocks.
            unsafe {
                (*own).suspender = suspender;
                (*own).stack_end = (&raw const suspender).cast();
                let entry = (*own)
                    .entry
                    .expect("a thread that is resumed has something to run");
                entry(&raw mut (*own).public, (*own).arguments);
            }
            suspender.suspend(Pause::Done);
        }
    }
}
