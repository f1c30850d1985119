//! Products of matrices whose types are arguments.

use std::ffi::{c_int, c_longlong, c_void};

use super::gemm::Gemm;
use crate::export::blas;
use crate::handle::{BlasHandle, Pointer, handle};
use crate::number::{Brain, Complex, Half, Number, data};
use crate::scalar::Scalar;
use crate::status::{Result, Status};
use crate::strided::{Batch, Operation};

/// What an argument `cublasComputeType_t` says of the scalars' type. How sums are made differs on a GPU only.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Compute {
    Half,
    Single,
    Double,
    Integer,
}

impl Compute {
    fn of(number: c_int) -> Result<Self> {
        Ok(match number {
            64 | 65 => Compute::Half,
            68 | 69 | 74 | 75 | 77 | 78 => Compute::Single,
            70 | 71 => Compute::Double,
            72 | 73 => Compute::Integer,
            _ => return Err(Status::InvalidValue),
        })
    }
}

/// The arguments, before their types are known.
struct ProductArguments {
    operations: [c_int; 2],
    size: [i64; 3],
    scalars: [*const c_void; 2],
    a: Batch<c_void>,
    b: Batch<c_void>,
    c: Batch<c_void>,
    leads: [i64; 3],
    /// `cudaDataType` of A, B and C.
    types: [c_int; 3],
    count: i64,
}

impl ProductArguments {
    /// # Safety
    /// Contract of `cublasGemmEx`; the pointers are to elements of these types.
    unsafe fn of<T, C, S>(self, h: &BlasHandle) -> Result
    where
        T: Number,
        C: Number<Wide = T::Wide>,
        S: Number<Wide = T::Wide>,
    {
        let [of_a, of_b] = self.operations;
        // SAFETY: contract of `of`.
        let [alpha, beta] = unsafe { self.scalars.map(|at| Scalar::<S>::new(h, at.cast())) };
        Gemm::<T, C, S> {
            size: self.size,
            operations: [Operation::of(of_a)?, Operation::of(of_b)?],
            leads: self.leads,
            a: self.a.cast(),
            b: self.b.cast(),
            c: self.c.cast(),
            alpha: alpha?,
            beta: beta?,
            count: self.count,
        }
        .run_in(h)
    }

    /// Finds the types.
    ///
    /// # Safety
    /// Contract of `cublasGemmEx`.
    unsafe fn run(self, h: &BlasHandle, compute: Compute) -> Result {
        use data::*;
        let [a, b, c] = self.types;
        if a != b {
            return Err(Status::NotSupported);
        }
        // SAFETY: contract of `run`: the arguments are of the types that their numbers say.
        unsafe {
            match (a, c, compute) {
                (R_16F, R_16F, Compute::Half) => self.of::<Half, Half, Half>(h),
                (R_16F, R_16F, Compute::Single) => self.of::<Half, Half, f32>(h),
                (R_16F, R_32F, Compute::Single) => self.of::<Half, f32, f32>(h),
                (R_16BF, R_16BF, Compute::Single) => self.of::<Brain, Brain, f32>(h),
                (R_16BF, R_32F, Compute::Single) => self.of::<Brain, f32, f32>(h),
                (R_32F, R_32F, Compute::Single) => self.of::<f32, f32, f32>(h),
                (R_64F, R_64F, Compute::Double) => self.of::<f64, f64, f64>(h),
                (R_8I, R_32I, Compute::Integer) => self.of::<i8, i32, i32>(h),
                (R_8I, R_32F, Compute::Single) => self.of::<i8, f32, f32>(h),
                (C_32F, C_32F, Compute::Single) => self.of::<Complex<f32>, Complex<f32>, Complex<f32>>(h),
                (C_64F, C_64F, Compute::Double) => self.of::<Complex<f64>, Complex<f64>, Complex<f64>>(h),
                _ => Err(Status::NotSupported),
            }
        }
    }
}

