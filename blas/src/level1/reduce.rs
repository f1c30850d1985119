//! Functions that make one number of vectors: products, sums, norms, and places of extreme elements.
//!
//! One thread of a block does it all, in the order of the elements, so that a result never depends on a
//! schedule. In device time the work counts as shared out among all threads of `SHARERS` blocks, as a GPU
//! does it.

use std::ffi::{c_int, c_void};
use std::marker::PhantomData;

use super::by_type;
use crate::export::blas;
use crate::handle::{BlasHandle, Pointer, handle};
use crate::launch::{BlasKernel, THREADS, launch};
use crate::number::{Brain, Complex, Half, Number, Wide, data};
use crate::scalar::result;
use crate::status::{Result, Status};
use crate::strided::Vector;

/// Blocks that a reduction counts as shared out among.
const SHARERS: u64 = 132;

/// What is made of vectors.
trait Reduction: Copy + Send + 'static {
    /// The type of the result.
    type Found: Copy + Default;
    /// Instructions that an element counts as.
    const EACH: u64;

    /// # Safety
    /// Called by a kernel; vectors have `n` elements.
    unsafe fn of(&self, n: i64) -> Self::Found;
}

/// The sum of x y, or of conj(x) y.
#[derive(Clone, Copy)]
struct DotProduct<T, S> {
    x: Vector<T>,
    y: Vector<T>,
    conjugated: bool,
    /// The type that the sum is rounded to, before it is rounded to the elements'.
    sum: PhantomData<fn() -> S>,
}
/// The root of the sum of squares.
#[derive(Clone, Copy)]
struct Norm<T>(Vector<T>);
/// The sum of sizes, those of real and imaginary parts by themselves.
#[derive(Clone, Copy)]
struct Sizes<T>(Vector<T>);
/// The place, from 1 on, of the first element with the largest or the smallest size; as an `int` of 32 or 64
/// bits.
#[derive(Clone, Copy)]
struct Extreme<T, I> {
    x: Vector<T>,
    smallest: bool,
    place: PhantomData<fn() -> I>,
}

impl<T: Number, S: Number<Wide = T::Wide>> Reduction for DotProduct<T, S> {
    type Found = T;
    const EACH: u64 = 2 + T::INSTRUCTIONS;

    unsafe fn of(&self, n: i64) -> T {
        let mut sum = T::Wide::ZERO;
        for at in 0..n {
            // SAFETY: contract of `of`.
            let (x, y) = unsafe { (self.x.get(at).wide(), self.y.get(at).wide()) };
            sum = sum + x.conj_if(self.conjugated) * y;
        }
        T::narrow(S::narrow(sum).wide())
    }
}

impl<T: Number> Reduction for Norm<T> {
    type Found = T::Size;
    const EACH: u64 = 1 + T::INSTRUCTIONS;

    unsafe fn of(&self, n: i64) -> T::Size {
        // In units of the largest, so that no square overflows or vanishes.
        let (mut unit, mut sum) = (0.0, 0.0);
        for at in 0..n {
            // SAFETY: contract of `of`.
            for part in unsafe { self.0.get(at) }.wide().parts() {
                let size = part.abs();
                if size > unit {
                    let shrink: f64 = unit / size;
                    sum = 1.0 + sum * shrink * shrink;
                    unit = size;
                } else if size != 0.0 {
                    // Not-a-number comes here as well, and stays.
                    sum += if unit == f64::INFINITY && size == unit {
                        1.0
                    } else {
                        (size / unit).powi(2)
                    };
                }
            }
        }
        T::Size::narrow(unit * sum.sqrt())
    }
}

impl<T: Number> Reduction for Sizes<T> {
    type Found = T::Size;
    const EACH: u64 = 1 + T::INSTRUCTIONS;

    unsafe fn of(&self, n: i64) -> T::Size {
        let mut sum = 0.0;
        for at in 0..n {
            // SAFETY: contract of `of`.
            sum += unsafe { size(&self.0, at) };
        }
        T::Size::narrow(sum)
    }
}

