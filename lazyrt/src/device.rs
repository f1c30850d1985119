//! The GPUs of the grants as this process numbers them, and each thread's current one.

use std::sync::OnceLock;

use mgb_abi::stream::{
    CAPTURE_MODE_RELAXED, EVENT_DISABLE_TIMING, STREAM_LEGACY, STREAM_NON_BLOCKING, STREAM_PER_THREAD,
};
use mgb_core::backoff::Backoff;
use mgb_core::notice;
use mgb_core::{captures, files, work};
use mgb_probe::Gpu;
use mgb_probe::need::GRANULE;
use mgb_probe::wire::MAX_GPUS;
use parking_lot::Mutex;

use crate::code::{Code, Own, fail};
use crate::{contexts, driver_start, fault, foreign_cuda, native, session, thread};

/// Streams of lazyrt's own.
static STREAMS: Mutex<[usize; MAX_GPUS]> = Mutex::new([0; MAX_GPUS]);

/// Limits that the program set, for every context that is made.
static LIMITS: Mutex<Vec<(u32, usize)>> = Mutex::new(Vec::new());

/// The ordinal of a grant's GPU in this process.
pub fn ordinal(gpu: u32) -> Result<i32, Own> {
    static ORDINALS: OnceLock<Vec<Option<i32>>> = OnceLock::new();
    let driver = driver_start::required()?;
    let gpus = session::gpus();
    let ordinals = ORDINALS.get_or_init(|| {
        let seen = driver.uuids().unwrap_or_default();
        let find = |uuid: &str| seen.iter().position(|own| own.eq_ignore_ascii_case(uuid));
        gpus.iter()
            .map(|gpu| find(&gpu.uuid).map(|at| at as i32))
            .collect()
    });
    match ordinals.get(gpu as usize) {
        Some(Some(ordinal)) => Ok(*ordinal),
        _ => {
            let uuid = gpus.get(gpu as usize).map_or("?", |gpu| gpu.uuid.as_str());
            notice::once(
                "ordinal",
                format_args!(
                    "mgbd granted GPU {uuid}, which this process cannot see; check CUDA_VISIBLE_DEVICES, and that \
                     the program and mgbd use the same driver (both the GPU's, or both the software GPU's)"
                ),
            );
            fail(Code::NO_DEVICE)
        }
    }
}

/// The GPU that has this ordinal in this process.
pub fn at(ordinal: i32) -> Option<u32> {
    let gpus = session::gpus().len();
    (0..gpus as u32).find(|&gpu| self::ordinal(gpu).is_ok_and(|own| own == ordinal))
}

/// What the driver counts as free and never allocates, on an H200 the last 3.1 MiB, or takes for code and
/// variables as they are loaded.
pub const UNREACHABLE: u64 = 2 * GRANULE;

/// Bytes of a GPU that one process's tasks can have.
pub fn capacity(gpu: &Gpu) -> u64 {
    gpu.usable_bytes.saturating_sub(gpu.context_bytes)
}

/// The same of the GPU at an index.
pub fn capacity_of(gpu: u32) -> u64 {
    session::gpu(gpu).map_or(u64::MAX, capacity)
}

/// Bytes of a GPU's memory, as `cudaMemGetInfo` tells the program.
pub fn total_bytes(gpu: u32) -> Result<u64, Own> {
    let ordinal = ordinal(gpu)?;
    driver_start::required()?.total_bytes(ordinal).map_err(|failure| {
        notice::once(
            "total",
            format_args!("failed to ask for the memory of a GPU: {failure}"),
        );
        Own(Code::UNKNOWN)
    })
}

/// The GPUs with a context of this process, and their ordinals.
pub fn with_context() -> impl Iterator<Item = (u32, i32)> {
    contexts::gpus().filter_map(|gpu| Some((gpu, ordinal(gpu).ok()?)))
}