blas! {
    ((): cublasGemmEx cublasGemmEx_64)
    (h: Pointer, of_a: c_int, of_b: c_int, m: int, n: int, k: int, alpha: (*const c_void), a: (*const c_void),
     type_a: c_int, lead_a: int, b: (*const c_void), type_b: c_int, lead_b: int, beta: (*const c_void),
     c: (*mut c_void), type_c: c_int, lead_c: int, compute: c_int, _algorithm: c_int) {
        let product = ProductArguments {
            operations: [of_a, of_b], size: [m, n, k], scalars: [alpha, beta],
            a: Batch::one(a), b: Batch::one(b), c: Batch::one(c), leads: [lead_a, lead_b, lead_c],
            types: [type_a, type_b, type_c], count: 1,
        };
        // SAFETY: cuBLAS's contract of the function.
        unsafe { product.run(handle(h)?, Compute::of(compute)?) }
    }

    ((): cublasGemmBatchedEx cublasGemmBatchedEx_64)
    (h: Pointer, of_a: c_int, of_b: c_int, m: int, n: int, k: int, alpha: (*const c_void),
     a: (*const *mut c_void), type_a: c_int, lead_a: int, b: (*const *mut c_void), type_b: c_int, lead_b: int,
     beta: (*const c_void), c: (*const *mut c_void), type_c: c_int, lead_c: int, count: int, compute: c_int,
     _algorithm: c_int) {
        let product = ProductArguments {
            operations: [of_a, of_b], size: [m, n, k], scalars: [alpha, beta],
            a: Batch::Listed(a), b: Batch::Listed(b), c: Batch::Listed(c), leads: [lead_a, lead_b, lead_c],
            types: [type_a, type_b, type_c], count,
        };
        // SAFETY: cuBLAS's contract of the function.
        unsafe { product.run(handle(h)?, Compute::of(compute)?) }
    }

    ((): cublasGemmStridedBatchedEx cublasGemmStridedBatchedEx_64)
    (h: Pointer, of_a: c_int, of_b: c_int, m: int, n: int, k: int, alpha: (*const c_void), a: (*const c_void),
     type_a: c_int, lead_a: int, stride_a: c_longlong, b: (*const c_void), type_b: c_int, lead_b: int,
     stride_b: c_longlong, beta: (*const c_void), c: (*mut c_void), type_c: c_int, lead_c: int,
     stride_c: c_longlong, count: int, compute: c_int, _algorithm: c_int) {
        let product = ProductArguments {
            operations: [of_a, of_b], size: [m, n, k], scalars: [alpha, beta],
            a: Batch::Strided(a.cast_mut(), stride_a), b: Batch::Strided(b.cast_mut(), stride_b),
            c: Batch::Strided(c, stride_c), leads: [lead_a, lead_b, lead_c],
            types: [type_a, type_b, type_c], count,
        };
        // SAFETY: cuBLAS's contract of the function.
        unsafe { product.run(handle(h)?, Compute::of(compute)?) }
    }

    ((): cublasSgemmEx cublasSgemmEx_64)
    (h: Pointer, of_a: c_int, of_b: c_int, m: int, n: int, k: int, alpha: (*const f32), a: (*const c_void),
     type_a: c_int, lead_a: int, b: (*const c_void), type_b: c_int, lead_b: int, beta: (*const f32),
     c: (*mut c_void), type_c: c_int, lead_c: int) {
        let product = ProductArguments {
            operations: [of_a, of_b], size: [m, n, k], scalars: [alpha.cast(), beta.cast()],
            a: Batch::one(a), b: Batch::one(b), c: Batch::one(c), leads: [lead_a, lead_b, lead_c],
            types: [type_a, type_b, type_c], count: 1,
        };
        // SAFETY: cuBLAS's contract of the function.
        unsafe { product.run(handle(h)?, Compute::Single) }
    }
}
