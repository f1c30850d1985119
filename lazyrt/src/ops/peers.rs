//! Peers: which of the program's devices may reach which others' memory, and copies between them.
//!
//! Access that the program switches on is only noted: no context is made for it on a GPU that the device may
//! not land on. Before a launch of the one device, the other's objects are bound and backed, and lent to the
//! launch's GPU if they are on another; memory outside the arena becomes reachable by the runtime's own peer
//! access.

use std::ffi::c_void;
use std::sync::atomic::{AtomicU64, Ordering};

use mgb_abi::copy::DEFAULT;
use mgb_core::notice;
use mgb_probe::wire::MAX_GPUS;

use super::copy::{from_gpu_to_gpu, task_of};
use super::span::Span;
use super::{ordinals, two};
use crate::code::{Answer, Code, Own, fail};
use crate::handles::{capture, on};
use crate::launch_view::LaunchView;
use crate::native::{self, Stream};
use crate::state::{self, Device};
use crate::task_binding::{self, Asked};
use crate::{device, mapping, thread};

/// For each device, the devices whose memory it may reach, one bit each.
static REACH: [AtomicU64; MAX_GPUS] = [const { AtomicU64::new(0) }; MAX_GPUS];

fn reach_of(device: Device) -> impl Iterator<Item = Device> {
    let mask = REACH[device].load(Ordering::Acquire);
    (0..MAX_GPUS).filter(move |other| mask & (1 << other) != 0)
}

/// Whether kernels of the one device may reach the other's memory.
pub fn reaches(from: Device, to: Device) -> bool {
    from == to || REACH[from].load(Ordering::Acquire) & (1 << to) != 0
}

/// `cudaDeviceEnablePeerAccess`.
///
/// # Safety
/// None needed; the type is that of all treatments.
pub unsafe fn enable(_native: unsafe extern "C" fn(i32, u32) -> Code, peer: i32, flags: u32) -> Answer {
    let other = ordinals::check(peer)?;
    let own = state::current();
    if flags != 0 {
        return fail(Code::INVALID_VALUE);
    }
    let mut can = 0;
    if own != other {
        // SAFETY: writes one int.
        let code = unsafe { native::cudaDeviceCanAccessPeer(&mut can, own as i32, peer) };
        if !code.is_success() {
            return Ok(code);
        }
    }
    if can == 0 {
        return fail(Code::PEER_ACCESS_UNSUPPORTED);
    }
    let bit = 1 << other;
    if REACH[own].fetch_or(bit, Ordering::AcqRel) & bit != 0 {
        return fail(Code::PEER_ACCESS_ALREADY_ENABLED);
    }
    Ok(Code::SUCCESS)
}

/// `cudaDeviceDisablePeerAccess`. What was lent stays so until it is swapped out.
///
/// # Safety
/// None needed; the type is that of all treatments.
pub unsafe fn disable(_native: unsafe extern "C" fn(i32) -> Code, peer: i32) -> Answer {
    let other = ordinals::check(peer)?;
    let own = state::current();
    let bit = 1 << other;
    if REACH[own].fetch_and(!bit, Ordering::AcqRel) & bit == 0 {
        return fail(Code::PEER_ACCESS_NOT_ENABLED);
    }
    Ok(Code::SUCCESS)
}

/// The device was reset.
pub fn forget(device: Device) {
    REACH[device].store(0, Ordering::Release);
    for other in &REACH {
        other.fetch_and(!(1 << device), Ordering::AcqRel);
    }
}

/// Whether a launch of the task, by the current device, finds what the device may reach. Stable inside the
/// gate.
#[inline]
pub fn are_there(shared: &LaunchView) -> bool {
    let device = state::current();
    REACH[device].load(Ordering::Relaxed) == 0 || all_there(device, shared)
}

#[cold]
fn all_there(device: Device, shared: &LaunchView) -> bool {
    let gpu = shared.placement().0;
    reach_of(device).filter_map(state::lazy_shared_of).all(|peer| {
        // Without objects and unbound it has no memory of any kind.
        (peer.is_empty() && !peer.is_ready())
            || (peer.is_ready() && (peer.placement().0 == gpu || peer.is_lent(gpu)))
    })
}

