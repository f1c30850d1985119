//! Kernel launches. A launch of a task that is ready takes no lock and makes no system call.

use std::ffi::c_void;
use std::sync::{Arc, Once};

use mgb_abi::launch::{
    ATTRIBUTE_LAUNCH_COMPLETION_EVENT, ATTRIBUTE_PROGRAMMATIC_EVENT, Dim3, LaunchAttribute, LaunchConfig,
};
use mgb_abi::stream::STREAM_PER_THREAD;
use mgb_core::{gate, pace};
use mgb_probe::cancel;

use super::attempts::Attempts;
use super::kernel_call::KernelCall;
use super::parts::{self, Relaunch, Tried};
use super::{colocation, driver_memory, pacing, peers, run};
use crate::code::{Answer, Code};
use crate::handles::{self, HandleKind, on};
use crate::launch_view::LaunchView;
use crate::native::{Launch, Stream};
use crate::task_binding::{self, Asked};
use crate::thread::{self, SiteHint, Thread};
use crate::{device, foreign_cuda, in_flight, process_exit, session, state};

/// Runs `call` with the configuration as the runtime is to see it: its own stream, its own events.
///
/// # Safety
/// `attributes` of the configuration is null or has `count` elements.
unsafe fn configured(config: &LaunchConfig, call: impl FnOnce(*const LaunchConfig) -> Code) -> Code {
    let mut attributes = Vec::new();
    if !config.attributes.is_null() {
        // SAFETY: `attributes` is not null and has `count` elements: contract of this function.
        let given = unsafe { std::slice::from_raw_parts(config.attributes, config.count as usize) };
        let has_event = |attribute: &LaunchAttribute| {
            matches!(
                attribute.id,
                ATTRIBUTE_PROGRAMMATIC_EVENT | ATTRIBUTE_LAUNCH_COMPLETION_EVENT
            ) && handles::is_own(attribute.value.event())
        };
        if given.iter().any(has_event) {
            attributes = given.to_vec();
            for attribute in attributes.iter_mut().filter(|attribute| has_event(attribute)) {
                match handles::translate(HandleKind::Event, attribute.value.event()) {
                    Ok(event) => attribute.value = attribute.value.with_event(event),
                    Err(error) => return error.0,
                }
            }
        }
    }
    on(config.stream, |stream| {
        call(&LaunchConfig {
            stream,
            attributes: if attributes.is_empty() {
                config.attributes
            } else {
                attributes.as_mut_ptr()
            },
            ..*config
        })
    })
}

/// `cudaLaunchKernel`, `__cudaLaunchKernel`.
///
/// # Safety
/// The arguments meet the contract of `cudaLaunchKernel`.
pub unsafe fn kernel(
    native: Launch,
    kernel: *const c_void,
    grid: Dim3,
    block: Dim3,
    arguments: *mut *mut c_void,
    shared: usize,
    stream: Stream,
) -> Answer {
    let call = KernelCall {
        native,
        kernel,
        grid,
        block,
        arguments,
        shared,
    };
    match parts::wanted(&call) {
        // SAFETY: the arguments meet the contract of `cudaLaunchKernel`: contract of this function.
        Some(wanted) => unsafe { in_parts(wanted, call, stream) },
        // SAFETY: as above.
        None => unsafe { at_once(call, stream) },
    }
}

/// A launch in parts. It is waited for where what comes behind it in its stream may not be seen.
///
/// # Safety
/// It meets the contract of `cudaLaunchKernel`.
unsafe fn in_parts(wanted: parts::WantedParts, call: KernelCall, stream: Stream) -> Answer {
    // Others wait for what a thread holds that is cancelled here.
    let _stays = cancel::hold();
    let (hint, device) = thread::with(|thread| (thread.take_hint(), thread.program_device()));
    let KernelCall {
        grid, block, shared, ..
    } = call;
    let at = parts::default_of_thread(stream) as usize;
    let relaunch: Relaunch = Arc::new(move |run| {
        // Later parts are launched by another thread.
        thread::with(|thread| thread.set_program_device(device));
        launch(hint, grid, block, shared, |gpu| {
            on(at as Stream, |stream| run(gpu, stream))
        })
    });
    // SAFETY: contract of this function.
    let mut parted = Some(unsafe { wanted.launch(&call, at as Stream, Arc::clone(&relaunch)) });
    let answer = loop {
        let (mut is_blocked, mut is_over) = (false, false);
        let answer = relaunch(&mut |gpu, stream| {
            is_blocked = false;
            match parts::begin(&mut parted, gpu, stream) {
                Tried::Launched => Code::SUCCESS,
                Tried::Failed(code) => code,
                // SAFETY: contract of this function; the runtime's stream.
                Tried::Cannot => unsafe { noted(&call, gpu, stream) },
                Tried::Blocked => {
                    is_blocked = true;
                    Code::SUCCESS
                }
                Tried::Over => {
                    is_over = true;
                    Code::SUCCESS
                }
            }
        });
        if is_over {
            // SAFETY: contract of this function.
            return unsafe { at_once_as(hint, call, stream) };
        }
        if !is_blocked {
            break answer;
        }
        in_flight::settle();
    };
    if foreign_cuda::is_open() || at == STREAM_PER_THREAD {
        in_flight::settle();
    }
    answer
}

