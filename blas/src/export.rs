//! How functions are exported.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::status::{Result, Status, code};

/// Runs the body of a function: no panic crosses into C.
pub fn call(name: &str, body: impl FnOnce() -> Result) -> i32 {
    code(catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|_| {
        mgb_stderr::say!(
            "softgpu: {name} failed inside the software GPU's cuBLAS; the message above says where"
        );
        Err(Status::InternalError)
    }))
}

/// Defines functions of cuBLAS.
///
/// `(f32: cublasSscal_v2 cublasSscal_v2_64, ...) (arguments) { body }` defines a function for each type,
/// which is `T` in arguments and body, and its form for numbers of 64 bits. An argument of type `int` has 32
/// or 64 bits outside, and 64 in the body. `Int` is the type that it has outside.
macro_rules! blas {
    ($($(#[$doc:meta])* ($($ty:ty: $name:ident $wide:ident),+ $(,)?) $arguments:tt $body:block)*) => {
        $($(
            $crate::export::blas! { @one $ty, i32, $name, $arguments, $body }
            $crate::export::blas! { @one $ty, i64, $wide, $arguments, $body }
        )+)*
    };
    (@one $ty:ty, $int:ty, $name:ident, ($($arg:ident: $kind:tt),* $(,)?), $body:block) => {
        const _: () = {
            #[allow(dead_code)]
            type T = $ty;
            #[allow(dead_code)]
            type Int = $int;
            #[doc = concat!("cuBLAS's `", stringify!($name), "`.")]
            ///
            /// # Safety
            /// Pointers are as cuBLAS's documentation of the function asks.
            #[allow(clippy::too_many_arguments)]
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name($($arg: $crate::export::blas!(@type $kind, $int)),*) -> i32 {
                $(let $arg = $crate::export::blas!(@value $kind, $arg);)*
                $crate::export::call(stringify!($name), || $body)
            }
        };
    };
    (@type int, $int:ty) => { $int };
    (@type ($($type:tt)*), $int:ty) => { $($type)* };
    (@type $type:ident, $int:ty) => { $type };
    (@value int, $arg:ident) => { i64::from($arg) };
    (@value $kind:tt, $arg:ident) => { $arg };
}
pub(crate) use blas;