/// Binds and backs the tasks of the devices that the current one may reach, and lends their memory to the GPU
/// of `shared`, which is current on this thread afterwards.
pub fn bring(shared: &LaunchView) -> Result<(), Own> {
    let _relaxed = device::RelaxedCapture::begin();
    let (gpu, ordinal) = shared.placement();
    for peer in reach_of(state::current()) {
        if state::lazy_shared_of(peer).is_none_or(|peer| peer.is_empty() && !peer.is_ready()) {
            continue;
        }
        let key = state::lock().lazy_task_of(peer);
        let (other, other_ordinal) = task_binding::prepare(key, Asked::default())?.placement();
        if other == gpu {
            continue;
        }
        device::select(gpu, ordinal)?;
        // SAFETY: no pointers. It may be on already.
        if !unsafe { native::cudaDeviceEnablePeerAccess(other_ordinal, 0) }.is_success() {
            // SAFETY: no pointers. The error was this call's.
            unsafe { native::cudaGetLastError() };
        }
        if let Err(failure) = mapping::lend(&mut state::lock_task_still(key), key, gpu, ordinal) {
            notice::once(
                "lend",
                format_args!(
                    "two devices of this program are peers, and on GPUs that cannot reach each other: {failure}"
                ),
            );
            return fail(Code::NOT_SUPPORTED);
        }
    }
    device::select(gpu, ordinal)
}

type PeerCopy = unsafe extern "C" fn(*mut c_void, i32, *const c_void, i32, usize) -> Code;
type PeerCopyAsync = unsafe extern "C" fn(*mut c_void, i32, *const c_void, i32, usize, Stream) -> Code;

/// `cudaMemcpyPeer`.
///
/// # Safety
/// The arguments meet the contract of `cudaMemcpyPeer`.
pub unsafe fn memcpy(
    _native: PeerCopy,
    dst: *mut c_void,
    dst_device: i32,
    src: *const c_void,
    src_device: i32,
    count: usize,
) -> Answer {
    // SAFETY: the arguments are those that the program passed: contract of `cudaMemcpyPeer`.
    unsafe { copy((dst, dst_device), (src, src_device), count, None) }
}

/// `cudaMemcpyPeerAsync`.
///
/// # Safety
/// The arguments meet the contract of `cudaMemcpyPeerAsync`.
pub unsafe fn memcpy_async(
    _native: PeerCopyAsync,
    dst: *mut c_void,
    dst_device: i32,
    src: *const c_void,
    src_device: i32,
    count: usize,
    stream: Stream,
) -> Answer {
    // SAFETY: the arguments are those that the program passed: contract of `cudaMemcpyPeerAsync`.
    unsafe { copy((dst, dst_device), (src, src_device), count, Some(stream)) }
}

/// The devices of the arguments only matter for memory outside the arena: where the arena's objects are
/// is known.
///
/// # Safety
/// The arguments meet the contract of `cudaMemcpyPeer`.
unsafe fn copy(
    (dst, to_device): (*mut c_void, i32),
    (src, from_device): (*const c_void, i32),
    count: usize,
    stream: Option<Stream>,
) -> Answer {
    thread::with(|thread| thread.take_hint());
    let (to_device, from_device) = (ordinals::check(to_device)?, ordinals::check(from_device)?);
    if count == 0 {
        return Ok(Code::SUCCESS);
    }
    let key = |address: u64, device| {
        let bytes = count as u64;
        let mut state = state::lock();
        let owner = task_of(&state, Span { address, bytes })?;
        Ok(owner.unwrap_or_else(|| state.lazy_task_of(device)))
    };
    let (to, from) = (key(dst as u64, to_device)?, key(src as u64, from_device)?);
    two::across(to, from, stream, |ordinals| {
        // SAFETY: the program's ranges, with the ordinals of the GPUs on which they are: contract of
        // `cudaMemcpyPeer`.
        unsafe {
            match stream {
                // A capture refuses the call: the runtime returns that error.
                Some(stream) if capture::is_capturing(stream) => {
                    let (to, from) = (ordinals.first, ordinals.second);
                    on(capture::named(stream), |stream| {
                        native::cudaMemcpyPeerAsync(dst, to, src, from, count, stream)
                    })
                }
                _ if !ordinals.are_one() => from_gpu_to_gpu(dst, src, count, &ordinals, stream),
                Some(stream) => on(capture::named(stream), |stream| {
                    native::cudaMemcpyAsync(dst, src, count, DEFAULT, stream)
                }),
                None => native::cudaMemcpy(dst, src, count, DEFAULT),
            }
        }
    })
}
