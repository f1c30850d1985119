//! Vectors, matrices and batches in memory, as BLAS describes them.

use crate::number::Number;
use crate::status::{Result, Status};

/// A vector of `n` elements, `step` apart. With a negative step it begins at its far end.
#[derive(Clone, Copy)]
pub struct Vector<T> {
    first: *mut T,
    step: i64,
}

// SAFETY: only a kernel reads or writes through the pointer.
unsafe impl<T> Send for Vector<T> {}

impl<T: Number> Vector<T> {
    /// The vector of these arguments.
    pub fn new(n: i64, at: *const T, step: i64) -> Self {
        let back = if step < 0 { (1 - n).wrapping_mul(step) } else { 0 };
        Vector {
            first: at.cast_mut().wrapping_offset(back as isize),
            step,
        }
    }

    fn at(&self, index: i64) -> *mut T {
        self.first.wrapping_offset(index.wrapping_mul(self.step) as isize)
    }

    /// An element.
    ///
    /// # Safety
    /// Called by a kernel, with the index of an element.
    pub unsafe fn get(&self, index: i64) -> T {
        // SAFETY: contract of `get`.
        unsafe { self.at(index).read() }
    }

    /// Sets an element.
    ///
    /// # Safety
    /// Called by a kernel, with the index of an element.
    pub unsafe fn set(&self, index: i64, value: T) {
        // SAFETY: contract of `set`.
        unsafe { self.at(index).write(value) }
    }
}

/// `cublasOperation_t`: what is done to a matrix before it is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation {
    /// Rows become columns.
    pub transposed: bool,
    /// Elements are conjugated.
    pub conjugated: bool,
}

impl Operation {
    /// The operation of a number.
    ///
    /// # Errors
    /// `InvalidValue` for one that is none.
    pub fn of(number: i32) -> Result<Self> {
        let (transposed, conjugated) = match number {
            0 => (false, false),
            1 => (true, false),
            2 => (true, true),
            3 => (false, true),
            _ => return Err(Status::InvalidValue),
        };
        Ok(Operation {
            transposed,
            conjugated,
        })
    }

    /// Rows and columns in memory of a matrix that has these after the operation.
    pub fn stored(self, rows: i64, columns: i64) -> (i64, i64) {
        if self.transposed {
            (columns, rows)
        } else {
            (rows, columns)
        }
    }
}

/// A matrix in memory: its columns, `lead` elements apart; as it is after an operation.
#[derive(Clone, Copy)]
pub struct Matrix<T> {
    first: *mut T,
    lead: i64,
    operation: Operation,
}

// SAFETY: only a kernel reads or writes through the pointer.
unsafe impl<T> Send for Matrix<T> {}

impl<T: Number> Matrix<T> {
    /// A matrix as it lies in memory.
    pub fn plain(at: *mut T, lead: i64) -> Self {
        Matrix::after(
            at,
            lead,
            Operation {
                transposed: false,
                conjugated: false,
            },
        )
    }

    /// A matrix after an operation.
    pub fn after(at: *const T, lead: i64, operation: Operation) -> Self {
        Matrix {
            first: at.cast_mut(),
            lead,
            operation,
        }
    }

    fn at(&self, row: i64, column: i64) -> *mut T {
        let (row, column) = self.operation.stored(row, column);
        self.first
            .wrapping_offset(column.wrapping_mul(self.lead).wrapping_add(row) as isize)
    }

    /// An element.
    ///
    /// # Safety
    /// Called by a kernel, with the row and the column of an element.
    pub unsafe fn get(&self, row: i64, column: i64) -> T::Wide {
        use crate::number::Wide;
        // SAFETY: contract of `get`.
        unsafe { self.at(row, column).read() }
            .wide()
            .conj_if(self.operation.conjugated)
    }

    /// Sets an element of a matrix without an operation.
    ///
    /// # Safety
    /// Called by a kernel, with the row and the column of an element.
    pub unsafe fn set(&self, row: i64, column: i64, value: T::Wide) {
        // SAFETY: contract of `set`.
        unsafe { self.at(row, column).write(T::narrow(value)) }
    }
}

/// Where the matrices of a batch begin.
pub enum Batch<T> {
    /// In memory after one another: elements from each to the next.
    Strided(*mut T, i64),
    /// Anywhere: pointers to them in device memory.
    Listed(*const *mut T),
}

// SAFETY: only a kernel reads or writes through the pointers.
unsafe impl<T> Send for Batch<T> {}

impl<T> Clone for Batch<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Batch<T> {}

impl<T> Batch<T> {
    /// A batch of one operand.
    pub fn one(at: *const T) -> Self {
        Batch::Strided(at.cast_mut(), 0)
    }

    /// The same memory, with elements of another type, in which strides are counted.
    pub fn cast<U>(self) -> Batch<U> {
        match self {
            Batch::Strided(first, stride) => Batch::Strided(first.cast(), stride),
            Batch::Listed(list) => Batch::Listed(list.cast()),
        }
    }

    /// Where one of them begins.
    ///
    /// # Safety
    /// Called by a kernel, with the number of a matrix.
    pub unsafe fn of(&self, number: i64) -> *mut T {
        match *self {
            Batch::Strided(first, stride) => first.wrapping_offset(number.wrapping_mul(stride) as isize),
            // SAFETY: contract of `of`.
            Batch::Listed(list) => unsafe { list.wrapping_offset(number as isize).read() },
        }
    }
}

/// No size may be negative.
///
/// # Errors
/// `InvalidValue`.
pub fn check_sizes(sizes: &[i64]) -> Result {
    if sizes.iter().any(|&size| size < 0) {
        return Err(Status::InvalidValue);
    }
    Ok(())
}

/// Columns must be as far apart as they are long.
///
/// # Errors
/// `InvalidValue`.
pub fn check_lead(lead: i64, rows: i64) -> Result {
    if lead < rows.max(1) {
        return Err(Status::InvalidValue);
    }
    Ok(())
}
