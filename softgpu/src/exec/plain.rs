//! Blocks whose threads never wait for each other: one thread after another, on one stack.

use corosensei::CoroutineResult;

use super::calls;
use super::fault;
use super::fiber::{Exit, Fiber};
use super::grid::{Counts, Failure, Grid};
use super::output::Output;
use super::pool::Bench;
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
    let plan = &grid.plan;
    let memory = bench.shared(plan);
    let mut shared = Shared {
        kernel: plan.name.clone(),
        ..Shared::default()
    };
    let mut thread = Thread::new(calls::public(plan, memory), &mut shared);
    let slots = calls::Slots::of(plan);
    let stack = bench.stacks.take().map_err(|error| no_stack(error, &plan.name))?;
    let per_block = plan.block.iter().product::<u32>();
    let (own, total) = (&raw mut thread, &raw mut *counts);
    let body = move |suspender: &super::fiber::Suspender, ()| {
        // SAFETY: `thread` and `counts` outlive the fiber, and nothing else touches them while it
        // runs. The entry is generated for this plan's image, whose slots are set.
        unsafe {
            (*own).suspender = suspender;
            for block in blocks {
                if grid.cancelled() {
                    break;
                }
                (*own).public.ctaid = grid.index(block);
                for index in 0..per_block {
                    (*own).place(index);
                    (plan.entry)(&raw mut (*own).public, plan.arguments.pointers());
                    (*total).add((*own).public.ops);
                }
            }
        }
        Exit::Done
    };
    // SAFETY: the fiber is given back below, before anything it borrows goes.
    let mut fiber = unsafe { Fiber::with_stack_unchecked(stack, body) };
    slots.enter(own.cast());
    let result = fault::resume(&mut fiber);
    bench.stacks.give(fiber);
    output.append(std::mem::take(&mut shared.output));
    match result {
        CoroutineResult::Return(Exit::Done) => Ok(()),
        CoroutineResult::Return(Exit::Fault { signal, address }) => {
            Err(fault_of(&thread, &plan.name, signal, address))
        }
        CoroutineResult::Yield(_) => Err(given_up(&mut shared, &plan.name)),
    }
}

/// Why a thread was given up: what it noted itself.
pub fn given_up(shared: &mut Shared, kernel: &str) -> Failure {
    let unknown = || Failure {
        error: Error::LAUNCH_FAILURE,
        text: format!("kernel {kernel} gave up"),
    };
    shared.failure.take().unwrap_or_else(unknown)
}

/// A fault of the machine in CUDA's terms.
pub fn fault_of(thread: &Thread, kernel: &str, signal: i32, address: usize) -> Failure {
    let at = thread.position();
    match signal {
        libc::SIGSEGV | libc::SIGBUS => Failure {
            error: Error::ILLEGAL_ADDRESS,
            text: format!("kernel {kernel} touched {address:#x}, where it has no memory ({at})"),
        },
        libc::SIGILL => Failure {
            error: Error::LAUNCH_FAILURE,
            text: format!("kernel {kernel} executed a trap or an illegal instruction ({at})"),
        },
        _ => Failure {
            error: Error::LAUNCH_FAILURE,
            text: format!("kernel {kernel} stopped with signal {signal} ({at})"),
        },
    }
}

/// The host has no room for a stack.
pub fn no_stack(error: Error, kernel: &str) -> Failure {
    let text = format!("failed to run kernel {kernel}: no memory for the stacks of its threads");
    Failure { error, text }
}
