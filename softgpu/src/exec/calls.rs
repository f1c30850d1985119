//! The services that generated code calls.

use std::ffi::{CStr, c_char, c_void};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use super::block_memory::BlockMemory;
use super::device_heap;
use super::grid::{KernelFailure, LaunchPlan};
use super::matrix;
use super::output;
use super::textures;
use super::thread::{BlockThread, Reduce, WaitMode, WaitRequest, own};
use super::warp::{self, Shuffle, Vote, WarpRequest};
use crate::clock;
use crate::error::{Error, c_str};
use crate::image::{self, Calls};

/// The rate at which `clock64` counts on every device: programs compare counts of one device only.
static CLOCK_KHZ: AtomicU32 = AtomicU32::new(1_000_000);

/// Sets the rate: that of the process's first device.
pub fn set_clock(khz: u32) {
    CLOCK_KHZ.store(khz, Relaxed);
}

static CALLS: Calls = Calls {
    version: image::VERSION,
    count: 21,
    barrier,
    barrier_reduce,
    warp_sync,
    shuffle,
    vote,
    active_mask,
    trap,
    vprintf,
    assert_fail,
    clock: cycles,
    global_timer,
    barrier_arrive,
    yield_turn,
    exit,
    allocate,
    release,
    matrix: multiply,
    texture: textures::read,
    surface_read: textures::surface_read,
    surface_write: textures::surface_write,
    is_local,
};

/// What all threads of a block see alike.
pub fn public(plan: &LaunchPlan, memory: &BlockMemory) -> image::Thread {
    image::Thread {
        tid: [0; 3],
        ntid: plan.block,
        ctaid: [0; 3],
        nctaid: plan.grid,
        lane: 0,
        warp: 0,
        shared: memory.fixed,
        dynamic_shared: memory.dynamic,
        calls: &CALLS,
        ops: 0,
        shared_end: memory.end,
        polls: 0,
        workspace: plan
            .workspace
            .as_ref()
            .map_or(std::ptr::null_mut(), |workspace| workspace.address()),
        poll_value: 0,
        poll_place: std::ptr::null(),
        local: std::ptr::null_mut(),
        local_bytes: 0,
        answer: 0,
    }
}

/// Where an image's code finds its state, on this OS thread.
pub struct Slots {
    thread: Option<*mut *mut image::Thread>,
}

impl Slots {
    /// Finds the slots, and says where the variables are.
    pub fn of(plan: &LaunchPlan) -> Slots {
        // SAFETY: the image's own functions, which return the addresses of thread-local pointers.
        unsafe {
            if let Some(slot) = plan.image.variables_slot {
                *slot() = plan.variables as *mut u8;
            }
            Slots {
                thread: plan.image.self_slot.map(|slot| slot()),
            }
        }
    }

    /// Says which thread runs next.
    pub fn enter(&self, thread: *mut image::Thread) {
        if let Some(slot) = self.thread {
            // SAFETY: the address of a thread-local pointer of the OS thread that this runs on.
            unsafe { *slot = thread };
        }
    }
}

/// Waits, where waiting is possible.
#[inline(always)]
fn wait(thread: &mut BlockThread, request: WaitRequest, what: &str) -> u32 {
    // SAFETY: the block outlives its threads, and only one of them runs at a time.
    let shared = unsafe { &*thread.block };
    if shared.waiting == WaitMode::Never {
        cannot_wait(thread, what);
    }
    thread.wait(request)
}

#[cold]
fn cannot_wait(thread: &mut BlockThread, what: &str) -> ! {
    // SAFETY: the block outlives its threads, and only one of them runs at a time.
    let kernel = unsafe { &(*thread.block).kernel };
    let text = format!(
        "kernel {kernel} calls {what}, but was not translated as one whose threads wait for each other ({})",
        thread.position()
    );
    thread.fail(KernelFailure {
        error: Error::LAUNCH_FAILURE,
        text,
    })
}

unsafe extern "C" fn barrier(thread: *mut image::Thread, id: u32, threads: u32) {
    // SAFETY: called by generated code with its own thread.
    let thread = unsafe { own(thread) };
    wait(
        thread,
        WaitRequest::Barrier {
            id,
            threads,
            reduce: None,
            predicate: false,
        },
        "a barrier",
    );
}

unsafe extern "C" fn barrier_reduce(
    thread: *mut image::Thread,
    id: u32,
    threads: u32,
    kind: u32,
    predicate: u32,
) -> u32 {
    // SAFETY: called by generated code with its own thread.
    let thread = unsafe { own(thread) };
    let reduce = match kind {
        0 => Reduce::Count,
        1 => Reduce::And,
        _ => Reduce::Or,
    };
    let request = WaitRequest::Barrier {
        id,
        threads,
        reduce: Some(reduce),
        predicate: predicate != 0,
    };
    wait(thread, request, "a barrier")
}

