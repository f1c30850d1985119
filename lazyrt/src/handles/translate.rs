//! The runtime's handles for the program's.

use super::slot::{Handle, HandleKind};
use super::{event, stream};
use crate::code::Own;

/// The runtime's handle for one of the program's, on this thread's GPU.
pub fn translate(kind: HandleKind, handle: Handle) -> Result<Handle, Own> {
    match kind {
        HandleKind::Stream => stream::real(handle),
        HandleKind::Event => event::real(handle),
    }
}
