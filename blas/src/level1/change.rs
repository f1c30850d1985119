//! Functions that change vectors, an element per thread.

use std::ffi::{c_int, c_void};

use super::by_type;
use crate::export::blas;
use crate::handle::{BlasHandle, Pointer, handle};
use crate::launch::{BlasKernel, launch};
use crate::number::{Brain, Complex, Half, Number, Wide, data};
use crate::scalar::Scalar;
use crate::status::{Result, Status};
use crate::strided::Vector;

/// What becomes of the elements of one place: it changes them, and says how many instructions that was.
trait ElementChange<T: Number>: Copy + Send + 'static {
    /// # Safety
    /// Called by a kernel, with the index of an element of both vectors, as far as there are two.
    unsafe fn at(&self, index: i64, x: &Vector<T>, y: &Vector<T>) -> u64;
}

/// y = a x + y
#[derive(Clone, Copy)]
struct AddScaled<S: Number>(Scalar<S>);
/// x = a x
#[derive(Clone, Copy)]
struct Scale<S: Number>(Scalar<S>);
/// y = x
#[derive(Clone, Copy)]
struct Duplicate;
/// x and y change places.
#[derive(Clone, Copy)]
struct SwapElements;
/// x = c x + s y, y = c y - s x
#[derive(Clone, Copy)]
struct Rotate<T: Number>(Scalar<T>, Scalar<T>);

impl<T: Number, S: Number<Wide = T::Wide>> ElementChange<T> for AddScaled<S> {
    unsafe fn at(&self, index: i64, x: &Vector<T>, y: &Vector<T>) -> u64 {
        // SAFETY: contract of `at`.
        unsafe {
            y.set(
                index,
                T::narrow(self.0.get() * x.get(index).wide() + y.get(index).wide()),
            )
        };
        3 + T::INSTRUCTIONS
    }
}

impl<T: Number, S: Number> ElementChange<T> for Scale<S>
where
    S::Wide: Times<T::Wide>,
{
    unsafe fn at(&self, index: i64, x: &Vector<T>, _: &Vector<T>) -> u64 {
        // SAFETY: contract of `at`.
        unsafe { x.set(index, T::narrow(self.0.get().times(x.get(index).wide()))) };
        2 + T::INSTRUCTIONS
    }
}

impl<T: Number> ElementChange<T> for Duplicate {
    unsafe fn at(&self, index: i64, x: &Vector<T>, y: &Vector<T>) -> u64 {
        // SAFETY: contract of `at`.
        unsafe { y.set(index, x.get(index)) };
        2
    }
}

impl<T: Number> ElementChange<T> for SwapElements {
    unsafe fn at(&self, index: i64, x: &Vector<T>, y: &Vector<T>) -> u64 {
        // SAFETY: contract of `at`.
        unsafe {
            let (one, other) = (x.get(index), y.get(index));
            x.set(index, other);
            y.set(index, one);
        }
        4
    }
}

impl<T: Number> ElementChange<T> for Rotate<T> {
    unsafe fn at(&self, index: i64, x: &Vector<T>, y: &Vector<T>) -> u64 {
        // SAFETY: contract of `at`.
        unsafe {
            let (c, s) = (self.0.get(), self.1.get());
            let (one, other) = (x.get(index).wide(), y.get(index).wide());
            x.set(index, T::narrow(c * one + s * other));
            y.set(index, T::narrow(c * other - s * one));
        }
        4 + 4 * T::INSTRUCTIONS
    }
}

/// Multiplication of a number by one that may be real where it is complex.
trait Times<W> {
    fn times(self, other: W) -> W;
}

impl<W: Wide> Times<W> for W {
    fn times(self, other: W) -> W {
        self * other
    }
}

impl Times<Complex<f64>> for f64 {
    fn times(self, other: Complex<f64>) -> Complex<f64> {
        Complex {
            re: self * other.re,
            im: self * other.im,
        }
    }
}

#[derive(Clone, Copy)]
struct Changes<T: Number, C: ElementChange<T>> {
    change: C,
    n: i64,
    x: Vector<T>,
    y: Vector<T>,
}

impl<T: Number, C: ElementChange<T>> BlasKernel for Changes<T, C> {
    unsafe fn run(&self, thread: u64) -> u64 {
        let index = thread as i64;
        if index >= self.n {
            return 1;
        }
        // SAFETY: an element's index; the rest is the contract of `run`.
        unsafe { self.change.at(index, &self.x, &self.y) }
    }
}

/// Changes one vector, or two, of `n` elements.
fn apply<T: Number>(
    h: &BlasHandle,
    n: i64,
    change: impl ElementChange<T>,
    x: Vector<T>,
    y: Vector<T>,
) -> Result {
    launch(h, Changes { change, n, x, y }, n.max(0) as u64)
}

/// # Safety
/// Contract of `cublasSscal`.
unsafe fn scale<T: Number, S: Number>(h: &BlasHandle, n: i64, a: *const S, x: *mut T, step: i64) -> Result
where
    S::Wide: Times<T::Wide>,
{
    // SAFETY: contract of `scale`.
    let a = unsafe { Scalar::new(h, a) }?;
    // BLAS leaves vectors alone that do not go forwards.
    let n = if step > 0 { n } else { 0 };
    let x = Vector::new(n, x, step);
    apply(h, n, Scale(a), x, x)
}