unsafe extern "C" fn barrier_arrive(thread: *mut image::Thread, id: u32, threads: u32) {
    // SAFETY: called by generated code with its own thread.
    let thread = unsafe { own(thread) };
    wait(thread, WaitRequest::Arrive { id, threads }, "a barrier");
}

unsafe extern "C" fn warp_sync(thread: *mut image::Thread, mask: u32) {
    // SAFETY: called by generated code with its own thread.
    let thread = unsafe { own(thread) };
    wait(
        thread,
        WaitRequest::Warp(WarpRequest::Sync { mask }),
        "__syncwarp",
    );
}

unsafe extern "C" fn shuffle(
    thread: *mut image::Thread,
    kind: u32,
    mask: u32,
    value: u32,
    lane: u32,
    clamp: u32,
    in_range: *mut u8,
) -> u32 {
    // SAFETY: called by generated code with its own thread.
    let thread = unsafe { own(thread) };
    let kind = match kind {
        0 => Shuffle::Index,
        1 => Shuffle::Up,
        2 => Shuffle::Down,
        _ => Shuffle::Butterfly,
    };
    if !in_range.is_null() {
        let (_, inside) = warp::source(kind, thread.public.lane, lane, clamp);
        // SAFETY: generated code passes null or the address of a byte of its own.
        unsafe { *in_range = u8::from(inside) };
    }
    let request = WarpRequest::Shuffle {
        mask,
        kind,
        value,
        lane,
        clamp,
    };
    wait(thread, WaitRequest::Warp(request), "a warp shuffle")
}

unsafe extern "C" fn vote(thread: *mut image::Thread, kind: u32, mask: u32, predicate: u32) -> u32 {
    // SAFETY: called by generated code with its own thread.
    let thread = unsafe { own(thread) };
    let kind = match kind {
        0 => Vote::All,
        1 => Vote::Any,
        2 => Vote::Uniform,
        _ => Vote::Ballot,
    };
    let request = WarpRequest::Vote {
        mask,
        kind,
        predicate: predicate != 0,
    };
    wait(thread, WaitRequest::Warp(request), "a warp vote")
}

unsafe extern "C" fn multiply(thread: *mut image::Thread, shape: u64, operands: *mut c_void) {
    // SAFETY: called by generated code with its own thread.
    let thread = unsafe { own(thread) };
    if !matrix::is_known(shape) {
        // SAFETY: the block outlives its threads, and only one of them runs at a time.
        let kernel = unsafe { &(*thread.block).kernel };
        let text = format!(
            "kernel {kernel} multiplies matrices in a way that this software GPU does not have (shape {shape:#x})"
        );
        thread.fail(KernelFailure {
            error: Error::LAUNCH_FAILURE,
            text,
        })
    }
    thread.public.ops += matrix::instructions(shape);
    let operands = operands.cast();
    let request = WarpRequest::Matrix { shape, operands };
    wait(thread, WaitRequest::Warp(request), "a matrix instruction");
}

unsafe extern "C" fn active_mask(thread: *mut image::Thread, site: u32) -> u32 {
    // SAFETY: called by generated code with its own thread.
    let thread = unsafe { own(thread) };
    // SAFETY: the block outlives its threads, and only one of them runs at a time.
    if unsafe { (*thread.block).waiting } == WaitMode::Never {
        return 1 << thread.public.lane;
    }
    thread.wait(WaitRequest::Warp(WarpRequest::Active { site }))
}

unsafe extern "C" fn trap(thread: *mut image::Thread, what: *const c_char) {
    // SAFETY: called by generated code with its own thread, and a constant string or null.
    let (thread, what) = unsafe { (own(thread), c_str(what)) };
    // SAFETY: the block outlives its threads, and only one of them runs at a time.
    let kernel = unsafe { &(*thread.block).kernel };
    let what = what.map_or_else(|| "trap".into(), CStr::to_string_lossy);
    let text = format!("kernel {kernel} stopped: {what} ({})", thread.position());
    thread.fail(KernelFailure {
        error: Error::LAUNCH_FAILURE,
        text,
    })
}

