//! Pinned host memory. It is good for every GPU, so it ties the process to none. Before there is a context,
//! which pinning takes, memory is ordinary memory, and is pinned when the first context is made.

use std::collections::BTreeMap;
use std::ffi::c_void;

use mgb_abi::host::{HOST_ALLOC_FLAGS, HOST_REGISTER_FLAGS, HOST_REGISTER_MAPPED, HOST_REGISTER_PORTABLE};
use mgb_core::notice;
use parking_lot::Mutex;

use super::passthrough;
use crate::code::{Answer, Code, fail};
use crate::handles::{capture_wait, default};
use crate::{contexts, device, fault, native, thread};

/// Host memory that was asked for before there was a context.
struct Early {
    bytes: usize,
    /// The flags that `cudaHostRegister` is called with.
    flags: u32,
    /// lazyrt mapped it; else it is the program's own.
    mapped: bool,
    /// Whether the runtime has pinned it.
    pinned: bool,
}

static EARLY: Mutex<BTreeMap<usize, Early>> = Mutex::new(BTreeMap::new());

/// Flags that mean the same to `cudaHostAlloc` and to `cudaHostRegister`.
const REGISTER_SAME: u32 = HOST_REGISTER_PORTABLE | HOST_REGISTER_MAPPED;
/// Addresses of programs end before this one.
const ADDRESSES: usize = 1 << 56;
/// Pages are of this size at least.
const PAGE: usize = 4096;

/// `cudaMallocHost`.
///
/// # Safety
/// `out` is null or writable.
pub unsafe fn malloc(
    native: unsafe extern "C" fn(*mut *mut c_void, usize) -> Code,
    out: *mut *mut c_void,
    bytes: usize,
) -> Answer {
    // SAFETY: `out` is null or writable: contract of this function, and of `cudaMallocHost`.
    unsafe { new(out, bytes, 0, || native(out, bytes)) }
}

/// `cudaHostAlloc`.
///
/// # Safety
/// `out` is null or writable.
pub unsafe fn alloc(
    native: unsafe extern "C" fn(*mut *mut c_void, usize, u32) -> Code,
    out: *mut *mut c_void,
    bytes: usize,
    flags: u32,
) -> Answer {
    // SAFETY: `out` is null or writable: contract of this function, and of `cudaHostAlloc`.
    unsafe { new(out, bytes, flags, || native(out, bytes, flags)) }
}

/// # Safety
/// `out` is null or writable.
unsafe fn new(out: *mut *mut c_void, bytes: usize, flags: u32, native: impl FnOnce() -> Code) -> Answer {
    thread::with(|thread| thread.take_hint());
    default::note_shared();
    if contexts::any() || crate::foreign_cuda::is_open() {
        return passthrough::run_anywhere(native);
    }
    if out.is_null() || flags & !HOST_ALLOC_FLAGS != 0 {
        return fail(Code::INVALID_VALUE);
    }
    let Some(length) = bytes.checked_next_multiple_of(PAGE) else {
        return fail(Code::MEMORY_ALLOCATION);
    };
    if length == 0 {
        // SAFETY: `out` is not null, so it is writable: contract of this function.
        unsafe { out.write(std::ptr::null_mut()) };
        return Ok(Code::SUCCESS);
    }
    let mut early = EARLY.lock();
    if contexts::any() {
        // Another thread made a context meanwhile, and has pinned the early memory: this memory
        // would not be pinned.
        drop(early);
        return passthrough::run_anywhere(native);
    }
    // SAFETY: new memory of the process's own.
    let address = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            length,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        )
    };
    if address == libc::MAP_FAILED {
        return fail(Code::MEMORY_ALLOCATION);
    }
    early.insert(
        address as usize,
        Early {
            bytes: length,
            flags: flags & REGISTER_SAME,
            mapped: true,
            pinned: false,
        },
    );
    // SAFETY: `out` is not null, so it is writable: contract of this function.
    unsafe { out.write(address) };
    Ok(Code::SUCCESS)
}

/// `cudaFreeHost`.
///
/// # Safety
/// The arguments meet the contract of `cudaFreeHost`.
pub unsafe fn free(native: unsafe extern "C" fn(*mut c_void) -> Code, pointer: *mut c_void) -> Answer {
    thread::with(|thread| thread.take_hint());
    if pointer.is_null() {
        return Ok(Code::SUCCESS);
    }
    let found = {
        let mut early = EARLY.lock();
        match early.get(&(pointer as usize)) {
            Some(known) if known.mapped => early.remove(&(pointer as usize)),
            _ => None,
        }
    };
    let Some(known) = found else {
        return if contexts::any() {
            // SAFETY: the memory is not one that lazyrt mapped, so its address goes to the runtime as it is:
            // contract of `cudaFreeHost`.
            passthrough::run_anywhere(|| unsafe { native(pointer) })
        } else {
            fail(Code::INVALID_VALUE)
        };
    };
    let mut answer = Code::SUCCESS;
    if known.pinned {
        // What the GPUs were given to do with it comes first, as it does when the runtime frees pinned
        // memory.
        for (gpu, ordinal) in device::with_context() {
            let code = capture_wait::wait(gpu, ordinal)?;
            answer = if code.is_success() { answer } else { code };
        }
        // SAFETY: pinned by `context_made`.
        unsafe { native::cudaHostUnregister(pointer) };
    }
    // SAFETY: mapped by `new`, with that length, and the program is through with it.
    unsafe { libc::munmap(pointer, known.bytes) };
    Ok(answer)
}

