//! Products of matrices of one type.

use std::ffi::c_int;

use super::gemm::Gemm;
use crate::export::blas;
use crate::handle::{BlasHandle, Pointer, handle};
use crate::number::{Complex, Half, Number};
use crate::scalar::Scalar;
use crate::status::Result;
use crate::strided::{Batch, Operation};

/// # Safety
/// Contract of `cublasSgemmStridedBatched`.
#[allow(clippy::too_many_arguments)]
pub unsafe fn gemm<T: Number>(
    h: &BlasHandle,
    operations: [c_int; 2],
    size: [i64; 3],
    [alpha, beta]: [*const T; 2],
    (a, lead_a): (Batch<T>, i64),
    (b, lead_b): (Batch<T>, i64),
    (c, lead_c): (Batch<T>, i64),
    count: i64,
) -> Result {
    let operations = [Operation::of(operations[0])?, Operation::of(operations[1])?];
    let leads = [lead_a, lead_b, lead_c];
    // SAFETY: contract of `gemm`.
    let (alpha, beta) = unsafe { (Scalar::new(h, alpha)?, Scalar::new(h, beta)?) };
    Gemm::<T, T, T> {
        size,
        operations,
        leads,
        a,
        b,
        c,
        alpha,
        beta,
        count,
    }
    .run_in(h)
}

blas! {
    (f32: cublasSgemm_v2 cublasSgemm_v2_64, f64: cublasDgemm_v2 cublasDgemm_v2_64,
     Complex<f32>: cublasCgemm_v2 cublasCgemm_v2_64, Complex<f64>: cublasZgemm_v2 cublasZgemm_v2_64,
     Half: cublasHgemm cublasHgemm_64)
    (h: Pointer, of_a: c_int, of_b: c_int, m: int, n: int, k: int, alpha: (*const T), a: (*const T),
     lead_a: int,
     b: (*const T), lead_b: int, beta: (*const T), c: (*mut T), lead_c: int) {
        // SAFETY: cuBLAS's contract of the function.
        unsafe {
            gemm(handle(h)?, [of_a, of_b], [m, n, k], [alpha, beta], (Batch::one(a), lead_a),
                (Batch::one(b), lead_b), (Batch::one(c), lead_c), 1)
        }
    }
}
