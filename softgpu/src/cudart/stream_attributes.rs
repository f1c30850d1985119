//! Attributes of streams: kept, and told again. None of them changes what work does.

use std::ffi::c_int;

use super::{put, runtime};
use crate::error::{Error, Result};
use crate::stream::{Attribute, Stream, handle};

/// `cudaLaunchAttributeSynchronizationPolicy`.
const POLICY: c_int = 3;
/// `cudaLaunchAttributePriority`.
const PRIORITY: c_int = 8;
/// `cudaLaunchAttributeMemSyncDomainMap`.
const DOMAINS: c_int = 9;

/// Access policy window, synchronization policy, priority, synchronization domains: those that streams have.
fn check(attribute: c_int) -> Result {
    if matches!(attribute, 1 | POLICY | PRIORITY | DOMAINS | 10) {
        Ok(())
    } else {
        Err(Error::INVALID_VALUE)
    }
}

fn value(stream: &Stream, attribute: c_int) -> Attribute {
    let set = stream.attributes().lock().get(&attribute).copied();
    set.unwrap_or_else(|| {
        let mut value = [0; 16];
        match attribute {
            // Auto.
            POLICY => value[0] = 1,
            PRIORITY => value[0] = stream.priority as u32,
            // The remote domain is the second of its two bytes.
            DOMAINS => value[0] = 1 << 8,
            _ => {}
        }
        value
    })
}

runtime! {
    fn cudaStreamGetAttribute(stream: usize, attribute: c_int, to: *mut Attribute) {
        let (_, stream) = handle::resolve(stream)?;
        check(attribute)?;
        put!(to, value(&stream, attribute));
        Ok(())
    }

    fn cudaStreamSetAttribute(stream: usize, attribute: c_int, from: *const Attribute) {
        let (_, stream) = handle::resolve(stream)?;
        check(attribute)?;
        // SAFETY: null or the caller's value.
        let from = *unsafe { from.as_ref() }.ok_or(Error::INVALID_VALUE)?;
        stream.attributes().lock().insert(attribute, from);
        Ok(())
    }

    fn cudaStreamCopyAttributes(to: usize, from: usize) {
        let ((_, to), (_, from)) = (handle::resolve(to)?, handle::resolve(from)?);
        let copied = from.attributes().lock().clone();
        *to.attributes().lock() = copied;
        Ok(())
    }
}