impl<T: Number, I: Copy + Default + TryFrom<i64> + 'static> Reduction for Extreme<T, I> {
    type Found = I;
    const EACH: u64 = 2 + T::INSTRUCTIONS;

    unsafe fn of(&self, n: i64) -> I {
        let (mut found, mut best) = (0, f64::NAN);
        for at in 0..n {
            // SAFETY: contract of `of`.
            let size = unsafe { size(&self.x, at) };
            let better = if self.smallest { size < best } else { size > best };
            if at == 0 || better {
                (found, best) = (at + 1, size);
            }
        }
        I::try_from(found).unwrap_or_default()
    }
}

/// The size of an element: of its parts, where it is complex.
///
/// # Safety
/// Called by a kernel, with the index of an element.
unsafe fn size<T: Number>(x: &Vector<T>, index: i64) -> f64 {
    // SAFETY: contract of `size`.
    let [re, im] = unsafe { x.get(index) }.wide().parts();
    re.abs() + im.abs()
}

#[derive(Clone, Copy)]
struct Reduce<R: Reduction> {
    what: R,
    n: i64,
    to: *mut R::Found,
}

// SAFETY: only the kernel writes through the pointer.
unsafe impl<R: Reduction> Send for Reduce<R> {}

impl<R: Reduction> BlasKernel for Reduce<R> {
    unsafe fn run(&self, thread: u64) -> u64 {
        if thread == 0 {
            // SAFETY: contract of `run`.
            unsafe { self.to.write_unaligned(self.what.of(self.n)) };
        }
        // A share, and as many steps as sums of two need.
        (self.n as u64 * R::EACH).div_ceil(SHARERS * THREADS) + 2 * u64::from(THREADS.ilog2())
    }
}

/// Makes one number of vectors of `n` elements: zero of none.
///
/// # Safety
/// Contract of a function of cuBLAS with a result at `to`.
unsafe fn reduce<R: Reduction>(h: &BlasHandle, n: i64, what: R, to: *mut R::Found) -> Result {
    let n = n.max(0);
    // SAFETY: contract of `reduce`.
    unsafe { result(h, to, |to| launch(h, Reduce { what, n, to }, SHARERS * THREADS)) }
}

/// # Safety
/// Contract of `cublasDotEx`. The second type is that of sums.
unsafe fn product<T: Number, S: Number<Wide = T::Wide>>(
    h: &BlasHandle,
    n: i64,
    (x, x_step): (*const T, i64),
    (y, y_step): (*const T, i64),
    conjugated: bool,
    to: *mut T,
) -> Result {
    let what: DotProduct<T, S> = DotProduct {
        x: Vector::new(n, x, x_step),
        y: Vector::new(n, y, y_step),
        conjugated,
        sum: PhantomData,
    };
    // SAFETY: contract of `product`.
    unsafe { reduce(h, n, what, to) }
}

/// # Safety
/// Contract of `cublasNrm2Ex`.
unsafe fn norm<T: Number>(h: &BlasHandle, n: i64, (x, step): (*const T, i64), to: *mut T::Size) -> Result {
    // Nothing but vectors that go forwards has a norm in BLAS.
    let n = if step > 0 { n } else { 0 };
    // SAFETY: contract of `norm`.
    unsafe { reduce(h, n, Norm(Vector::new(n, x, step)), to) }
}

/// # Safety
/// Contract of `cublasIsamax`.
unsafe fn extreme<T: Number, I: Copy + Default + TryFrom<i64> + 'static>(
    h: &BlasHandle,
    n: i64,
    (x, step): (*const T, i64),
    smallest: bool,
    to: *mut I,
) -> Result {
    let n = if step > 0 { n } else { 0 };
    let x = Vector::new(n, x, step);
    let what = Extreme {
        x,
        smallest,
        place: PhantomData,
    };
    // SAFETY: contract of `extreme`.
    unsafe { reduce(h, n, what, to) }
}