/// # Safety
/// Contract of `cublasSaxpy`.
unsafe fn add_scaled<T: Number, S: Number<Wide = T::Wide>>(
    h: &BlasHandle,
    n: i64,
    a: *const S,
    (x, x_step): (*const T, i64),
    (y, y_step): (*mut T, i64),
) -> Result {
    // SAFETY: contract of `add_scaled`.
    let a = unsafe { Scalar::new(h, a) }?;
    apply(
        h,
        n,
        AddScaled(a),
        Vector::new(n, x, x_step),
        Vector::new(n, y, y_step),
    )
}

blas! {
    (f32: cublasSaxpy_v2 cublasSaxpy_v2_64, f64: cublasDaxpy_v2 cublasDaxpy_v2_64,
     Complex<f32>: cublasCaxpy_v2 cublasCaxpy_v2_64, Complex<f64>: cublasZaxpy_v2 cublasZaxpy_v2_64)
    (h: Pointer, n: int, a: (*const T), x: (*const T), x_step: int, y: (*mut T), y_step: int) {
        // SAFETY: cuBLAS's contract of the function.
        unsafe { add_scaled(handle(h)?, n, a, (x, x_step), (y, y_step)) }
    }

    (f32: cublasSscal_v2 cublasSscal_v2_64, f64: cublasDscal_v2 cublasDscal_v2_64,
     Complex<f32>: cublasCscal_v2 cublasCscal_v2_64, Complex<f64>: cublasZscal_v2 cublasZscal_v2_64)
    (h: Pointer, n: int, a: (*const T), x: (*mut T), step: int) {
        // SAFETY: cuBLAS's contract of the function.
        unsafe { scale(handle(h)?, n, a, x, step) }
    }

    (Complex<f32>: cublasCsscal_v2 cublasCsscal_v2_64, Complex<f64>: cublasZdscal_v2 cublasZdscal_v2_64)
    (h: Pointer, n: int, a: (*const <T as Number>::Size), x: (*mut T), step: int) {
        // SAFETY: cuBLAS's contract of the function.
        unsafe { scale(handle(h)?, n, a, x, step) }
    }

    (f32: cublasScopy_v2 cublasScopy_v2_64, f64: cublasDcopy_v2 cublasDcopy_v2_64,
     Complex<f32>: cublasCcopy_v2 cublasCcopy_v2_64, Complex<f64>: cublasZcopy_v2 cublasZcopy_v2_64)
    (h: Pointer, n: int, x: (*const T), x_step: int, y: (*mut T), y_step: int) {
        // SAFETY: cuBLAS's contract of handles.
        let h = unsafe { handle(h) }?;
        apply(h, n, Duplicate, Vector::new(n, x, x_step), Vector::new(n, y, y_step))
    }

    (f32: cublasSswap_v2 cublasSswap_v2_64, f64: cublasDswap_v2 cublasDswap_v2_64,
     Complex<f32>: cublasCswap_v2 cublasCswap_v2_64, Complex<f64>: cublasZswap_v2 cublasZswap_v2_64)
    (h: Pointer, n: int, x: (*mut T), x_step: int, y: (*mut T), y_step: int) {
        // SAFETY: cuBLAS's contract of handles.
        let h = unsafe { handle(h) }?;
        apply(h, n, SwapElements, Vector::new(n, x, x_step), Vector::new(n, y, y_step))
    }

    (f32: cublasSrot_v2 cublasSrot_v2_64, f64: cublasDrot_v2 cublasDrot_v2_64)
    (h: Pointer, n: int, x: (*mut T), x_step: int, y: (*mut T), y_step: int, c: (*const T), s: (*const T)) {
        // SAFETY: cuBLAS's contract of handles and scalars.
        let (h, c, s) = unsafe {
            let h = handle(h)?;
            (h, Scalar::new(h, c)?, Scalar::new(h, s)?)
        };
        apply(h, n, Rotate(c, s), Vector::new(n, x, x_step), Vector::new(n, y, y_step))
    }

    ((): cublasAxpyEx cublasAxpyEx_64)
    (h: Pointer, n: int, a: (*const c_void), a_type: c_int, x: (*const c_void), x_type: c_int, x_step: int,
     y: (*mut c_void), y_type: c_int, y_step: int, execution: c_int) {
        // SAFETY: cuBLAS's contract of handles.
        let h = unsafe { handle(h) }?;
        if x_type != y_type {
            return Err(Status::NotSupported);
        }
        // SAFETY: cuBLAS's contract of the function: the pointers are to what the types say.
        unsafe {
            by_type!(x_type, a_type, execution, add_scaled,
                (h, n, a.cast(), (x.cast(), x_step), (y.cast(), y_step)))
        }
    }

    ((): cublasScalEx cublasScalEx_64)
    (h: Pointer, n: int, a: (*const c_void), a_type: c_int, x: (*mut c_void), x_type: c_int, step: int,
     execution: c_int) {
        // SAFETY: cuBLAS's contract of handles.
        let h = unsafe { handle(h) }?;
        // SAFETY: cuBLAS's contract of the function: the pointers are to what the types say.
        unsafe { by_type!(x_type, a_type, execution, scale, (h, n, a.cast(), x.cast(), step)) }
    }
}
