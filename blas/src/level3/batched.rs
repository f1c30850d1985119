//! Products of many matrices of one type.

use std::ffi::{c_int, c_longlong};

use super::plain::gemm;
use crate::export::blas;
use crate::handle::{Pointer, handle};
use crate::number::{Complex, Half};
use crate::strided::Batch;

blas! {
    (f32: cublasSgemmBatched cublasSgemmBatched_64, f64: cublasDgemmBatched cublasDgemmBatched_64,
     Complex<f32>: cublasCgemmBatched cublasCgemmBatched_64,
     Complex<f64>: cublasZgemmBatched cublasZgemmBatched_64,
     Half: cublasHgemmBatched cublasHgemmBatched_64)
    (h: Pointer, of_a: c_int, of_b: c_int, m: int, n: int, k: int, alpha: (*const T), a: (*const *mut T),
     lead_a: int, b: (*const *mut T), lead_b: int, beta: (*const T), c: (*const *mut T), lead_c: int,
     count: int) {
        // SAFETY: cuBLAS's contract of the function.
        unsafe {
            gemm(handle(h)?, [of_a, of_b], [m, n, k], [alpha, beta], (Batch::Listed(a), lead_a),
                (Batch::Listed(b), lead_b), (Batch::Listed(c), lead_c), count)
        }
    }

    (f32: cublasSgemmStridedBatched cublasSgemmStridedBatched_64,
     f64: cublasDgemmStridedBatched cublasDgemmStridedBatched_64,
     Complex<f32>: cublasCgemmStridedBatched cublasCgemmStridedBatched_64,
     Complex<f64>: cublasZgemmStridedBatched cublasZgemmStridedBatched_64,
     Half: cublasHgemmStridedBatched cublasHgemmStridedBatched_64)
    (h: Pointer, of_a: c_int, of_b: c_int, m: int, n: int, k: int, alpha: (*const T), a: (*const T),
     lead_a: int, stride_a: c_longlong, b: (*const T), lead_b: int, stride_b: c_longlong, beta: (*const T), c: (*mut T),
     lead_c: int, stride_c: c_longlong, count: int) {
        // SAFETY: cuBLAS's contract of the function.
        unsafe {
            gemm(handle(h)?, [of_a, of_b], [m, n, k], [alpha, beta],
                (Batch::Strided(a.cast_mut(), stride_a), lead_a),
                (Batch::Strided(b.cast_mut(), stride_b), lead_b), (Batch::Strided(c, stride_c), lead_c),
                count)
        }
    }
}
