//! Functions without a treatment of their own: everything the process holds is bound and backed, then the
//! real function runs. What it made (a graph, a texture, a library's handle) may live on that GPU: then
//! the process is tied to that GPU. A function that only queries needs a context on any GPU.

use std::ffi::c_void;
use std::sync::Once;

use mgb_core::gate::{self, Inside};
use mgb_core::work;

use super::attempts::Attempts;
use super::{errors, ordinals};
use crate::code::{Answer, Code, Own};
use crate::functions::{ArgumentPlace, FUNCTIONS, Function, Translated};
use crate::handles::{self, HandleKind};
use crate::launch_view::LaunchView;
use crate::session::{self, Mode, mode};
use crate::state::{self, Key, WithObjects};
use crate::task_binding::{self, Asked};
use crate::{device, driver_start, in_flight, native, process_exit, thread};

/// Whether the end of the process is waited for.
static FIRST: Once = Once::new();

/// The integer arguments of a call, as a trampoline has saved them.
pub struct Arguments {
    /// Those in registers, in their order.
    pub registers: *mut *mut c_void,
    /// Those on the stack.
    pub stack: *mut *mut c_void,
}

impl Arguments {
    fn at(&self, place: ArgumentPlace) -> *mut *mut c_void {
        match place {
            ArgumentPlace::Register(at) => self.registers.wrapping_add(at),
            ArgumentPlace::Stack(at) => self.stack.wrapping_add(at),
        }
    }

    /// Gives the runtime its own numbers for the program's devices, which have a GPU afterwards.
    fn translate_devices(&self, function: &Function) -> Result<(), Own> {
        for (place, _) in of(function, |what| what == Translated::Device) {
            let argument = self.at(*place);
            // SAFETY: the build script counted the arguments of this very function; they are the callee's to
            // change.
            unsafe {
                let device = argument.read() as usize as i32;
                argument.write(ordinals::real(device)? as u32 as usize as *mut c_void);
            }
        }
        Ok(())
    }

    /// Gives the runtime its own streams and events for the program's. Inside the gate.
    fn translate_handles(&self, function: &Function) -> Result<(), Own> {
        for (place, what) in of(function, |what| what != Translated::Device) {
            let kind = match what {
                Translated::Stream => HandleKind::Stream,
                _ => HandleKind::Event,
            };
            let argument = self.at(*place);
            // SAFETY: the build script counted the arguments of this very function; they are the callee's to
            // change.
            unsafe { argument.write(handles::translate(kind, argument.read())?) };
        }
        Ok(())
    }
}

fn of(
    function: &Function,
    is_meant: impl Fn(Translated) -> bool,
) -> impl Iterator<Item = &'static (ArgumentPlace, Translated)> {
    function
        .translated
        .iter()
        .filter(move |(_, what)| is_meant(*what))
}

/// The address to which the trampoline of the function at `index` jumps.
pub fn target(index: usize, arguments: &Arguments) -> *const c_void {
    let function = &FUNCTIONS[index];
    // A native function may be the first to load the driver, which then must know its MPS: so the mode is
    // decided before it, too.
    let mode = mode();
    if mode == Mode::Forked && function.initialises {
        // The runtime may not know that its driver was used: lazyrt uses it, too.
        errors::record(Code::INITIALIZATION);
        return answer_error as *const c_void;
    }
    if mode != Mode::Mgb || function.native || !native::has(index) {
        if mode == Mode::Mgb && function.initialises {
            session::note_use();
            // With the GPUs that mgbd shares, and in the process's turn. What fails the runtime says by
            // itself.
            let _ = driver_start::get();
        }
        return native::address(index);
    }
    in_flight::settle();
    thread::with(|thread| thread.take_hint());
    let ready = || {
        arguments.translate_devices(function)?;
        let inside = ready(function.touches, function.anchors, function.copies)?;
        arguments.translate_handles(function)?;
        Ok(inside)
    };
    match ready() {
        Ok(inside) => {
            if function.touches {
                gate::note_passing(&inside);
            }
            native::address(index)
        }
        Err(Own(code)) => {
            errors::record(code);
            answer_error as *const c_void
        }
    }
}

/// Answers in place of a function that could not be reached.
extern "C" fn answer_error() -> Code {
    thread::with(|thread| thread.error())
}

