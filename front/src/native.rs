//! How the front's own functions are written: each has the driver's function of its name at hand.

/// Defines functions of the driver that the front answers itself. `native` is the driver's function.
macro_rules! own {
    ($($(#[$meta:meta])* fn $name:ident($($arg:ident: $ty:ty),* $(,)?) |$native:ident| $body:block)*) => { $(
        $(#[$meta])*
        #[doc = concat!("CUDA's `", stringify!($name), "`.")]
        ///
        /// # Safety
        /// As CUDA's documentation of the function asks.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($arg: $ty),*) -> std::ffi::c_int {
            type Native = unsafe extern "C" fn($($ty),*) -> std::ffi::c_int;
            let address = $crate::driver::address($crate::names::index::$name);
            // SAFETY: the slot's code goes on to the driver's function of this name, which has this
            // signature.
            let $native = unsafe { std::mem::transmute::<*const std::ffi::c_void, Native>(address) };
            $body
        }
    )* };
}

pub(crate) use own;
