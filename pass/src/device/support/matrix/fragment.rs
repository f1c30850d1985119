//! Which elements of a matrix a lane holds.
//!
//! PTX lays out the fragments of all its `mma.sync` shapes by one rule. A matrix is cut into tiles of 8 rows,
//! in each of which a row belongs to four lanes: lane `l` has a few neighbouring elements of row `l / 4`, the
//! `l % 4`th of the row. Of A and B they are as many as a register of 32 bits holds (one, where an element is
//! longer), and of C and D two. Tiles below each other come first. B is laid out as its transpose. The
//! fragments of `wmma`, whose layout CUDA does not say, follow the same rule here.
use super::shapes::MatrixShape;
use mgb_abi::matrix::ElementType;

/// Which matrix of D = A × B + C a fragment belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Matrix {
    A,
    B,
    /// C or D.
    Sum,
}

/// A fragment: what one lane holds of a matrix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fragment {
    pub element: ElementType,
    /// Rows of the matrix: of B its columns.
    rows: u32,
    /// Columns of the matrix: of B its rows.
    columns: u32,
    /// Neighbouring elements of one lane.
    run: u32,
}

/// Where an element lies, beyond its lane's first: `(rows, columns)`.
pub type Offset = (u32, u32);

impl Fragment {
    /// The fragments of a matrix of a shape.
    pub fn new(matrix: Matrix, (m, n, k): MatrixShape, element: ElementType) -> Self {
        let (rows, columns, run) = match matrix {
            Matrix::A => (m, k, element.per_register()),
            Matrix::B => (n, k, element.per_register()),
            Matrix::Sum => (m, n, 2),
        };
        Self {
            element,
            rows,
            columns,
            run,
        }
    }

    /// How many elements a lane has.
    pub fn elements(&self) -> u32 {
        self.rows * self.columns / 32
    }

    /// How many registers they are in.
    pub fn registers(&self) -> u32 {
        self.elements() / self.element.per_register()
    }

    /// How many neighbouring elements a lane has.
    pub fn run(&self) -> u32 {
        self.run
    }

    /// Where an element of the lane lies.
    pub fn offset(&self, element: u32) -> Offset {
        let (tile, within) = (element / self.run, element % self.run);
        let tiles_below = self.rows / 8;
        (tile % tiles_below * 8, tile / tiles_below * 4 * self.run + within)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Places that the PTX ISA's figures show: (matrix, shape, type, element) and its (row, column) in lane
    /// 0.
    #[test]
    fn layouts_are_those_of_ptx() {
        let cases = [
            (Matrix::A, (16, 8, 16), ElementType::F16, 2, (8, 0)),
            (Matrix::A, (16, 8, 16), ElementType::F16, 5, (0, 9)),
            (Matrix::B, (16, 8, 16), ElementType::F16, 3, (0, 9)),
            (Matrix::A, (16, 8, 8), ElementType::Tf32, 1, (8, 0)),
            (Matrix::A, (16, 8, 8), ElementType::Tf32, 2, (0, 4)),
            (Matrix::A, (16, 8, 32), ElementType::S8, 13, (8, 17)),
            (Matrix::A, (16, 8, 16), ElementType::F64, 5, (8, 8)),
            (Matrix::Sum, (16, 8, 16), ElementType::F32, 3, (8, 1)),
            (Matrix::Sum, (8, 8, 4), ElementType::F64, 1, (0, 1)),
            (Matrix::Sum, (16, 16, 16), ElementType::F32, 6, (8, 8)),
        ];
        for (matrix, shape, element, at, place) in cases {
            let fragment = Fragment::new(matrix, shape, element);
            assert_eq!(
                fragment.offset(at),
                place,
                "{matrix:?} {shape:?} {element:?} {at}"
            );
        }
    }

    #[test]
    fn registers_are_those_of_ptx() {
        let registers = |matrix, shape, element| Fragment::new(matrix, shape, element).registers();
        assert_eq!(registers(Matrix::A, (16, 8, 16), ElementType::Bf16), 4);
        assert_eq!(registers(Matrix::B, (16, 8, 16), ElementType::Bf16), 2);
        assert_eq!(registers(Matrix::Sum, (16, 8, 16), ElementType::F16), 2);
        assert_eq!(registers(Matrix::A, (8, 8, 128), ElementType::B1), 1);
        assert_eq!(registers(Matrix::A, (16, 8, 256), ElementType::B1), 4);
        assert_eq!(registers(Matrix::Sum, (8, 8, 128), ElementType::S32), 2);
        assert_eq!(registers(Matrix::Sum, (8, 32, 16), ElementType::F16), 4);
    }
}
