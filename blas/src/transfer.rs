//! Copies of vectors and matrices between host and device: by the runtime's copies of rows.

use std::ffi::{c_int, c_void};

use crate::export::blas;
use crate::runtime::{StreamHandle, cudaMemcpy2D, cudaMemcpy2DAsync};
use crate::status::{Result, Status};

/// CUDA's `cudaMemcpyHostToDevice`, a `cudaMemcpyKind`.
const TO_DEVICE: c_int = 1;
/// CUDA's `cudaMemcpyDeviceToHost`, a `cudaMemcpyKind`.
const TO_HOST: c_int = 2;

/// Rows in memory: where the first is, and bytes from each to the next.
struct Rows {
    at: *const c_void,
    pitch: i64,
}

/// Bytes of a number of elements.
fn bytes(elements: i64, each: i64) -> Result<i64> {
    elements.checked_mul(each).ok_or(Status::InvalidValue)
}

/// Copies rows of `width` bytes; in a stream's turn if there is one.
///
/// # Safety
/// Both are valid for that: contract of cuBLAS's copies.
unsafe fn copy(
    from: Rows,
    to: Rows,
    [width, height]: [i64; 2],
    kind: c_int,
    stream: Option<StreamHandle>,
) -> Result {
    if width == 0 || height == 0 {
        return Ok(());
    }
    let (to_at, to_pitch) = (to.at.cast_mut(), to.pitch as usize);
    let (width, height) = (width as usize, height as usize);
    // SAFETY: contract of `copy`.
    let code = unsafe {
        match stream {
            None => cudaMemcpy2D(to_at, to_pitch, from.at, from.pitch as usize, width, height, kind),
            Some(stream) => cudaMemcpy2DAsync(
                to_at,
                to_pitch,
                from.at,
                from.pitch as usize,
                width,
                height,
                kind,
                stream,
            ),
        }
    };
    if code == 0 {
        Ok(())
    } else {
        Err(Status::MappingError)
    }
}

/// # Safety
/// Contract of `cublasSetVector`.
unsafe fn vector(
    [n, element]: [i64; 2],
    (from, from_step): (*const c_void, i64),
    (to, to_step): (*mut c_void, i64),
    kind: c_int,
    stream: Option<StreamHandle>,
) -> Result {
    if n < 0 || element <= 0 || from_step <= 0 || to_step <= 0 {
        return Err(Status::InvalidValue);
    }
    let rows = |at, step| {
        Ok(Rows {
            at,
            pitch: bytes(step, element)?,
        })
    };
    let (from, to) = (rows(from, from_step)?, rows(to, to_step)?);
    let size = match (from_step, to_step) {
        (1, 1) => [bytes(n, element)?, 1],
        _ => [element, n],
    };
    let one_row = |rows: Rows| Rows {
        pitch: rows.pitch.max(size[0]),
        ..rows
    };
    // SAFETY: contract of `vector`.
    unsafe { copy(one_row(from), one_row(to), size, kind, stream) }
}

/// # Safety
/// Contract of `cublasSetMatrix`.
unsafe fn matrix(
    [rows, columns, element]: [i64; 3],
    (from, from_lead): (*const c_void, i64),
    (to, to_lead): (*mut c_void, i64),
    kind: c_int,
    stream: Option<StreamHandle>,
) -> Result {
    let least = rows.max(1);
    if rows < 0 || columns < 0 || element <= 0 || from_lead < least || to_lead < least {
        return Err(Status::InvalidValue);
    }
    let from = Rows {
        at: from,
        pitch: bytes(from_lead, element)?,
    };
    let to = Rows {
        at: to,
        pitch: bytes(to_lead, element)?,
    };
    // SAFETY: contract of `matrix`.
    unsafe { copy(from, to, [bytes(rows, element)?, columns], kind, stream) }
}

blas! {
    ((): cublasSetVector cublasSetVector_64)
    (n: int, element: int, from: (*const c_void), from_step: int, to: (*mut c_void), to_step: int) {
        // SAFETY: cuBLAS's contract of the function.
        unsafe { vector([n, element], (from, from_step), (to, to_step), TO_DEVICE, None) }
    }

    ((): cublasGetVector cublasGetVector_64)
    (n: int, element: int, from: (*const c_void), from_step: int, to: (*mut c_void), to_step: int) {
        // SAFETY: cuBLAS's contract of the function.
        unsafe { vector([n, element], (from, from_step), (to, to_step), TO_HOST, None) }
    }

    ((): cublasSetVectorAsync cublasSetVectorAsync_64)
    (n: int, element: int, from: (*const c_void), from_step: int, to: (*mut c_void), to_step: int,
     stream: StreamHandle) {
        // SAFETY: cuBLAS's contract of the function.
        unsafe { vector([n, element], (from, from_step), (to, to_step), TO_DEVICE, Some(stream)) }
    }

    ((): cublasGetVectorAsync cublasGetVectorAsync_64)
    (n: int, element: int, from: (*const c_void), from_step: int, to: (*mut c_void), to_step: int,
     stream: StreamHandle) {
        // SAFETY: cuBLAS's contract of the function.
        unsafe { vector([n, element], (from, from_step), (to, to_step), TO_HOST, Some(stream)) }
    }

    ((): cublasSetMatrix cublasSetMatrix_64)
    (rows: int, columns: int, element: int, from: (*const c_void), from_lead: int, to: (*mut c_void),
     to_lead: int) {
        // SAFETY: cuBLAS's contract of the function.
        unsafe { matrix([rows, columns, element], (from, from_lead), (to, to_lead), TO_DEVICE, None) }
    }

    ((): cublasGetMatrix cublasGetMatrix_64)
    (rows: int, columns: int, element: int, from: (*const c_void), from_lead: int, to: (*mut c_void),
     to_lead: int) {
        // SAFETY: cuBLAS's contract of the function.
        unsafe { matrix([rows, columns, element], (from, from_lead), (to, to_lead), TO_HOST, None) }
    }

    ((): cublasSetMatrixAsync cublasSetMatrixAsync_64)
    (rows: int, columns: int, element: int, from: (*const c_void), from_lead: int, to: (*mut c_void),
     to_lead: int, stream: StreamHandle) {
        // SAFETY: cuBLAS's contract of the function.
        unsafe { matrix([rows, columns, element], (from, from_lead), (to, to_lead), TO_DEVICE, Some(stream)) }
    }

    ((): cublasGetMatrixAsync cublasGetMatrixAsync_64)
    (rows: int, columns: int, element: int, from: (*const c_void), from_lead: int, to: (*mut c_void),
     to_lead: int, stream: StreamHandle) {
        // SAFETY: cuBLAS's contract of the function.
        unsafe { matrix([rows, columns, element], (from, from_lead), (to, to_lead), TO_HOST, Some(stream)) }
    }
}
