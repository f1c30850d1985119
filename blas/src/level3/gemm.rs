//! Products of matrices: the kernel, and what all functions of the family check.

use crate::handle::BlasHandle;
use crate::launch::{BlasKernel, launch};
use crate::number::{Number, Wide};
use crate::scalar::Scalar;
use crate::status::{Result, Status};
use crate::strided::{Batch, Matrix, Operation, check_lead, check_sizes};

/// Rows and columns that a thread computes.
const TILE: usize = 4;

/// C = alpha op(A) op(B) + beta C, for each matrix of a batch.
#[derive(Clone, Copy)]
pub struct Gemm<T: Number, C: Number, S: Number> {
    /// Rows of C, columns of C, and what is between.
    pub size: [i64; 3],
    /// What is done to A and B.
    pub operations: [Operation; 2],
    /// How far the columns of A, B and C are apart.
    pub leads: [i64; 3],
    /// Where the matrices A are.
    pub a: Batch<T>,
    /// Where the matrices B are.
    pub b: Batch<T>,
    /// Where the matrices C are, which are written.
    pub c: Batch<C>,
    /// The factor of the product.
    pub alpha: Scalar<S>,
    /// The factor of what C is before.
    pub beta: Scalar<S>,
    /// How many there are.
    pub count: i64,
}

impl<T, C, S> Gemm<T, C, S>
where
    T: Number,
    C: Number<Wide = T::Wide>,
    S: Number<Wide = T::Wide>,
{
    fn tiles(&self) -> [i64; 2] {
        [self.size[0], self.size[1]].map(|length| (length as u64).div_ceil(TILE as u64) as i64)
    }

    /// Checks the arguments, and launches it.
    ///
    /// # Errors
    /// `InvalidValue` for sizes that no matrix has; those of the launch.
    pub fn run_in(self, h: &BlasHandle) -> Result {
        let [m, n, k] = self.size;
        check_sizes(&[m, n, k, self.count])?;
        for (lead, (rows, _)) in self.leads.into_iter().zip([
            self.operations[0].stored(m, k),
            self.operations[1].stored(k, n),
            (m, n),
        ]) {
            check_lead(lead, rows)?;
        }
        let [across, down] = self.tiles();
        let threads = [across, down, self.count]
            .iter()
            .try_fold(1u64, |all, &length| all.checked_mul(length as u64));
        launch(h, self, threads.ok_or(Status::InvalidValue)?)
    }

    /// Computes one tile.
    ///
    /// # Safety
    /// As for [`BlasKernel::run`]; rows and columns are C's.
    #[inline(always)]
    unsafe fn tile(&self, number: i64, [row, column]: [i64; 2], [rows, columns]: [usize; 2]) {
        let [lead_a, lead_b, lead_c] = self.leads;
        // SAFETY: contract of `tile`, for a matrix of the batch.
        unsafe {
            let (alpha, beta) = (self.alpha.get(), self.beta.get());
            let c = Matrix::plain(self.c.of(number), lead_c);
            let mut sums = [[T::Wide::ZERO; TILE]; TILE];
            // What is multiplied by zero is not read: it may be no number.
            if alpha != T::Wide::ZERO {
                let a = Matrix::after(self.a.of(number), lead_a, self.operations[0]);
                let b = Matrix::after(self.b.of(number), lead_b, self.operations[1]);
                for k in 0..self.size[2] {
                    let mut left = [T::Wide::ZERO; TILE];
                    for (at, left) in left.iter_mut().enumerate().take(rows) {
                        *left = a.get(row + at as i64, k);
                    }
                    for (at, sums) in sums.iter_mut().enumerate().take(columns) {
                        let right = b.get(k, column + at as i64);
                        for (sum, left) in sums.iter_mut().zip(left) {
                            *sum = *sum + left * right;
                        }
                    }
                }
            }
            for (right, sums) in sums.iter().enumerate().take(columns) {
                for (down, sum) in sums.iter().enumerate().take(rows) {
                    let (row, column) = (row + down as i64, column + right as i64);
                    let mut value = alpha * *sum;
                    if alpha == T::Wide::ZERO {
                        value = T::Wide::ZERO;
                    }
                    if beta != T::Wide::ZERO {
                        value = value + beta * c.get(row, column);
                    }
                    c.set(row, column, value);
                }
            }
        }
    }
}

impl<T, C, S> BlasKernel for Gemm<T, C, S>
where
    T: Number,
    C: Number<Wide = T::Wide>,
    S: Number<Wide = T::Wide>,
{
    unsafe fn run(&self, thread: u64) -> u64 {
        let [m, n, k] = self.size;
        let [down, across] = self.tiles();
        let tile = thread as i64;
        let (row, rest) = (tile % down * TILE as i64, tile / down);
        let (column, number) = (rest % across * TILE as i64, rest / across);
        if number >= self.count {
            return 1;
        }
        let rows = (m - row).min(TILE as i64) as usize;
        let columns = (n - column).min(TILE as i64) as usize;
        // SAFETY: the tile lies in C; the rest is the contract of `run`.
        unsafe {
            match (rows, columns) {
                // The same with numbers that the compiler knows.
                (TILE, TILE) => self.tile(number, [row, column], [TILE, TILE]),
                _ => self.tile(number, [row, column], [rows, columns]),
            }
        }
        let products = (rows * columns) as u64 * k as u64 * T::INSTRUCTIONS;
        products.div_ceil(T::PER_INSTRUCTION) + 2 * (rows * columns) as u64
    }
}
