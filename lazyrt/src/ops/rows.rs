//! Copies of rows with a pitch.

use std::ffi::c_void;

use super::boxes::{self, Extent, PeerParameters, PitchedPtr, Side};
use super::copy::{DEFAULT, Span};
use crate::code::{Answer, Code, Own, fail};
use crate::handles::on;
use crate::native::Stream;
use crate::thread;

type Copy2D = unsafe extern "C" fn(*mut c_void, usize, *const c_void, usize, usize, usize, u32) -> Code;

/// `cudaMemcpy2D`.
///
/// # Safety
/// As CUDA says.
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
        // SAFETY: the caller says so.
        unsafe { native(dst, dst_pitch, src, src_pitch, width, height, kind) }
    })
}

type Copy2DAsync =
    unsafe extern "C" fn(*mut c_void, usize, *const c_void, usize, usize, usize, u32, Stream) -> Code;

/// `cudaMemcpy2DAsync`.
///
/// # Safety
/// As CUDA says.
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
    let to = Rows::of(dst, dst_pitch);
    let from = Rows::of(src, src_pitch);
    plane(to, from, (width, height), kind, Some(stream), || {
        // SAFETY: the caller says so.
        on(stream, |stream| unsafe {
            native(dst, dst_pitch, src, src_pitch, width, height, kind, stream)
        })
    })
}

/// What rows with a pitch touch: the last one only as far as its width.
/// Rows that overlap are an error, whatever lies there.
pub fn rows(address: u64, pitch: usize, width: usize, height: usize) -> Result<Span, Own> {
    if pitch < width && height > 0 {
        return fail(Code::INVALID_PITCH_VALUE);
    }
    let bytes = match (width, height) {
        (0, _) | (_, 0) => 0,
        _ => (pitch as u64)
            .saturating_mul(height as u64 - 1)
            .saturating_add(width as u64),
    };
    Ok(Span { address, bytes })
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
    let span = |side: Rows| rows(side.address, side.pitch, width, height);
    let spans = match (span(to), span(from)) {
        (Ok(_), Ok(_)) if kind > DEFAULT => fail(Code::INVALID_MEMCPY_DIRECTION),
        (Ok(to), Ok(from)) => Ok((to, from)),
        (Err(error), _) | (_, Err(error)) => Err(error),
    };
    let (written, read) = spans.inspect_err(|_| {
        thread::with(|thread| thread.take_use());
    })?;
    let side = |side: Rows| Side::of(PitchedPtr::plane(side.address, side.pitch, width, height));
    boxes::between(written, read, kind, stream, call, |places| PeerParameters {
        from: side(from),
        from_device: places.second,
        to: side(to),
        to_device: places.first,
        extent: Extent {
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
    fn the_last_row_ends_at_its_width() {
        let bytes = |pitch, width, height| rows(0, pitch, width, height).map(|span| span.bytes);
        assert_eq!(bytes(512, 100, 3), Ok(1124));
        assert_eq!(bytes(512, 100, 0), Ok(0));
        assert_eq!(bytes(usize::MAX, 100, usize::MAX), Ok(u64::MAX));
        assert_eq!(bytes(99, 100, 1), Err(Own(Code::INVALID_PITCH_VALUE)));
    }
}
