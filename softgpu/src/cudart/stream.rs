//! The runtime's functions for streams.

use std::ffi::{c_int, c_uint, c_void};

use mgb_abi::stream::STREAM_NON_BLOCKING;

use super::{put, runtime};
use crate::device::{current, resolve};
use crate::driver::{stream as driver, streams};
use crate::driver_front;
use crate::error::{Error, Result};
use crate::graph::capture;
use crate::stream::{GREATEST_PRIORITY, handle};
use crate::submit;
use crate::work::host::{Callback, HostCall, HostCallback, HostFunction, UserData};
use crate::work::{Action, DeviceWork};

fn create(flags: c_uint, priority: c_int) -> Result<usize> {
    if flags & !STREAM_NON_BLOCKING != 0 {
        return Err(Error::INVALID_VALUE);
    }
    let gpu = current::active()?;
    let priority = priority.clamp(GREATEST_PRIORITY, 0);
    Ok(handle::publish(gpu.streams.create(flags, priority)))
}

fn call(stream: usize, call: HostCall) -> Result {
    let (gpu, stream) = resolve::stream(stream)?;
    let action = Action::Host(call);
    submit::issue(&stream, DeviceWork { gpu, action })
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
        match driver_front::front() {
            Some(front) => front.cuStreamDestroy(stream),
            None => streams::destroy(stream),
        }
    }

    fn cudaStreamSynchronize(handle: usize) {
        let (gpu, stream) = resolve::stream(handle)?;
        match driver_front::front() {
            Some(front) => front.cuStreamSynchronize(handle),
            None => driver::synchronize(gpu, &stream),
        }
    }

    fn cudaStreamQuery(handle: usize) {
        let (gpu, stream) = resolve::stream(handle)?;
        match driver_front::front() {
            Some(front) => front.cuStreamQuery(handle),
            None => driver::query(gpu, &stream),
        }
    }

    fn cudaStreamGetFlags(stream: usize, flags: *mut c_uint) {
        put!(flags, resolve::stream(stream)?.1.flags);
        Ok(())
    }

    fn cudaStreamGetPriority(stream: usize, priority: *mut c_int) {
        put!(priority, resolve::stream(stream)?.1.priority);
        Ok(())
    }

    fn cudaStreamGetId(stream: usize, id: *mut u64) {
        let stream = resolve::stream(stream)?.1;
        capture::refuse_question(&stream)?;
        put!(id, stream.id);
        Ok(())
    }

    fn cudaStreamGetDevice(stream: usize, device: *mut c_int) {
        let stream = resolve::stream(stream)?.1;
        capture::refuse_question(&stream)?;
        put!(device, stream.ordinal as c_int);
        Ok(())
    }

    fn cudaLaunchHostFunc(stream: usize, function: Option<HostFunction>, data: *mut c_void) {
        let function = HostCallback::Plain(function.ok_or(Error::INVALID_VALUE)?);
        call(stream, HostCall { function, data: UserData(data) })
    }

    fn cudaStreamAddCallback(stream: usize, callback: Option<Callback>, data: *mut c_void, flags: c_uint) {
        if flags != 0 {
            return Err(Error::INVALID_VALUE);
        }
        let function = HostCallback::Callback(callback.ok_or(Error::INVALID_VALUE)?, stream);
        call(stream, HostCall { function, data: UserData(data) })
    }
}
