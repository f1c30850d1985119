//! Products of a column and a row, an element of the matrix per thread.

use crate::export::blas;
use crate::handle::{BlasHandle, Pointer, handle};
use crate::launch::{BlasKernel, launch};
use crate::number::{Complex, Number, Wide};
use crate::scalar::Scalar;
use crate::status::{Result, Status};
use crate::strided::{Matrix, Vector, check_lead, check_sizes};

/// A = alpha x y' + A, with y conjugated or not.
#[derive(Clone, Copy)]
struct Ger<T: Number> {
    rows: i64,
    columns: i64,
    alpha: Scalar<T>,
    x: Vector<T>,
    y: Vector<T>,
    a: Matrix<T>,
    conjugated: bool,
}

impl<T: Number> BlasKernel for Ger<T> {
    unsafe fn run(&self, thread: u64) -> u64 {
        let (row, column) = (thread as i64 % self.rows, thread as i64 / self.rows);
        if column >= self.columns {
            return 1;
        }
        // SAFETY: the row and the column are the matrix's; the rest is the contract of `run`.
        unsafe {
            let y = self.y.get(column).wide().conj_if(self.conjugated);
            let product = self.alpha.get() * self.x.get(row).wide() * y;
            self.a.set(row, column, product + self.a.get(row, column));
        }
        4 + 2 * T::INSTRUCTIONS
    }
}

/// # Safety
/// Contract of `cublasSger`.
unsafe fn ger<T: Number>(
    h: &BlasHandle,
    (m, n): (i64, i64),
    alpha: *const T,
    (x, x_step): (*const T, i64),
    (y, y_step): (*const T, i64),
    (a, lead): (*mut T, i64),
    conjugated: bool,
) -> Result {
    check_sizes(&[m, n])?;
    check_lead(lead, m)?;
    if x_step == 0 || y_step == 0 {
        return Err(Status::InvalidValue);
    }
    if m == 0 || n == 0 {
        return Ok(());
    }
    let kernel = Ger {
        rows: m,
        columns: n,
        // SAFETY: contract of `ger`.
        alpha: unsafe { Scalar::new(h, alpha)? },
        x: Vector::new(m, x, x_step),
        y: Vector::new(n, y, y_step),
        a: Matrix::plain(a, lead),
        conjugated,
    };
    launch(h, kernel, m as u64 * n as u64)
}

blas! {
    (f32: cublasSger_v2 cublasSger_v2_64, f64: cublasDger_v2 cublasDger_v2_64,
     Complex<f32>: cublasCgeru_v2 cublasCgeru_v2_64, Complex<f64>: cublasZgeru_v2 cublasZgeru_v2_64)
    (h: Pointer, m: int, n: int, alpha: (*const T), x: (*const T), x_step: int, y: (*const T), y_step: int,
     a: (*mut T), lead: int) {
        // SAFETY: cuBLAS's contract of the function.
        unsafe { ger(handle(h)?, (m, n), alpha, (x, x_step), (y, y_step), (a, lead), false) }
    }

    (Complex<f32>: cublasCgerc_v2 cublasCgerc_v2_64, Complex<f64>: cublasZgerc_v2 cublasZgerc_v2_64)
    (h: Pointer, m: int, n: int, alpha: (*const T), x: (*const T), x_step: int, y: (*const T), y_step: int,
     a: (*mut T), lead: int) {
        // SAFETY: cuBLAS's contract of the function.
        unsafe { ger(handle(h)?, (m, n), alpha, (x, x_step), (y, y_step), (a, lead), true) }
    }
}
