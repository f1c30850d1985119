//! How the front's own functions are written: each has the driver's function of its name at hand.

use mgb_abi::launch::DriverLaunchConfig;
use mgb_abi::stream::STREAM_PER_THREAD;

/// `CUipcMemHandle` and `CUipcEventHandle`, which are passed by value.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct IpcHandle(pub [u64; 8]);

/// The stream of the `CUlaunchConfig` at this address.
pub fn stream_of(config: u64) -> usize {
    // SAFETY: null, or a whole structure: CUDA's contract of the functions that take one.
    unsafe { (config as usize as *const DriverLaunchConfig).as_ref() }.map_or(0, |config| config.stream)
}

/// A stream of a function's form for default streams per thread.
pub fn per_thread(stream: usize) -> usize {
    if stream == 0 { STREAM_PER_THREAD } else { stream }
}

/// Defines functions of the driver that the front answers itself. `native` is the driver's function, called
/// inside the gate; the function itself is outside.
macro_rules! own {
    ($($(#[$meta:meta])* fn $name:ident($($arg:ident: $ty:ty),* $(,)?) |$native:ident| $body:block)*) => { $(
        $(#[$meta])*
        #[doc = concat!("CUDA's `", stringify!($name), "`.")]
        ///
        /// # Safety
        /// As CUDA's documentation of the function asks.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($arg: $ty),*) -> mgb_abi::error::Code {
            type Native = unsafe extern "C" fn($($ty),*) -> mgb_abi::error::Code;
            let address = $crate::driver::address($crate::names::index::$name);
            // SAFETY: the slot's code goes on to the driver's function of this name, which has this
            // signature.
            let function = unsafe { std::mem::transmute::<*const std::ffi::c_void, Native>(address) };
            if $crate::session::is_forked() {
                // SAFETY: whoever calls it promises what CUDA asks of the function.
                return unsafe { function($($arg),*) };
            }
            let _stays = mgb_probe::cancel::hold();
            let $native = |$($arg: $ty),*| {
                let _inside = mgb_core::gate::enter();
                // SAFETY: whoever calls it promises what CUDA asks of the function.
                unsafe { function($($arg),*) }
            };
            $body
        }
    )* };
}

pub(crate) use own;