/// Makes the GPU current on this thread, with a context. Waits while the GPU is unavailable.
pub fn select(gpu: u32, ordinal: i32) -> Result<(), Own> {
    if thread::with(|thread| thread.is_on(ordinal)) {
        return Ok(());
    }
    // A context that the program made current by the driver API stays so: it is one of the only GPU that it
    // sees.
    if foreign_cuda::calls_driver() && driver_start::required()?.has_context(ordinal) {
        return note_context(gpu, ordinal);
    }
    choose(gpu, ordinal)
}

/// Makes the GPU's own context current on this thread, whatever was before.
pub fn choose(gpu: u32, ordinal: i32) -> Result<(), Own> {
    let turn = session::client()
        .filter(|_| !contexts::is_on(gpu))
        .map(|client| client.turn(true));
    let mut backoff = Backoff::begin();
    loop {
        // SAFETY: no pointers.
        let code = unsafe { native::cudaSetDevice(ordinal) };
        if code.is_success() {
            break;
        }
        // A device whose context is broken is current all the same: what comes next must not be taken for there.
        thread::with(thread::Thread::set_anywhere);
        // An existing context may be broken permanently, and after a fault there is no new one.
        let is_for_good = contexts::is_on(gpu) || fault::of_process().is_some();
        if is_for_good || !backoff.again(code, notice::unavailable) {
            return fail(code);
        }
        // SAFETY: no pointers. The error was this thread's, and is being dealt with.
        unsafe { native::cudaGetLastError() };
    }
    drop(turn);
    note_context(gpu, ordinal)
}

/// This thread is on the GPU now, and the process has a context there.
fn note_context(gpu: u32, ordinal: i32) -> Result<(), Own> {
    thread::with(|thread| thread.set_on(gpu, ordinal));
    let Some(setting_up) = contexts::note(gpu) else {
        return Ok(());
    };
    if let Some(client) = session::client() {
        session::context_made(gpu);
        if let Err(error) = files::pass(client) {
            notice::once("keep", format_args!("{}", files::failure(error)));
        }
        if foreign_cuda::is_open() {
            work::note_endless(gpu);
        }
    }
    // The driver may take long: other threads read the limits meanwhile.
    let limits = LIMITS.lock().clone();
    for (limit, value) in limits {
        // SAFETY: no pointers.
        unsafe { native::cudaDeviceSetLimit(limit, value) };
    }
    setting_up.run().or_else(fail)
}

/// Keeps a limit for contexts to come.
pub fn keep_limit(limit: u32, value: usize) {
    let mut limits = LIMITS.lock();
    limits.retain(|(known, _)| *known != limit);
    limits.push((limit, value));
}

/// The kept value of a limit.
pub fn limit(limit: u32) -> Option<usize> {
    LIMITS
        .lock()
        .iter()
        .find(|(known, _)| *known == limit)
        .map(|(_, value)| *value)
}

/// Waits for everything this process has under way on the GPU.
pub fn synchronize(gpu: u32, ordinal: i32) -> Result<Code, Own> {
    select(gpu, ordinal)?;
    let launches = session::launches_in_flight(gpu);
    let wait = work::wait(gpu);
    // SAFETY: no pointers.
    let code = unsafe { native::cudaDeviceSynchronize() };
    session::launches_finished(gpu, launches);
    if code.is_success() {
        wait.over();
    }
    Ok(code)
}

/// While the guard lives, this thread's calls do not invalidate a stream capture of another thread. lazyrt
/// makes calls that the program did not ask for: without the guard, CUDA would refuse them and end the
/// capture.
pub struct RelaxedCapture(Option<u32>);

impl RelaxedCapture {
    /// Sets the relaxed capture mode of this thread until the guard is dropped.
    pub fn begin() -> RelaxedCapture {
        if !contexts::any() {
            return RelaxedCapture(None);
        }
        let mut mode = CAPTURE_MODE_RELAXED;
        // SAFETY: exchanges one word, of this thread's own.
        unsafe { native::cudaThreadExchangeStreamCaptureMode(&mut mode) };
        RelaxedCapture(Some(mode))
    }
}

