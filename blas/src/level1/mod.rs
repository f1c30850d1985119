//! Vectors: functions that change them, and functions that make one number of them.

pub mod change;
pub mod reduce;

/// Calls a function that takes two types, of elements and of scalars, for vectors, scalars and sums of three
/// `cudaDataType`s: those that cuBLAS's functions by type take.
macro_rules! by_type {
    ($element:expr, $scalar:expr, $sums:expr, $function:ident, $arguments:tt) => {
        match ($element, $scalar, $sums) {
            (data::R_16F, data::R_32F, data::R_32F) => $function::<Half, f32> $arguments,
            (data::R_16BF, data::R_32F, data::R_32F) => $function::<Brain, f32> $arguments,
            (data::R_32F, data::R_32F, data::R_32F) => $function::<f32, f32> $arguments,
            (data::R_64F, data::R_64F, data::R_64F) => $function::<f64, f64> $arguments,
            (data::C_32F, data::C_32F, data::C_32F) => $function::<Complex<f32>, Complex<f32>> $arguments,
            (data::C_64F, data::C_64F, data::C_64F) => $function::<Complex<f64>, Complex<f64>> $arguments,
            _ => Err(Status::NotSupported),
        }
    };
}
pub(crate) use by_type;