/// `cudaLaunchCooperativeKernel`: its blocks wait for each other.
///
/// # Safety
/// The arguments meet the contract of `cudaLaunchKernel`.
pub unsafe fn cooperative(
    native: Launch,
    kernel: *const c_void,
    grid: Dim3,
    block: Dim3,
    arguments: *mut *mut c_void,
    shared: usize,
    stream: Stream,
) -> Answer {
    let call = KernelCall {
        native,
        kernel,
        grid,
        block,
        arguments,
        shared,
    };
    // SAFETY: contract of this function.
    unsafe { at_once(call, stream) }
}

/// A launch of all blocks.
///
/// # Safety
/// It meets the contract of `cudaLaunchKernel`.
unsafe fn at_once(call: KernelCall, stream: Stream) -> Answer {
    let hint = thread::with(Thread::take_hint);
    // SAFETY: contract of this function.
    unsafe { at_once_as(hint, call, stream) }
}

/// As [`at_once`], for the task that the hint means.
///
/// # Safety
/// It meets the contract of `cudaLaunchKernel`.
unsafe fn at_once_as(hint: Option<SiteHint>, call: KernelCall, stream: Stream) -> Answer {
    in_flight::settle_before(stream);
    launch(hint, call.grid, call.block, call.shared, |gpu| {
        // SAFETY: contract of this function; the runtime's stream for the program's.
        on(stream, |stream| unsafe { noted(&call, gpu, stream) })
    })
}

/// Launches, in the runtime's stream.
///
/// # Safety
/// It meets the contract of `cudaLaunchKernel`.
#[inline]
unsafe fn noted(call: &KernelCall, gpu: u32, stream: Stream) -> Code {
    // SAFETY: contract of this function.
    let code = unsafe { call.launch(stream) };
    note(code, gpu, stream, call.kernel, call.grid);
    code
}

type LaunchEx = unsafe extern "C" fn(*const LaunchConfig, *const c_void, *mut *mut c_void) -> Code;

/// `cudaLaunchKernelExC`.
///
/// # Safety
/// The arguments meet the contract of `cudaLaunchKernelExC`.
pub unsafe fn kernel_ex(
    native: LaunchEx,
    config: *const LaunchConfig,
    kernel: *const c_void,
    arguments: *mut *mut c_void,
) -> Answer {
    // SAFETY: null or valid: contract of this function.
    let Some(read) = (unsafe { config.as_ref() }) else {
        return crate::code::fail(Code::INVALID_VALUE);
    };
    in_flight::settle_before(read.stream);
    let hint = thread::with(Thread::take_hint);
    launch(hint, read.grid, read.block, read.shared, |gpu| {
        // SAFETY: the program's arguments, and `configured` passes a valid configuration: contract of
        // `cudaLaunchKernelExC`.
        unsafe {
            configured(read, |config| {
                let code = native(config, kernel, arguments);
                note(code, gpu, (*config).stream, kernel, read.grid);
                code
            })
        }
    })
}

#[inline]
fn launch(
    hint: Option<SiteHint>,
    grid: Dim3,
    block: Dim3,
    shared: usize,
    mut call: impl FnMut(u32) -> Code,
) -> Answer {
    pace::before_launch(|| launching_gpu(hint));
    let ready = thread::with(|thread| {
        known(thread, hint).and_then(|known| {
            let inside = gate::enter();
            let is_ready = known.is_ready() && is_colocated(known) && peers::are_there(known);
            is_ready.then_some((known, inside))
        })
    });
    let answer = match ready {
        Some((known, inside)) => counted(known, inside, &mut call),
        None => slow(hint, grid, block, shared, &mut call),
    };
    if answer == Ok(Code::MEMORY_ALLOCATION) {
        let key = || state::lock().task_of_hint(hint);
        return driver_memory::again(key, || slow(hint, grid, block, shared, &mut call));
    }
    answer
}

