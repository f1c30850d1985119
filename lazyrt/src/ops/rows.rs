//! Copies of rows with a pitch.

use std::ffi::c_void;

use mgb_abi::copy::DEFAULT;
use mgb_abi::copy3d::{CopySide, CudaExtent, Memcpy3DPeerParms};

use super::boxes;
use super::span::Span;
use crate::code::{Answer, Code, Own, fail};
use crate::handles::on;
use crate::in_flight;
use crate::native::Stream;
use crate::thread;

type Copy2D = unsafe extern "C" fn(*mut c_void, usize, *const c_void, usize, usize, usize, u32) -> Code;

/// `cudaMemcpy2D`.
///
/// # Safety
/// The arguments meet the contract of `cudaMemcpy2D`.
#[allow(clippy::too_many_arguments)]
pub unsafe fn memcpy_2d(
    native: Copy2D,
    dst: *mut c_void,
    dst_pitch: usize,
    src: *const c_void,
    src_pitch: usize,
    width: usize,
    height: usize,
    kind: u32,
) -> Answer {
    let to = Rows::of(dst, dst_pitch);
    let from = Rows::of(src, src_pitch);
    plane(to, from, (width, height), kind, None, || {
        // SAFETY: the arguments are those that the program passed: contract of `cudaMemcpy2D`.
        unsafe { native(dst, dst_pitch, src, src_pitch, width, height, kind) }
    })
}

type Copy2DAsync =
    unsafe extern "C" fn(*mut c_void, usize, *const c_void, usize, usize, usize, u32, Stream) -> Code;

/// `cudaMemcpy2DAsync`.
///
/// # Safety
/// The arguments meet the contract of `cudaMemcpy2DAsync`.
#[allow(clippy::too_many_arguments)]
pub unsafe fn memcpy_2d_async(
    native: Copy2DAsync,
    dst: *mut c_void,
    dst_pitch: usize,
    src: *const c_void,
    src_pitch: usize,
    width: usize,
    height: usize,
    kind: u32,
    stream: Stream,
) -> Answer {
    in_flight::settle_before(stream);
    let to = Rows::of(dst, dst_pitch);
    let from = Rows::of(src, src_pitch);
    plane(to, from, (width, height), kind, Some(stream), || {
        // SAFETY: the program's arguments, and the runtime's stream for the program's: contract of
        // `cudaMemcpy2DAsync`.
        on(stream, |stream| unsafe {
            native(dst, dst_pitch, src, src_pitch, width, height, kind, stream)
        })
    })
}

/// Rows that overlap are an error, whatever lies there; as a GPU's runtime has it, a single row that is wider
/// than its pitch is another one.
fn check(pitch: usize, width: usize, height: usize) -> Result<(), Own> {
    match height {
        0 => Ok(()),
        _ if width <= pitch => Ok(()),
        1 => fail(Code::INVALID_VALUE),
        _ => fail(Code::INVALID_PITCH_VALUE),
    }
}

/// Rows as lazyrt's own copies name them.
#[derive(Clone, Copy)]
struct Rows {
    address: u64,
    pitch: usize,
}

impl Rows {
    fn of(pointer: *const c_void, pitch: usize) -> Rows {
        Rows {
            address: pointer as u64,
            pitch,
        }
    }
}

fn plane(
    to: Rows,
    from: Rows,
    (width, height): (usize, usize),
    kind: u32,
    stream: Option<Stream>,
    call: impl FnOnce() -> Code,
) -> Answer {
    let checked = check(to.pitch.min(from.pitch), width, height).and_then(|()| match kind {
        ..=DEFAULT => Ok(()),
        _ => fail(Code::INVALID_MEMCPY_DIRECTION),
    });
    checked.inspect_err(|_| {
        thread::with(|thread| thread.take_hint());
    })?;
    let span = |side: Rows| Span::of_rows(side.address, side.pitch, width, height);
    let (written, read) = (span(to), span(from));
    let side = |side: Rows| CopySide::pitched(boxes::plane(side.address, side.pitch, width, height));
    boxes::between(written, read, kind, stream, call, |ordinals| Memcpy3DPeerParms {
        src: side(from),
        src_device: ordinals.second,
        dst: side(to),
        dst_device: ordinals.first,
        extent: CudaExtent {
            width,
            height,
            depth: 1,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_that_are_wider_than_their_pitch_are_refused() {
        assert_eq!(check(99, 100, 0), Ok(()));
        assert_eq!(check(99, 100, 1), Err(Own(Code::INVALID_VALUE)));
        assert_eq!(check(99, 100, 2), Err(Own(Code::INVALID_PITCH_VALUE)));
        assert_eq!(check(100, 100, 2), Ok(()));
    }
}
