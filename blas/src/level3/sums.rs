//! Sums of matrices, and products with a diagonal one: an element per thread.

use std::ffi::c_int;

use crate::export::blas;
use crate::handle::{BlasHandle, Pointer, handle};
use crate::launch::{BlasKernel, launch};
use crate::number::{Complex, Number, Wide};
use crate::scalar::Scalar;
use crate::status::{Result, Status};
use crate::strided::{Matrix, Operation, Vector, check_lead, check_sizes};

/// C = alpha op(A) + beta op(B)
#[derive(Clone, Copy)]
struct Geam<T: Number> {
    size: [i64; 2],
    alpha: Scalar<T>,
    a: Matrix<T>,
    beta: Scalar<T>,
    b: Matrix<T>,
    c: Matrix<T>,
}

impl<T: Number> BlasKernel for Geam<T> {
    unsafe fn run(&self, thread: u64) -> u64 {
        let [rows, columns] = self.size;
        let (row, column) = (thread as i64 % rows, thread as i64 / rows);
        if column >= columns {
            return 1;
        }
        // SAFETY: the row and the column are the matrices'; the rest is the contract of `run`.
        unsafe {
            let mut sum = T::Wide::ZERO;
            for (factor, matrix) in [(self.alpha.get(), &self.a), (self.beta.get(), &self.b)] {
                // What is multiplied by zero is not read: the program may have given null.
                if factor != T::Wide::ZERO {
                    sum = sum + factor * matrix.get(row, column);
                }
            }
            self.c.set(row, column, sum);
        }
        3 + 2 * T::INSTRUCTIONS
    }
}

/// # Safety
/// Contract of `cublasSgeam`.
unsafe fn geam<T: Number>(
    h: &BlasHandle,
    operations: [c_int; 2],
    size @ [m, n]: [i64; 2],
    (alpha, a, lead_a): (*const T, *const T, i64),
    (beta, b, lead_b): (*const T, *const T, i64),
    (c, lead_c): (*mut T, i64),
) -> Result {
    let [of_a, of_b] = [Operation::of(operations[0])?, Operation::of(operations[1])?];
    check_sizes(&size)?;
    check_lead(lead_a, of_a.stored(m, n).0)?;
    check_lead(lead_b, of_b.stored(m, n).0)?;
    check_lead(lead_c, m)?;
    // C may be A or B where that lies as C does: otherwise threads would read what others have written.
    let takes_place = |at: *const T, lead: i64, operation: Operation| {
        std::ptr::eq(at, c) && (operation.transposed || lead != lead_c)
    };
    if takes_place(a, lead_a, of_a) || takes_place(b, lead_b, of_b) {
        return Err(Status::InvalidValue);
    }
    if m == 0 || n == 0 {
        return Ok(());
    }
    let kernel = Geam {
        size,
        // SAFETY: contract of `geam`.
        alpha: unsafe { Scalar::new(h, alpha)? },
        a: Matrix::after(a, lead_a, of_a),
        // SAFETY: contract of `geam`.
        beta: unsafe { Scalar::new(h, beta)? },
        b: Matrix::after(b, lead_b, of_b),
        c: Matrix::plain(c, lead_c),
    };
    launch(h, kernel, m as u64 * n as u64)
}

/// C = diag(x) A, or C = A diag(x)
#[derive(Clone, Copy)]
struct Dgmm<T: Number> {
    size: [i64; 2],
    from_left: bool,
    a: Matrix<T>,
    x: Vector<T>,
    c: Matrix<T>,
}

impl<T: Number> BlasKernel for Dgmm<T> {
    unsafe fn run(&self, thread: u64) -> u64 {
        let [rows, columns] = self.size;
        let (row, column) = (thread as i64 % rows, thread as i64 / rows);
        if column >= columns {
            return 1;
        }
        // SAFETY: the row and the column are the matrices'; the rest is the contract of `run`.
        unsafe {
            let x = self.x.get(if self.from_left { row } else { column }).wide();
            self.c.set(row, column, x * self.a.get(row, column));
        }
        3 + T::INSTRUCTIONS
    }
}

blas! {
    (f32: cublasSgeam cublasSgeam_64, f64: cublasDgeam cublasDgeam_64,
     Complex<f32>: cublasCgeam cublasCgeam_64, Complex<f64>: cublasZgeam cublasZgeam_64)
    (h: Pointer, of_a: c_int, of_b: c_int, m: int, n: int, alpha: (*const T), a: (*const T), lead_a: int,
     beta: (*const T), b: (*const T), lead_b: int, c: (*mut T), lead_c: int) {
        // SAFETY: cuBLAS's contract of the function.
        unsafe { geam(handle(h)?, [of_a, of_b], [m, n], (alpha, a, lead_a), (beta, b, lead_b), (c, lead_c)) }
    }

    (f32: cublasSdgmm cublasSdgmm_64, f64: cublasDdgmm cublasDdgmm_64,
     Complex<f32>: cublasCdgmm cublasCdgmm_64, Complex<f64>: cublasZdgmm cublasZdgmm_64)
    (h: Pointer, side: c_int, m: int, n: int, a: (*const T), lead_a: int, x: (*const T), step: int,
     c: (*mut T),
     lead_c: int) {
        // SAFETY: cuBLAS's contract of handles.
        let h = unsafe { handle(h) }?;
        let from_left = match side {
            0 => true,
            1 => false,
            _ => return Err(Status::InvalidValue),
        };
        check_sizes(&[m, n])?;
        check_lead(lead_a, m)?;
        check_lead(lead_c, m)?;
        let kernel = Dgmm {
            size: [m, n],
            from_left,
            a: Matrix::plain(a.cast_mut(), lead_a),
            x: Vector::new(if from_left { m } else { n }, x, step),
            c: Matrix::plain(c, lead_c),
        };
        launch(h, kernel, m as u64 * n as u64)
    }
}