/// `cudaHostRegister`.
///
/// # Safety
/// The arguments meet the contract of `cudaHostRegister`.
pub unsafe fn register(
    native: unsafe extern "C" fn(*mut c_void, usize, u32) -> Code,
    pointer: *mut c_void,
    bytes: usize,
    flags: u32,
) -> Answer {
    thread::with(|thread| thread.take_hint());
    default::note_shared();
    if contexts::any() || crate::foreign_cuda::is_open() {
        // SAFETY: the arguments are those that the program passed: contract of `cudaHostRegister`.
        return passthrough::run_anywhere(|| unsafe { native(pointer, bytes, flags) });
    }
    if pointer.is_null() || bytes == 0 || flags & !HOST_REGISTER_FLAGS != 0 {
        return fail(Code::INVALID_VALUE);
    }
    let start = pointer as usize;
    let Some(end) = start.checked_add(bytes).filter(|&end| end <= ADDRESSES) else {
        return fail(Code::INVALID_VALUE);
    };
    let mut early = EARLY.lock();
    let before = early.range(..end).next_back();
    if before.is_some_and(|(at, known)| at + known.bytes > start) {
        return fail(Code::HOST_MEMORY_ALREADY_REGISTERED);
    }
    early.insert(
        start,
        Early {
            bytes,
            flags,
            mapped: false,
            pinned: false,
        },
    );
    Ok(Code::SUCCESS)
}

/// `cudaHostUnregister`.
///
/// # Safety
/// The arguments meet the contract of `cudaHostUnregister`.
pub unsafe fn unregister(native: unsafe extern "C" fn(*mut c_void) -> Code, pointer: *mut c_void) -> Answer {
    thread::with(|thread| thread.take_hint());
    let found = {
        let mut early = EARLY.lock();
        match early.get(&(pointer as usize)) {
            Some(known) if !known.mapped => early.remove(&(pointer as usize)),
            _ => None,
        }
    };
    match found {
        Some(known) if !known.pinned => Ok(Code::SUCCESS),
        _ if contexts::any() => {
            // SAFETY: the runtime checks that the range is registered: contract of
            // `cudaHostUnregister`.
            passthrough::run_anywhere(|| unsafe { native(pointer) })
        }
        _ if pointer.is_null() => fail(Code::INVALID_VALUE),
        _ => fail(Code::HOST_MEMORY_NOT_REGISTERED),
    }
}

/// Whether the address is in memory that was asked for before there was a context.
pub fn is_early(pointer: *const c_void) -> bool {
    let early = EARLY.lock();
    let before = early.range(..=pointer as usize).next_back();
    before.is_some_and(|(start, known)| pointer as usize - start < known.bytes)
}

/// Whether all of a range is there. A program that gave memory back which it had registered notices nothing
/// natively.
fn is_mapped(address: usize, bytes: usize) -> bool {
    const PAGE: usize = 4096;
    let start = address / PAGE * PAGE;
    let pages = (address + bytes - start).div_ceil(PAGE);
    let mut resident = vec![0u8; pages];
    // SAFETY: the list has a byte for each page.
    unsafe { libc::mincore(start as *mut c_void, pages * PAGE, resident.as_mut_ptr()) == 0 }
}

/// The first context was made, and is current on this thread: pins the memory that was allocated before.
///
/// # Errors
/// The first one of the runtime. Kernels would fault on that memory, so the program hears of it.
pub fn context_made() -> Result<(), Code> {
    let mut pinned = Ok(());
    for (address, known) in EARLY.lock().iter_mut().filter(|(_, known)| !known.pinned) {
        // SAFETY: mapped by `new`, or the program's own memory, which it keeps until it takes it back.
        let code = unsafe { native::cudaHostRegister(*address as *mut c_void, known.bytes, known.flags) };
        known.pinned = code.is_success();
        if !known.pinned {
            // SAFETY: no arguments. The error is being dealt with.
            unsafe { native::cudaGetLastError() };
            fault::note(code);
            notice::once(
                "pin",
                format_args!(
                    "failed to pin {} bytes of host memory that the program took before it used a GPU (error {}): the \
                     first call that uses one answers that; is `ulimit -l` set?",
                    known.bytes, code.0
                ),
            );
            if known.mapped || is_mapped(*address, known.bytes) {
                pinned = pinned.and(Err(code));
            }
        }
    }
    pinned
}
