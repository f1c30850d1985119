//! Attributes of streams: kept so that they can be read. None of them changes what work does.

use mgb_abi::launch::*;

use super::{put, runtime};
use crate::device::resolve;
use crate::error::{Error, Result};
use crate::stream::DeviceStream;

/// Access policy window, synchronization policy, priority, synchronization domains: those that streams have.
fn check(attribute: u32) -> Result {
    if matches!(
        attribute,
        ATTRIBUTE_ACCESS_POLICY_WINDOW
            | ATTRIBUTE_SYNCHRONIZATION_POLICY
            | ATTRIBUTE_PRIORITY
            | ATTRIBUTE_MEM_SYNC_DOMAIN_MAP
            | ATTRIBUTE_MEM_SYNC_DOMAIN
    ) {
        Ok(())
    } else {
        Err(Error::INVALID_VALUE)
    }
}

fn value(stream: &DeviceStream, attribute: u32) -> LaunchAttributeValue {
    let set = stream.attributes().lock().get(&attribute).copied();
    set.unwrap_or_else(|| {
        let mut value = LaunchAttributeValue::default();
        match attribute {
            // Auto.
            ATTRIBUTE_SYNCHRONIZATION_POLICY => value.0[0] = 1,
            ATTRIBUTE_PRIORITY => value.0[0] = stream.priority as u32,
            // The remote domain is the second of its two bytes.
            ATTRIBUTE_MEM_SYNC_DOMAIN_MAP => value.0[0] = 1 << 8,
            _ => {}
        }
        value
    })
}

runtime! {
    fn cudaStreamGetAttribute(stream: usize, attribute: u32, to: *mut LaunchAttributeValue) {
        let (_, stream) = resolve::stream(stream)?;
        check(attribute)?;
        put!(to, value(&stream, attribute));
        Ok(())
    }

    fn cudaStreamSetAttribute(stream: usize, attribute: u32, from: *const LaunchAttributeValue) {
        let (_, stream) = resolve::stream(stream)?;
        check(attribute)?;
        // SAFETY: `from` is null or valid for reads: CUDA's contract of the function.
        let from = *unsafe { from.as_ref() }.ok_or(Error::INVALID_VALUE)?;
        stream.attributes().lock().insert(attribute, from);
        Ok(())
    }

    fn cudaStreamCopyAttributes(to: usize, from: usize) {
        let ((_, to), (_, from)) = (resolve::stream(to)?, resolve::stream(from)?);
        let copied = from.attributes().lock().clone();
        *to.attributes().lock() = copied;
        Ok(())
    }
}