blas! {
    (f32: cublasSdot_v2 cublasSdot_v2_64, f64: cublasDdot_v2 cublasDdot_v2_64,
     Complex<f32>: cublasCdotu_v2 cublasCdotu_v2_64, Complex<f64>: cublasZdotu_v2 cublasZdotu_v2_64)
    (h: Pointer, n: int, x: (*const T), x_step: int, y: (*const T), y_step: int, to: (*mut T)) {
        // SAFETY: cuBLAS's contract of the function.
        unsafe { product::<T, T>(handle(h)?, n, (x, x_step), (y, y_step), false, to) }
    }

    (Complex<f32>: cublasCdotc_v2 cublasCdotc_v2_64, Complex<f64>: cublasZdotc_v2 cublasZdotc_v2_64)
    (h: Pointer, n: int, x: (*const T), x_step: int, y: (*const T), y_step: int, to: (*mut T)) {
        // SAFETY: cuBLAS's contract of the function.
        unsafe { product::<T, T>(handle(h)?, n, (x, x_step), (y, y_step), true, to) }
    }

    (f32: cublasSnrm2_v2 cublasSnrm2_v2_64, f64: cublasDnrm2_v2 cublasDnrm2_v2_64,
     Complex<f32>: cublasScnrm2_v2 cublasScnrm2_v2_64, Complex<f64>: cublasDznrm2_v2 cublasDznrm2_v2_64)
    (h: Pointer, n: int, x: (*const T), step: int, to: (*mut <T as Number>::Size)) {
        // SAFETY: cuBLAS's contract of the function.
        unsafe { norm(handle(h)?, n, (x, step), to) }
    }

    (f32: cublasSasum_v2 cublasSasum_v2_64, f64: cublasDasum_v2 cublasDasum_v2_64,
     Complex<f32>: cublasScasum_v2 cublasScasum_v2_64, Complex<f64>: cublasDzasum_v2 cublasDzasum_v2_64)
    (h: Pointer, n: int, x: (*const T), step: int, to: (*mut <T as Number>::Size)) {
        let n = if step > 0 { n } else { 0 };
        // SAFETY: cuBLAS's contract of the function.
        unsafe { reduce(handle(h)?, n, Sizes(Vector::new(n, x, step)), to) }
    }

    (f32: cublasIsamax_v2 cublasIsamax_v2_64, f64: cublasIdamax_v2 cublasIdamax_v2_64,
     Complex<f32>: cublasIcamax_v2 cublasIcamax_v2_64, Complex<f64>: cublasIzamax_v2 cublasIzamax_v2_64)
    (h: Pointer, n: int, x: (*const T), step: int, to: (*mut Int)) {
        // SAFETY: cuBLAS's contract of the function.
        unsafe { extreme(handle(h)?, n, (x, step), false, to) }
    }

    (f32: cublasIsamin_v2 cublasIsamin_v2_64, f64: cublasIdamin_v2 cublasIdamin_v2_64,
     Complex<f32>: cublasIcamin_v2 cublasIcamin_v2_64, Complex<f64>: cublasIzamin_v2 cublasIzamin_v2_64)
    (h: Pointer, n: int, x: (*const T), step: int, to: (*mut Int)) {
        // SAFETY: cuBLAS's contract of the function.
        unsafe { extreme(handle(h)?, n, (x, step), true, to) }
    }

    ((): cublasDotEx cublasDotEx_64)
    (h: Pointer, n: int, x: (*const c_void), x_type: c_int, x_step: int, y: (*const c_void), y_type: c_int,
     y_step: int, to: (*mut c_void), to_type: c_int, execution: c_int) {
        // SAFETY: cuBLAS's contract of handles.
        let h = unsafe { handle(h) }?;
        if x_type != y_type || x_type != to_type {
            return Err(Status::NotSupported);
        }
        let (x, y) = ((x, x_step), (y, y_step));
        // SAFETY: cuBLAS's contract of the function: the pointers are to what the types say.
        unsafe {
            by_type!(x_type, execution, execution, product,
                (h, n, (x.0.cast(), x.1), (y.0.cast(), y.1), false, to.cast()))
        }
    }

    ((): cublasDotcEx cublasDotcEx_64)
    (h: Pointer, n: int, x: (*const c_void), x_type: c_int, x_step: int, y: (*const c_void), y_type: c_int,
     y_step: int, to: (*mut c_void), to_type: c_int, execution: c_int) {
        // SAFETY: cuBLAS's contract of handles.
        let h = unsafe { handle(h) }?;
        if x_type != y_type || x_type != to_type {
            return Err(Status::NotSupported);
        }
        let (x, y) = ((x, x_step), (y, y_step));
        // SAFETY: cuBLAS's contract of the function: the pointers are to what the types say.
        unsafe {
            by_type!(x_type, execution, execution, product,
                (h, n, (x.0.cast(), x.1), (y.0.cast(), y.1), true, to.cast()))
        }
    }
}
