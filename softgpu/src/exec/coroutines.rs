//! Threads that wait in frames: the compiler has split their kernel where they wait, and going on is a call.
//!
//! All threads of a block run on one stack, under one guard; what fails ends the block.

use corosensei::CoroutineResult;

use super::block_threads::{Broken, Team, ThreadEvent};
use super::fault;
use super::fiber::{Exit, Fiber, Pause, Stacks, Suspender};
use super::grid::{Grid, KernelFailure};
use super::no_barrier_blocks::no_stack;
use super::step::GridStep;
use crate::image::{Begin, Resume};

/// A piece of a frame, with a frame's alignment.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct FrameLine([u8; 64]);

/// The frames of a team's threads.
#[derive(Default)]
pub struct Coroutines {
    frames: Vec<FrameLine>,
    /// What runs them, from block to block.
    driver: Option<Fiber>,
    /// Bytes of its stack.
    usable: usize,
    /// What it works on: its address does not change.
    job: Box<FiberJob>,
}

/// What a driver is given, and gives back.
struct FiberJob {
    team: *mut Team,
    grid: *const Grid,
    frames: *mut u8,
    /// From one thread's frame to the next.
    stride: usize,
    /// The thread that runs.
    current: u32,
    result: Option<Result<GridStep, KernelFailure>>,
}

impl Default for FiberJob {
    fn default() -> FiberJob {
        FiberJob {
            team: std::ptr::null_mut(),
            grid: std::ptr::null(),
            frames: std::ptr::null_mut(),
            stride: 0,
            current: 0,
            result: None,
        }
    }
}

impl Coroutines {
    /// Lays out a team's threads.
    pub fn begin(
        &mut self,
        team: &mut Team,
        stacks: &mut Stacks,
        grid: &Grid,
        begin: Begin,
        frame: usize,
    ) -> Result<(), KernelFailure> {
        let plan = &grid.plan;
        if self.usable != stacks.usable() {
            self.let_go(stacks);
            self.usable = stacks.usable();
        }
        if self.driver.is_none() {
            let stack = stacks.take().map_err(|error| no_stack(error, &plan.name))?;
            let job = &raw mut *self.job;
            // SAFETY: the fiber is given back before the job goes.
            self.driver = Some(unsafe { Fiber::with_stack_unchecked(stack, drive(job)) });
        }
        let lines = frame.div_ceil(size_of::<FrameLine>());
        // Frames a page apart would compete for the same lines of the cache.
        let lines = if lines.is_multiple_of(8) { lines + 1 } else { lines };
        if self.frames.len() < lines * team.count {
            self.frames.resize(lines * team.count, FrameLine([0; 64]));
        }
        self.job.stride = lines * size_of::<FrameLine>();
        self.job.frames = self.frames.as_mut_ptr().cast();
        for (index, thread) in team.threads[..team.count].iter_mut().enumerate() {
            let place = self.job.frames.wrapping_add(index * self.job.stride);
            thread.public.local = place;
            thread.public.local_bytes = frame as u64;
            // SAFETY: generated for this plan's arguments; it only fills the frame, which has the length that
            // it needs.
            unsafe { begin(&raw mut thread.public, plan.arguments.pointers(), place) };
        }
        Ok(())
    }

    /// Runs the threads until all have ended, or all that are left wait for what other blocks do.
    pub fn run(&mut self, team: &mut Team, grid: &Grid) -> Result<GridStep, KernelFailure> {
        self.job.team = team;
        self.job.grid = grid;
        let driver = self.driver.as_mut().expect("a block that has begun has a driver");
        let broken = match fault::resume(driver) {
            CoroutineResult::Yield(Pause::Done) => {
                return self
                    .job
                    .result
                    .take()
                    .expect("a driver that is done has a result");
            }
            CoroutineResult::Return(Exit::Fault { signal, address }) => Broken::Fault { signal, address },
            CoroutineResult::Yield(Pause::GivenUp) => Broken::GivenUp,
            other => unreachable!("a coroutine's services do not wait: {other:?}"),
        };
        Err(team.failure(grid, self.job.current, broken))
    }

    /// Gives the driver back if it is in the middle of a thread.
    pub fn end(&mut self, failed: bool, stacks: &mut Stacks) {
        if failed {
            self.let_go(stacks);
        }
    }

    fn let_go(&mut self, stacks: &mut Stacks) {
        if let Some(driver) = self.driver.take() {
            stacks.give(driver);
        }
    }
}

impl Drop for Coroutines {
    fn drop(&mut self) {
        self.let_go(&mut Stacks::default());
    }
}

/// What a driver does: runs blocks, one after another.
fn drive(job: *mut FiberJob) -> impl FnOnce(&Suspender, ()) -> Exit {
    move |suspender, ()| {
        loop {
            // SAFETY: the caller of `resume` has filled the job, and does not touch what it names until the
            // driver is suspended.
            let result = unsafe {
                let (frames, stride) = ((*job).frames, (*job).stride);
                (*(*job).team).advance(&*(*job).grid, |index, thread| {
                    (*job).current = index;
                    (*thread).suspender = suspender;
                    (*thread).stack_end = (&raw const suspender).cast();
                    let frame = frames.add(index as usize * stride);
                    let resume = frame.cast::<Resume>();
                    (*resume).expect("a thread that has ended is not resumed")(frame);
                    Ok(match *resume {
                        Some(_) => ThreadEvent::Waits,
                        None => ThreadEvent::Ended,
                    })
                })
            };
            // SAFETY: the job outlives the fiber, and its owner waits for the fiber now.
            unsafe { (*job).result = Some(result) };
            suspender.suspend(Pause::Done);
        }
    }
}