impl Drop for RelaxedCapture {
    fn drop(&mut self) {
        if let Some(mode) = &mut self.0 {
            // SAFETY: as in `begin`.
            unsafe { native::cudaThreadExchangeStreamCaptureMode(mode) };
        }
    }
}

/// A stream of lazyrt's own on the GPU, which is current on this thread.
pub fn own_stream(gpu: u32) -> Result<native::Stream, Own> {
    let mut streams = STREAMS.lock();
    let slot = &mut streams[gpu as usize % MAX_GPUS];
    let mut stream = *slot as native::Stream;
    if stream.is_null() {
        // SAFETY: writes one handle.
        let code = unsafe { native::cudaStreamCreateWithFlags(&mut stream, STREAM_NON_BLOCKING) };
        if !code.is_success() {
            return fail(code);
        }
        *slot = stream as usize;
    }
    Ok(stream)
}

/// Waits for what was given to the GPU's default streams. Unlike [`synchronize`] it leaves captures alone.
pub fn settle_default(gpu: u32, ordinal: i32) -> Result<Code, Own> {
    let _relaxed = RelaxedCapture::begin();
    select(gpu, ordinal)?;
    let code = settle_legacy();
    if !code.is_success() {
        return Ok(code);
    }
    // SAFETY: every GPU has this stream.
    Ok(unsafe { native::cudaStreamSynchronize(STREAM_PER_THREAD as native::Stream) })
}

/// Waits for the legacy stream of the current GPU, as an op in it would: for the streams that block it, too.
fn settle_legacy() -> Code {
    let mut event = std::ptr::null_mut();
    // SAFETY: writes one handle, which is used and destroyed here.
    unsafe {
        let code = native::cudaEventCreateWithFlags(&mut event, EVENT_DISABLE_TIMING);
        if !code.is_success() {
            return code;
        }
        let recorded = native::cudaEventRecord(event, STREAM_LEGACY as native::Stream);
        let code = if recorded.is_success() {
            native::cudaEventSynchronize(event)
        } else {
            recorded
        };
        native::cudaEventDestroy(event);
        code
    }
}

/// As [`synchronize`], for a wait that the program did not ask for, and that it may be in the middle of a
/// capture for. Whether the GPU has done its work, and is well.
pub fn settle_beside(gpu: u32, ordinal: i32) -> bool {
    captures::settle(|| settle(gpu, ordinal).is_ok_and(|code| code.is_success())).unwrap_or(false)
}

/// As [`synchronize`], for a wait that the program did not ask for in a call that forbids captures.
pub fn settle(gpu: u32, ordinal: i32) -> Result<Code, Own> {
    let _relaxed = RelaxedCapture::begin();
    synchronize(gpu, ordinal)
}

/// Tells mgbd of launches that have finished, for a process without streams of its own. Does not wait.
pub fn publish_finished() {
    for (gpu, ordinal) in with_context() {
        let launches = session::launches_in_flight(gpu);
        // SAFETY: the default stream.
        let idle = || unsafe { native::cudaStreamQuery(std::ptr::null_mut()) }.is_success();
        if launches > 0 && select(gpu, ordinal).is_ok() && idle() {
            session::launches_finished(gpu, launches);
        }
    }
}

/// Destroys the process's contexts, except those on GPUs whose bits are set in `keep`; calls `gone` for
/// the GPU of each. No memory of a destroyed context is mapped any more.
pub fn reset(keep: u64, gone: impl Fn(u32)) -> Code {
    let mut answer = Code::SUCCESS;
    for (gpu, ordinal) in with_context().filter(|(gpu, _)| keep & (1 << gpu) == 0) {
        STREAMS.lock()[gpu as usize % MAX_GPUS] = 0;
        let code = match select(gpu, ordinal) {
            // SAFETY: no pointers.
            Ok(()) => unsafe { native::cudaDeviceReset() },
            Err(Own(code)) => code,
        };
        gone(gpu);
        if !code.is_success() {
            answer = code;
        }
    }
    if keep == 0 {
        captures::forget_all();
        LIMITS.lock().clear();
    }
    answer
}