/// Runs a call that looks at memory objects, or makes something that will.
pub fn run(call: impl FnOnce() -> Code) -> Answer {
    run_ready(ready(true, true, false)?, call)
}

/// As [`run`], for a call that describes a copy, which may be between GPUs.
pub fn run_copy(call: impl FnOnce() -> Code) -> Answer {
    run_ready(ready(true, true, true)?, call)
}

fn run_ready(inside: Inside, call: impl FnOnce() -> Code) -> Answer {
    let code = call();
    drop(inside);
    Ok(code)
}

/// Called before every call of a library that uses CUDA by itself, by programs that the pass has
/// compiled: what the library makes on its first call, and on each thread, is then on the process's GPU,
/// and there is memory behind every address that it uses.
#[unsafe(no_mangle)]
pub extern "C" fn mgb_before_library() {
    if mode() == Mode::Mgb {
        in_flight::settle();
        if let Ok(inside) = ready(true, true, false) {
            gate::note_passing(&inside);
        }
    }
}

/// Runs a call that accesses no memory object, and makes or uses what belongs to one GPU.
pub fn run_blind(call: impl FnOnce() -> Code) -> Answer {
    run_ready(ready(false, true, false)?, call)
}

/// Runs a call that needs a context, on any GPU.
pub fn run_anywhere(call: impl FnOnce() -> Code) -> Answer {
    task_binding::be_somewhere()?;
    Ok(call())
}

/// Everything bound and backed as far as the function needs it, the GPU current, inside the gate. What this
/// GPU was lent by others before it is lent again, since a graph may use it; for a function that describes a
/// copy, everything is.
fn ready(touches: bool, anchors: bool, copies: bool) -> Result<Inside, Own> {
    if !touches && !anchors {
        task_binding::be_somewhere()?;
        return Ok(gate::enter());
    }
    let mut attempts = Attempts::default();
    loop {
        let tied = state::is_tied(state::current());
        let ready = state::lazy_shared().filter(|shared| shared.is_ready() && (tied || !anchors));
        let shared = match ready {
            Some(shared) => shared,
            None if anchors => anchor()?,
            None => task_binding::lazy()?,
        };
        let others = if touches { others(shared) } else { Vec::new() };
        let (gpu, ordinal) = shared.placement();
        let mut lenders = Vec::new();
        if touches && state::may_be_several() {
            lenders = state::lock().lenders(gpu, copies);
            for (key, lender) in &lenders {
                if !lender.is_lent(gpu) {
                    super::run::lend(*key, (gpu, ordinal))?;
                }
            }
        }
        device::select(gpu, ordinal)?;
        let inside = gate::enter();
        let is_lent = |lender: &LaunchView| lender.is_ready() && lender.is_lent(gpu);
        // A swap may have come between.
        let are_there = shared.is_ready() && others.iter().all(|(_, other)| other.is_ready());
        if !are_there || !lenders.iter().all(|(_, lender)| is_lent(lender)) {
            drop(inside);
            let keys: Vec<Key> = others.iter().map(|(key, _)| *key).collect();
            attempts.failed(&keys)?;
            continue;
        }
        if touches {
            work::note_endless(gpu);
            process_exit::watch(&FIRST);
        }
        return Ok(inside);
    }
}

/// Binds and backs the other tasks of the process, those of the current device where `lazy`, its lazy task,
/// is. What was refused stays so, and is none of them: the call sees what there is.
fn others(lazy: &LaunchView) -> Vec<(Key, &'static LaunchView)> {
    let gpu = lazy.placement().0;
    let all = state::lock().with_objects(state::current());
    let ready = |task: WithObjects| {
        let asked = Asked {
            gpu: task.is_own.then_some(gpu),
            ..Asked::default()
        };
        let shared = if task.is_ready {
            Ok(task.shared)
        } else {
            task_binding::prepare(task.key, asked)
        };
        Some((task.key, shared.ok()?))
    };
    all.into_iter().filter_map(ready).collect()
}

/// Binds the lazy task, and ties the process to its GPU.
#[cold]
fn anchor() -> Result<&'static LaunchView, Own> {
    let shared = task_binding::lazy()?;
    state::tie(state::current(), shared.placement().0);
    Ok(shared)
}
