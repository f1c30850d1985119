//! Streams.

use std::ffi::{c_int, c_uint, c_void};

use super::{put, runtime};
use crate::device::current;
use crate::error::{Error, Result};
use crate::stream::set::NON_BLOCKING;
use crate::stream::{GREATEST_PRIORITY, handle};

type HostFunction = unsafe extern "C" fn(*mut c_void);
type Callback = unsafe extern "C" fn(usize, c_int, *mut c_void);

/// A pointer of the program's, on its way to a callback.
struct UserData(*mut c_void);

// SAFETY: it is only handed back; what it points to is the program's affair.
unsafe impl Send for UserData {}

impl UserData {
    fn get(&self) -> *mut c_void {
        self.0
    }
}

fn create(flags: c_uint, priority: c_int) -> Result<usize> {
    if flags & !NON_BLOCKING != 0 {
        return Err(Error::INVALID_VALUE);
    }
    let gpu = current::active()?;
    let priority = priority.clamp(GREATEST_PRIORITY, 0);
    Ok(handle::publish(gpu.streams.create(flags, priority)))
}

runtime! {
    fn cudaStreamCreate(stream: *mut usize) {
        put!(stream, create(0, 0)?);
        Ok(())
    }

    fn cudaStreamCreateWithFlags(stream: *mut usize, flags: c_uint) {
        put!(stream, create(flags, 0)?);
        Ok(())
    }

    fn cudaStreamCreateWithPriority(stream: *mut usize, flags: c_uint, priority: c_int) {
        put!(stream, create(flags, priority)?);
        Ok(())
    }

    fn cudaStreamDestroy(stream: usize) {
        handle::take(stream)?.close();
        Ok(())
    }

    fn cudaStreamSynchronize(stream: usize) {
        let (gpu, stream) = handle::resolve(stream)?;
        stream.fence().wait();
        gpu.check()
    }

    fn cudaStreamQuery(stream: usize) {
        let (gpu, stream) = handle::resolve(stream)?;
        let passed = stream.fence().passed();
        gpu.check()?;
        if passed { Ok(()) } else { Err(Error::NOT_READY) }
    }

    fn cudaStreamGetFlags(stream: usize, flags: *mut c_uint) {
        put!(flags, handle::resolve(stream)?.1.flags);
        Ok(())
    }

    fn cudaStreamGetPriority(stream: usize, priority: *mut c_int) {
        put!(priority, handle::resolve(stream)?.1.priority);
        Ok(())
    }

    fn cudaStreamGetId(stream: usize, id: *mut u64) {
        put!(id, handle::resolve(stream)?.1.id);
        Ok(())
    }

    fn cudaStreamGetDevice(stream: usize, device: *mut c_int) {
        put!(device, handle::resolve(stream)?.1.ordinal as c_int);
        Ok(())
    }

    fn cudaStreamIsCapturing(stream: usize, status: *mut c_int) {
        handle::resolve(stream)?;
        put!(status, 0);
        Ok(())
    }

    fn cudaLaunchHostFunc(stream: usize, function: Option<HostFunction>, data: *mut c_void) {
        let function = function.ok_or(Error::INVALID_VALUE)?;
        let (gpu, stream) = handle::resolve(stream)?;
        let data = UserData(data);
        stream.submit_visible(gpu.streams.fences(&stream), move |_| {
            if gpu.check().is_ok() {
                // SAFETY: the program's function, with the argument it asked for.
                unsafe { function(data.get()) }
            }
        });
        Ok(())
    }

    fn cudaStreamAddCallback(stream: usize, callback: Option<Callback>, data: *mut c_void, _flags: c_uint) {
        let callback = callback.ok_or(Error::INVALID_VALUE)?;
        let (gpu, queue) = handle::resolve(stream)?;
        let data = UserData(data);
        queue.submit_visible(gpu.streams.fences(&queue), move |_| {
            // SAFETY: the program's function, with the argument it asked for.
            unsafe { callback(stream, crate::error::code(gpu.check()), data.get()) }
        });
        Ok(())
    }
}
