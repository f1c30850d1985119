//! User objects, and graphs that refer to them.

use std::ffi::{c_uint, c_void};

use super::{put, runtime};
use crate::error::Error;
use crate::graph::{objects, with};
use crate::work::host::{HostFunction, UserData};

/// `cudaUserObjectNoDestructorSync`: the one flag that there is, and must be.
const NO_SYNC: c_uint = 1;
/// `cudaGraphUserObjectMove`.
const MOVE: c_uint = 1;

runtime! {
    fn cudaUserObjectCreate(
        object: *mut usize, data: *mut c_void, destroy: Option<HostFunction>, count: c_uint, flags: c_uint,
    ) {
        let destroy = destroy.ok_or(Error::INVALID_VALUE)?;
        if object.is_null() || count == 0 || count > i32::MAX as u32 || flags != NO_SYNC {
            return Err(Error::INVALID_VALUE);
        }
        put!(object, objects::create(UserData(data), destroy, count));
        Ok(())
    }

    fn cudaUserObjectRetain(object: usize, count: c_uint) {
        if count == 0 {
            return Err(Error::INVALID_VALUE);
        }
        objects::retain(object, count)
    }

    fn cudaUserObjectRelease(object: usize, count: c_uint) {
        if count == 0 {
            return Err(Error::INVALID_VALUE);
        }
        objects::release(object, count)
    }

    fn cudaGraphRetainUserObject(graph: usize, object: usize, count: c_uint, flags: c_uint) {
        if count == 0 || flags & !MOVE != 0 {
            return Err(Error::INVALID_VALUE);
        }
        let found = objects::find(object)?;
        with(|graphs| graphs.graph(graph).map(drop))?;
        if flags & MOVE != 0 {
            objects::release(object, count)?;
        }
        with(|graphs| graphs.refer(graph, object, found, count))
    }

    fn cudaGraphReleaseUserObject(graph: usize, object: usize, count: c_uint) {
        if count == 0 {
            return Err(Error::INVALID_VALUE);
        }
        let gone = with(|graphs| graphs.refer_no_more(graph, object, count))?;
        drop(gone);
        Ok(())
    }
}
