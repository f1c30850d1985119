//! The runtime's handles for the program's.

use super::slot::{Handle, Kind};
use super::{event, stream};
use crate::code::Own;

/// The runtime's handle for one of the program's, on this thread's GPU.
pub fn translate(kind: Kind, handle: Handle) -> Result<Handle, Own> {
    match kind {
        Kind::Stream => stream::real(handle),
        Kind::Event => event::real(handle),
    }
}
