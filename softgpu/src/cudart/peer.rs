//! Peers: every device can read every other's memory.

use std::ffi::{c_int, c_uint};

use parking_lot::Mutex;

use super::{put, runtime};
use crate::device::{current, node};
use crate::error::{Error, Result};
use crate::graph::capture;

/// Pairs for which access is on: from, to.
static ENABLED: Mutex<Vec<(usize, usize)>> = Mutex::new(Vec::new());

fn pair(peer: c_int) -> Result<(usize, usize)> {
    Ok((current::active()?.ordinal, node()?.gpu(peer)?.ordinal))
}

/// Whether kernels of a device may reach the plain memory of another.
pub(super) fn reaches(from: usize, to: usize) -> bool {
    from == to || ENABLED.lock().contains(&(from, to))
}

runtime! {
    fn cudaDeviceCanAccessPeer(can: *mut c_int, device: c_int, peer: c_int) {
        let (device, peer) = (node()?.gpu(device)?, node()?.gpu(peer)?);
        put!(can, c_int::from(device.ordinal != peer.ordinal));
        Ok(())
    }

    fn cudaDeviceEnablePeerAccess(peer: c_int, _flags: c_uint) {
        capture::forbid()?;
        let pair = pair(peer)?;
        if pair.0 == pair.1 {
            return Err(Error::PEER_ACCESS_UNSUPPORTED);
        }
        let mut enabled = ENABLED.lock();
        if enabled.contains(&pair) {
            return Err(Error::PEER_ACCESS_ALREADY_ENABLED);
        }
        enabled.push(pair);
        Ok(())
    }

    fn cudaDeviceDisablePeerAccess(peer: c_int) {
        let pair = pair(peer)?;
        let mut enabled = ENABLED.lock();
        let at = enabled.iter().position(|&other| other == pair).ok_or(Error::PEER_ACCESS_NOT_ENABLED)?;
        enabled.swap_remove(at);
        Ok(())
    }

    fn cudaDeviceGetP2PAttribute(value: *mut c_int, attribute: c_int, from: c_int, to: c_int) {
        let (from, to) = (node()?.gpu(from)?, node()?.gpu(to)?);
        if from.ordinal == to.ordinal {
            return Err(Error::INVALID_DEVICE);
        }
        // Rank, access, native atomics, arrays.
        put!(value, match attribute {
            1 => 0,
            2..=4 => 1,
            _ => return Err(Error::INVALID_VALUE),
        });
        Ok(())
    }
}
