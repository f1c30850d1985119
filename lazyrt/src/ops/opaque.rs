//! Functions without a treatment of their own: everything the process holds is bound and backed, then the
//! real function runs. From then on the process is tied to that GPU, for what the function made (a stream,
//! an event, a graph) may live there.

use std::ffi::c_void;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::bind::{self, Asked};
use crate::code::{Answer, Code, Own};
use crate::functions::FUNCTIONS;
use crate::gate::{self, Inside};
use crate::mode::{Mode, mode};
use crate::state::{self, Device, Key, State};
use crate::task::Shared;
use crate::{device, native, thread};

/// The program's devices that are tied to a GPU, one bit each; read without the lock.
static ANCHORED: AtomicU64 = AtomicU64::new(0);

/// Where the trampoline of the function at `index` goes on.
pub fn target(index: usize) -> *const c_void {
    let function = &FUNCTIONS[index];
    // A native function may be the first to load the driver, which then must know its MPS: so the mode is
    // decided before it, too.
    if mode() != Mode::Mgb || function.native || !native::has(index) {
        return native::address(index);
    }
    thread::with(|thread| thread.take_use());
    let touches = function.touches;
    match ready(touches) {
        Ok((inside, _)) => {
            if touches {
                gate::note_passing(&inside);
            }
            native::address(index)
        }
        Err(Own(code)) => {
            super::exports::record(code);
            answer_error as *const c_void
        }
    }
}

/// Answers in place of a function that could not be reached.
extern "C" fn answer_error() -> Code {
    thread::with(|thread| thread.error())
}

/// Runs a call that returns to lazyrt.
pub fn run(call: impl FnOnce() -> Code) -> Answer {
    let (inside, _) = ready(true)?;
    let code = call();
    drop(inside);
    Ok(code)
}

/// Called before every call of a library that uses CUDA by itself, by programs that the pass has seen: what the library
/// makes on its first call, and on each thread, then lies on the process's GPU, and it finds memory behind every address.
#[unsafe(no_mangle)]
pub extern "C" fn mgb_before_library() {
    if mode() == Mode::Mgb
        && let Ok((inside, _)) = ready(true)
    {
        gate::note_passing(&inside);
    }
}

/// Everything bound and backed, the GPU current, inside the gate.
fn ready(touches: bool) -> Result<(Inside, &'static Shared), Own> {
    loop {
        let shared =
            match state::lazy_shared().filter(|shared| shared.is_ready() && is_tied(state::current())) {
                Some(shared) => shared,
                None => anchor()?,
            };
        if touches {
            let others = state::lock().unready(state::current());
            for (key, own) in others {
                let gpu = own.then_some(shared.place().0);
                // What was refused stays so; the function sees what there is.
                let _ = bind::prepare(
                    key,
                    Asked {
                        gpu,
                        ..Asked::default()
                    },
                );
            }
        }
        let (gpu, ordinal) = shared.place();
        device::select(gpu, ordinal)?;
        let inside = gate::enter();
        if !shared.is_ready() {
            continue;
        }
        if touches {
            device::note_endless_work(gpu);
        }
        return Ok((inside, shared));
    }
}

/// Binds the lazy task, and ties the process to its GPU.
#[cold]
fn anchor() -> Result<&'static Shared, Own> {
    let (key, gpu): (Key, _) = {
        let mut state = state::lock();
        (state.lazy_task(), state.bound_gpu(state::current()))
    };
    let shared = bind::prepare(
        key,
        Asked {
            gpu,
            ..Asked::default()
        },
    )?;
    tie(state::current(), shared.place().0);
    Ok(shared)
}

/// Ties a device of the program to the GPU of its lazy task.
pub fn tie(device: Device, gpu: u32) {
    state::lock().tie(device, gpu);
    ANCHORED.fetch_or(1 << device, Ordering::Release);
}

/// Whether handles of the runtime tie any device of the program to a GPU.
pub fn is_anchored() -> bool {
    ANCHORED.load(Ordering::Acquire) != 0
}

fn is_tied(device: Device) -> bool {
    ANCHORED.load(Ordering::Acquire) & (1 << device) != 0
}

/// The device's handles are gone.
pub fn let_go(state: &mut State, device: Device) {
    state.untie(device);
    ANCHORED.fetch_and(!(1 << device), Ordering::Release);
}
