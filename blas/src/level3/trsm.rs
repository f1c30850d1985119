//! Triangular systems: a column of the solution, or a row where the matrix stands right, per thread.

use std::ffi::c_int;

use crate::export::blas;
use crate::handle::{BlasHandle, Pointer, handle};
use crate::launch::{BlasKernel, launch};
use crate::number::{Complex, Number, Wide};
use crate::scalar::Scalar;
use crate::status::{Result, Status};
use crate::strided::{Batch, Matrix, Operation, check_lead, check_sizes};

/// Solves op(A) X = alpha B, or X op(A) = alpha B, into B, for each of a batch.
#[derive(Clone, Copy)]
struct Trsm<T: Number> {
    /// Length of a right-hand side, and how many there are.
    order: i64,
    sides: i64,
    count: i64,
    alpha: Scalar<T>,
    a: Batch<T>,
    lead_a: i64,
    /// What is done to A, as a matrix that stands left.
    operation: Operation,
    /// Whether that is lower triangular after it.
    lower: bool,
    unit: bool,
    b: Batch<T>,
    lead_b: i64,
    from_left: bool,
}

impl<T: Number> BlasKernel for Trsm<T> {
    unsafe fn run(&self, thread: u64) -> u64 {
        let (side, number) = (thread as i64 % self.sides, thread as i64 / self.sides);
        if number >= self.count {
            return 1;
        }
        // SAFETY: the matrices are of the batch, and indices below their sizes; the rest is the contract of
        // `run`.
        unsafe {
            let a = Matrix::after(self.a.of(number), self.lead_a, self.operation);
            let b = Matrix::plain(self.b.of(number), self.lead_b);
            let place = |at: i64| if self.from_left { (at, side) } else { (side, at) };
            let alpha = self.alpha.get();
            for step in 0..self.order {
                // From the end at which one unknown stands alone.
                let row = if self.lower { step } else { self.order - 1 - step };
                let (at, across) = place(row);
                // What is multiplied by zero is not read: it may be no number.
                if alpha == T::Wide::ZERO {
                    b.set(at, across, T::Wide::ZERO);
                    continue;
                }
                let mut rest = alpha * b.get(at, across);
                let known = if self.lower { 0..row } else { row + 1..self.order };
                for column in known {
                    let (at, across) = place(column);
                    rest = rest - a.get(row, column) * b.get(at, across);
                }
                if !self.unit {
                    rest = rest / a.get(row, row);
                }
                b.set(at, across, rest);
            }
        }
        let order = self.order as u64;
        order.saturating_mul(order + 1) / 2 * (1 + T::INSTRUCTIONS) + 2 * order
    }
}

/// # Safety
/// Contract of `cublasStrsmBatched`.
#[allow(clippy::too_many_arguments)]
unsafe fn trsm<T: Number>(
    h: &BlasHandle,
    [side, fill, operation, diagonal]: [c_int; 4],
    [m, n]: [i64; 2],
    alpha: *const T,
    (a, lead_a): (Batch<T>, i64),
    (b, lead_b): (Batch<T>, i64),
    count: i64,
) -> Result {
    let choice = |value: c_int| match value {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(Status::InvalidValue),
    };
    let (right, upper, unit) = (choice(side)?, choice(fill)?, choice(diagonal)?);
    let given = Operation::of(operation)?;
    // X op(A) = B is the transpose of op(A)' X' = B', in which rows of B are what is solved for.
    let operation = Operation {
        transposed: given.transposed != right,
        ..given
    };
    let (order, sides) = if right { (n, m) } else { (m, n) };
    check_sizes(&[m, n, count])?;
    check_lead(lead_a, order)?;
    check_lead(lead_b, m)?;
    if m == 0 || n == 0 || count == 0 {
        return Ok(());
    }
    let kernel = Trsm {
        order,
        sides,
        count,
        // SAFETY: contract of `trsm`.
        alpha: unsafe { Scalar::new(h, alpha)? },
        a,
        lead_a,
        operation,
        lower: upper == operation.transposed,
        unit,
        b,
        lead_b,
        from_left: !right,
    };
    launch(h, kernel, sides as u64 * count as u64)
}

blas! {
    (f32: cublasStrsm_v2 cublasStrsm_v2_64, f64: cublasDtrsm_v2 cublasDtrsm_v2_64,
     Complex<f32>: cublasCtrsm_v2 cublasCtrsm_v2_64, Complex<f64>: cublasZtrsm_v2 cublasZtrsm_v2_64)
    (h: Pointer, side: c_int, fill: c_int, operation: c_int, diagonal: c_int, m: int, n: int,
     alpha: (*const T),
     a: (*const T), lead_a: int, b: (*mut T), lead_b: int) {
        // SAFETY: cuBLAS's contract of the function.
        unsafe {
            trsm(handle(h)?, [side, fill, operation, diagonal], [m, n], alpha, (Batch::one(a), lead_a),
                (Batch::one(b), lead_b), 1)
        }
    }

    (f32: cublasStrsmBatched cublasStrsmBatched_64, f64: cublasDtrsmBatched cublasDtrsmBatched_64,
     Complex<f32>: cublasCtrsmBatched cublasCtrsmBatched_64,
     Complex<f64>: cublasZtrsmBatched cublasZtrsmBatched_64)
    (h: Pointer, side: c_int, fill: c_int, operation: c_int, diagonal: c_int, m: int, n: int,
     alpha: (*const T),
     a: (*const *mut T), lead_a: int, b: (*const *mut T), lead_b: int, count: int) {
        // SAFETY: cuBLAS's contract of the function.
        unsafe {
            trsm(handle(h)?, [side, fill, operation, diagonal], [m, n], alpha, (Batch::Listed(a), lead_a),
                (Batch::Listed(b), lead_b), count)
        }
    }
}