unsafe extern "C" fn vprintf(
    thread: *mut image::Thread,
    format: *const c_char,
    arguments: *const c_void,
) -> i32 {
    // SAFETY: called by generated code with its own thread, and with what `vprintf` gets on a device.
    let (thread, format) = unsafe { (own(thread), c_str(format)) };
    let Some(format) = format else { return -1 };
    // SAFETY: `arguments` holds what `format` asks for: contract of the device's `vprintf`.
    let (text, count) = unsafe { output::format(format.to_bytes(), arguments.cast()) };
    // SAFETY: the block outlives its threads, and only one of them runs at a time.
    unsafe { (*thread.block).output.push(&text) };
    count
}

unsafe extern "C" fn assert_fail(
    thread: *mut image::Thread,
    message: *const c_char,
    file: *const c_char,
    line: u32,
    function: *const c_char,
) {
    // SAFETY: called by generated code with its own thread, and constant strings or null.
    let (thread, parts) = unsafe { (own(thread), [message, file, function].map(|part| c_str(part))) };
    let [message, file, function] = parts.map(|part| part.unwrap_or(c"").to_string_lossy());
    let ([bx, by, bz], [tx, ty, tz]) = (thread.public.ctaid, thread.public.tid);
    let text = format!(
        "{file}:{line}: {function}: block: [{bx},{by},{bz}], thread: [{tx},{ty},{tz}] Assertion `{message}` failed."
    );
    thread.fail(KernelFailure {
        error: Error::ASSERT,
        text,
    })
}

unsafe extern "C" fn cycles(_: *mut image::Thread) -> u64 {
    (u128::from(clock::now()) * u128::from(CLOCK_KHZ.load(Relaxed)) / 1_000_000) as u64
}

unsafe extern "C" fn global_timer(_: *mut image::Thread) -> u64 {
    clock::now()
}

unsafe extern "C" fn yield_turn(thread: *mut image::Thread) {
    // SAFETY: called by generated code with its own thread.
    unsafe { own(thread) }.turn();
}

unsafe extern "C" fn exit(thread: *mut image::Thread) {
    // SAFETY: called by generated code with its own thread.
    unsafe { own(thread) }.end()
}

unsafe extern "C" fn allocate(_: *mut image::Thread, bytes: u64) -> *mut c_void {
    device_heap::allocate(bytes).cast()
}

unsafe extern "C" fn is_local(thread: *mut image::Thread, address: *const c_void) -> u32 {
    // What calls a service lies above the service's own variables.
    let here = (&raw const thread).addr();
    // SAFETY: called by generated code with its own thread.
    let thread = unsafe { own(thread) };
    let frame = thread.public.local.addr();
    let frame = frame..frame + thread.public.local_bytes as usize;
    let stack = here..thread.stack_end.addr();
    u32::from(frame.contains(&address.addr()) || stack.contains(&address.addr()))
}

unsafe extern "C" fn release(thread: *mut image::Thread, memory: *mut c_void) {
    if device_heap::release(memory.cast()) {
        return;
    }
    // SAFETY: called by generated code with its own thread.
    let thread = unsafe { own(thread) };
    // SAFETY: the block outlives its threads, and only one of them runs at a time.
    let kernel = unsafe { &(*thread.block).kernel };
    let text = format!(
        "kernel {kernel} frees {memory:p}, which its malloc did not give or which is free already ({})",
        thread.position()
    );
    thread.fail(KernelFailure {
        error: Error::LAUNCH_FAILURE,
        text,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asks(thread: &mut BlockThread, address: usize) -> bool {
        // Inlined it would have no frame of its own.
        let is_local = std::hint::black_box(CALLS.is_local);
        // SAFETY: a thread of this test, of which it only takes addresses.
        unsafe { is_local((&raw mut *thread).cast(), address as *const c_void) != 0 }
    }

    #[test]
    fn what_lies_just_above_a_stack_is_not_the_threads_own() {
        // SAFETY: numbers and raw pointers, all of which may be zero.
        let mut thread = BlockThread::new(unsafe { std::mem::zeroed() }, std::ptr::null_mut());
        let stack = [0u8; 64];
        let stack_end = stack.as_ptr().addr() + stack.len();
        thread.stack_end = stack_end as *const u8;
        assert!(asks(&mut thread, stack.as_ptr().addr()));
        assert!(asks(&mut thread, stack_end - 1));
        assert!(!asks(&mut thread, stack_end));
        assert!(!asks(&mut thread, stack_end + 4096));
        // A coroutine's own lie in its frame as well.
        let frame = Box::new([0u8; 64]);
        let start = frame.as_ptr().addr();
        assert!(!asks(&mut thread, start));
        (thread.public.local, thread.public.local_bytes) = (start as *mut u8, 64);
        assert!(asks(&mut thread, start));
        assert!(asks(&mut thread, start + 63));
        assert!(!asks(&mut thread, start + 64));
    }
}
