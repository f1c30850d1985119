//! Products of a matrix and a vector, an element of the result per thread.

use std::ffi::c_int;

use crate::export::blas;
use crate::handle::{BlasHandle, Pointer, handle};
use crate::launch::{BlasKernel, launch};
use crate::number::{Complex, Number, Wide};
use crate::scalar::Scalar;
use crate::status::Result;
use crate::strided::{Matrix, Operation, Vector, check_lead, check_sizes};

/// y = alpha op(A) x + beta y, with as many elements in y as op(A) has rows.
#[derive(Clone, Copy)]
struct Gemv<T: Number> {
    rows: i64,
    columns: i64,
    alpha: Scalar<T>,
    a: Matrix<T>,
    x: Vector<T>,
    beta: Scalar<T>,
    y: Vector<T>,
}

impl<T: Number> BlasKernel for Gemv<T> {
    unsafe fn run(&self, thread: u64) -> u64 {
        let row = thread as i64;
        if row >= self.rows {
            return 1;
        }
        // SAFETY: rows and columns are the matrix's; the rest is the contract of `run`.
        unsafe {
            let (alpha, beta) = (self.alpha.get(), self.beta.get());
            let mut sum = T::Wide::ZERO;
            // What is multiplied by zero is not read: it may be no number.
            if alpha != T::Wide::ZERO {
                for column in 0..self.columns {
                    sum = sum + self.a.get(row, column) * self.x.get(column).wide();
                }
                sum = alpha * sum;
            }
            if beta != T::Wide::ZERO {
                sum = sum + beta * self.y.get(row).wide();
            }
            self.y.set(row, T::narrow(sum));
        }
        self.columns as u64 * (1 + T::INSTRUCTIONS) + 4
    }
}

/// # Safety
/// Contract of `cublasSgemv`.
#[allow(clippy::too_many_arguments)]
unsafe fn gemv<T: Number>(
    h: &BlasHandle,
    operation: c_int,
    (m, n): (i64, i64),
    alpha: *const T,
    (a, lead): (*const T, i64),
    (x, x_step): (*const T, i64),
    beta: *const T,
    (y, y_step): (*mut T, i64),
) -> Result {
    let operation = Operation::of(operation)?;
    check_sizes(&[m, n])?;
    check_lead(lead, m)?;
    if x_step == 0 || y_step == 0 {
        return Err(crate::status::Status::InvalidValue);
    }
    if m == 0 || n == 0 {
        return Ok(());
    }
    let (rows, columns) = operation.stored(m, n);
    // SAFETY: contract of `gemv`.
    let (alpha, beta) = unsafe { (Scalar::new(h, alpha)?, Scalar::new(h, beta)?) };
    let kernel = Gemv {
        rows,
        columns,
        alpha,
        a: Matrix::after(a, lead, operation),
        x: Vector::new(columns, x, x_step),
        beta,
        y: Vector::new(rows, y, y_step),
    };
    launch(h, kernel, rows as u64)
}

blas! {
    (f32: cublasSgemv_v2 cublasSgemv_v2_64, f64: cublasDgemv_v2 cublasDgemv_v2_64,
     Complex<f32>: cublasCgemv_v2 cublasCgemv_v2_64, Complex<f64>: cublasZgemv_v2 cublasZgemv_v2_64)
    (h: Pointer, operation: c_int, m: int, n: int, alpha: (*const T), a: (*const T), lead: int, x: (*const T),
     x_step: int, beta: (*const T), y: (*mut T), y_step: int) {
        // SAFETY: cuBLAS's contract of the function.
        unsafe { gemv(handle(h)?, operation, (m, n), alpha, (a, lead), (x, x_step), beta, (y, y_step)) }
    }
}
