//! Copies of rows with a pitch.

use std::ffi::c_void;

use super::copy::{DEFAULT, DEVICE_TO_HOST, HOST_TO_DEVICE, HOST_TO_HOST, Span, claim, task_of};
use super::run;
use crate::bind::Asked;
use crate::code::{Answer, Code, Own, fail};
use crate::native::Stream;
use crate::state::{self, State};
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
    let to = rows(dst as u64, dst_pitch, width, height)?;
    let from = rows(src as u64, src_pitch, width, height)?;
    // SAFETY: the caller says so.
    plane(to, from, kind, || unsafe {
        native(dst, dst_pitch, src, src_pitch, width, height, kind)
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
    let to = rows(dst as u64, dst_pitch, width, height)?;
    let from = rows(src as u64, src_pitch, width, height)?;
    // SAFETY: the caller says so.
    plane(to, from, kind, || unsafe {
        native(dst, dst_pitch, src, src_pitch, width, height, kind, stream)
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

fn plane(to: Span, from: Span, kind: u32, call: impl FnOnce() -> Code) -> Answer {
    let told = thread::with(|thread| thread.take_use());
    if kind > DEFAULT {
        return fail(Code::INVALID_MEMCPY_DIRECTION);
    }
    let mut state = state::lock();
    // An empty copy touches nothing, but the runtime still looks at its arguments.
    let touched = |state: &State, span: Span, side: u32| match span.bytes {
        0 => Ok(None),
        _ if kind == side || kind == HOST_TO_HOST => Ok(None),
        _ => task_of(state, span),
    };
    let to = touched(&state, to, DEVICE_TO_HOST)?.map(|key| claim(&mut state, told, key));
    let from = touched(&state, from, HOST_TO_DEVICE)?.map(|key| claim(&mut state, told, key));
    match (to, from) {
        (Some(to), Some(from)) if to != from => {
            drop(state);
            let mut apart = false;
            let answer = run::on_two(to, from, |places| {
                apart = places.first != places.second;
                if apart { Code::NOT_SUPPORTED } else { call() }
            });
            if apart {
                run::refuse_two("cudaMemcpy2D")
            } else {
                answer
            }
        }
        (Some(key), _) | (None, Some(key)) => {
            drop(state);
            run::on_task(key, Asked::default(), call)
        }
        (None, None) => {
            let key = state.task_of_use(told);
            drop(state);
            run::on_task(key, Asked::default(), call)
        }
    }
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