/// A kernel was launched on the GPU, in the runtime's stream. Inside the gate: takes no lock.
#[inline]
fn note(code: Code, gpu: u32, stream: Stream, kernel: *const c_void, grid: Dim3) {
    if code.is_success() {
        pace::launched(gpu, stream as usize, || pace::key(kernel as u64, grid.product()));
    }
}

/// The task, if it can be found without a lock.
#[inline]
fn known(thread: &Thread, hint: Option<SiteHint>) -> Option<&'static LaunchView> {
    match hint {
        Some(hint) if hint.handle != 0 => thread
            .cached(hint.handle)
            .filter(|shared| shared.device() == thread.device())
            .or_else(|| state::lazy_shared().filter(|_| thread.has_joined(hint.handle))),
        Some(hint) if hint.site != 0 => None,
        _ => state::lazy_shared(),
    }
}

/// The GPU that the launch is likely to be on. Without a lock where its task is known: right behind the
/// launch before, an atomic read-modify-write takes a third as long as a launch.
fn launching_gpu(hint: Option<SiteHint>) -> Option<u32> {
    thread::with(|thread| known(thread, hint))
        .filter(|known| known.is_bound())
        .map(|known| known.placement().0)
        .or_else(pacing::current_gpu)
}

/// Whether the lazy task is on a GPU where the launch can reach its objects, which a kernel of a static
/// task may do through pointers in memory. No kernel of another task reaches the objects of a static
/// task: the pass proved that neither the host nor a kernel keeps their addresses
/// (docs/design/static-tasks.md).
#[inline]
fn is_colocated(shared: &LaunchView) -> bool {
    state::lazy_shared().is_none_or(|lazy| {
        std::ptr::eq(lazy, shared)
            || lazy.is_empty()
            || (lazy.is_ready() && lazy.placement().0 == shared.placement().0)
    })
}

static FIRST: Once = Once::new();

#[inline]
fn counted(shared: &LaunchView, inside: gate::Inside, call: impl FnOnce(u32) -> Code) -> Answer {
    let (gpu, _) = shared.placement();
    session::launch_started(gpu);
    let answer = run::on_ready(shared, inside, || call(gpu));
    process_exit::watch(&FIRST);
    answer
}

#[cold]
fn slow(
    hint: Option<SiteHint>,
    grid: Dim3,
    block: Dim3,
    shared: usize,
    call: impl FnOnce(u32) -> Code,
) -> Answer {
    // Room for it may be made by what they have.
    in_flight::settle();
    let asked = Asked {
        blocks: grid.product(),
        threads: u32::try_from(block.product()).unwrap_or(u32::MAX),
        shared: u32::try_from(shared).unwrap_or(u32::MAX),
        gpu: None,
    };
    let handle = hint.map(|hint| hint.handle).filter(|&handle| handle != 0);
    let key = state::lock().task_of_hint(hint);
    let mut attempts = Attempts::default();
    loop {
        let shared = task_binding::prepare(key, asked)?;
        if let Some(handle) = handle {
            if shared.is_of(handle) {
                thread::with(|thread| thread.cache(shared));
            } else if state::lock().means_lazy(handle) {
                thread::with(|thread| thread.note_joined(handle));
            }
        }
        let elsewhere = is_colocated(shared) || colocation::join(shared)?;
        if !peers::are_there(shared) {
            peers::bring(shared)?;
        }
        let inside = gate::enter();
        let are_peers_there = peers::are_there(shared);
        let lazy_is_there = || state::lazy_shared().is_none_or(LaunchView::is_ready);
        if are_peers_there && shared.is_ready() && is_colocated(shared) {
            return counted(shared, inside, call);
        }
        if are_peers_there && elsewhere && shared.is_ready() && lazy_is_there() {
            let answer = counted(shared, inside, call);
            // What the program does next on the other GPU comes after this launch.
            let (gpu, ordinal) = shared.placement();
            device::settle(gpu, ordinal)?;
            return answer;
        }
        drop(inside);
        let lazy = state::lock().lazy_task();
        attempts.failed(&[key, lazy])?;
    }
}
