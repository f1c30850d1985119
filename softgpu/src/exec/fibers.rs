//! Blocks whose threads wait for each other: a fiber per thread, switched where they wait.

use corosensei::CoroutineResult;

use super::calls;
use super::fault;
use super::fiber::{Exit, Fiber, Pause, Suspender};
use super::grid::{Counts, Failure, Grid};
use super::output::Output;
use super::plain::{fault_of, given_up, no_stack};
use super::pool::Bench;
use super::sync::Sync;
use super::thread::{Shared, Thread};
use crate::error::Error;

/// Runs blocks of a grid.
pub fn run(
    bench: &mut Bench,
    grid: &Grid,
    blocks: std::ops::Range<u64>,
    counts: &mut Counts,
    output: &mut Output,
) -> Result<(), Failure> {
    let mut shared = Shared {
        fibers: true,
        kernel: grid.plan.name.clone(),
        ..Shared::default()
    };
    let mut result = Ok(());
    for block in blocks {
        if result.is_err() || grid.cancelled() {
            break;
        }
        result = run_block(bench, grid, block, &raw mut shared, counts);
    }
    output.append(std::mem::take(&mut shared.output));
    result
}

fn run_block(
    bench: &mut Bench,
    grid: &Grid,
    block: u64,
    shared: *mut Shared,
    counts: &mut Counts,
) -> Result<(), Failure> {
    let plan = &grid.plan;
    let memory = bench.shared(plan);
    let mut public = calls::public(plan, memory);
    public.ctaid = grid.index(block);
    let count = plan.block.iter().product::<u32>();
    bench.threads.clear();
    bench.threads.extend((0..count).map(|index| {
        let mut thread = Thread::new(public, shared);
        thread.place(index);
        thread
    }));
    // From here on threads are reached through this pointer only; the vector does not grow.
    let threads = bench.threads.as_mut_ptr();
    let mut fibers = Vec::with_capacity(count as usize);
    for index in 0..count as usize {
        let stack = bench.stacks.take().map_err(|error| no_stack(error, &plan.name))?;
        // SAFETY: the index is below the vector's length.
        let own = unsafe { threads.add(index) };
        let body = move |suspender: &Suspender, ()| {
            // SAFETY: the thread outlives its fiber, and is the fiber's alone while that runs. The
            // entry is generated for this plan's image, whose slots are set at every switch.
            unsafe {
                (*own).suspender = suspender;
                (plan.entry)(&raw mut (*own).public, plan.arguments.pointers());
            }
            Exit::Done
        };
        // SAFETY: all fibers are given back below, before anything they borrow goes.
        fibers.push(unsafe { Fiber::with_stack_unchecked(stack, body) });
    }
    let result = switch(&mut fibers, threads, grid, shared);
    fibers.into_iter().for_each(|fiber| bench.stacks.give(fiber));
    bench
        .threads
        .iter()
        .for_each(|thread| counts.add(thread.public.ops));
    result
}

/// Runs the fibers of a block until all have ended.
fn switch(
    fibers: &mut [Fiber],
    threads: *mut Thread,
    grid: &Grid,
    shared: *mut Shared,
) -> Result<(), Failure> {
    let name = &grid.plan.name;
    let slots = calls::Slots::of(&grid.plan);
    let mut sync = Sync::new(fibers.len() as u32);
    while let Some(index) = sync.ready.pop_front() {
        // SAFETY: there is a thread per fiber, and none runs now.
        let thread = unsafe { &mut *threads.add(index as usize) };
        thread.answer = sync.answers[index as usize];
        slots.enter(std::ptr::from_mut(thread).cast());
        let result = fault::resume(&mut fibers[index as usize]);
        match result {
            CoroutineResult::Yield(Pause::Waiting) => sync.wait(index, thread.request),
            CoroutineResult::Return(Exit::Done) => sync.end(index),
            // SAFETY: the block's state outlives this call, and no thread runs now.
            CoroutineResult::Yield(Pause::GivenUp) => return Err(given_up(unsafe { &mut *shared }, name)),
            CoroutineResult::Return(Exit::Fault { signal, address }) => {
                return Err(fault_of(thread, name, signal, address));
            }
        }
    }
    if sync.over() {
        return Ok(());
    }
    // SAFETY: as above.
    let [x, y, z] = unsafe { (*threads).public.ctaid };
    Err(Failure {
        error: Error::LAUNCH_FAILURE,
        text: format!("kernel {name} hangs in block ({x},{y},{z}): {}", sync.describe()),
    })
}
