//! The table of functions, with the types of CUDA's header.

use std::ffi::{CStr, c_int, c_uint, c_ulonglong, c_void};

use mgb_abi::error::Code;
use mgb_abi::graph::{DriverKernelNodeParams, MemAllocNodeParams};
use mgb_abi::pool::MemAccessDesc;
use mgb_abi::vmm::MemAllocationProp;

/// The driver's handle of a context, a `CUcontext`.
pub type Context = usize;
/// The driver's handle of a stream, a `CUstream`.
pub type Stream = usize;
/// The driver's handle of an event, a `CUevent`.
pub type Event = usize;

macro_rules! table {
    (required { $($name:ident($($ty:ty),*);)* } optional { $($extra:ident($($extra_ty:ty),*);)* }) => {
        /// The functions. The modules beside this one call them.
        #[allow(non_snake_case, reason = "the driver's own names")]
        pub struct Driver {
            $(pub(super) $name: unsafe extern "C" fn($($ty),*) -> Code,)*
            $(pub(super) $extra: unsafe extern "C" fn($($extra_ty),*) -> Code,)*
        }

        impl Driver {
            /// Finds them by their names. The error is the name of a required one that `find` has no address
            /// of.
            ///
            /// # Safety
            /// What `find` answers is null, or the driver's function of that name.
            pub unsafe fn find(find: impl Fn(&CStr) -> *const c_void) -> Result<Driver, &'static str> {
                Ok(Driver {
                    $($name: {
                        let found = find(c_name(concat!(stringify!($name), "\0")));
                        if found.is_null() {
                            return Err(stringify!($name));
                        }
                        type Function = unsafe extern "C" fn($($ty),*) -> Code;
                        // SAFETY: the driver's function (the caller's promise), which has this type.
                        unsafe { std::mem::transmute::<*const c_void, Function>(found) }
                    },)*
                    $($extra: {
                        let found = find(c_name(concat!(stringify!($extra), "\0")));
                        let found = if found.is_null() { not_found as *const c_void } else { found };
                        type Function = unsafe extern "C" fn($($extra_ty),*) -> Code;
                        // SAFETY: as above; or a function that reads no arguments, of which the caller cleans up.
                        unsafe { std::mem::transmute::<*const c_void, Function>(found) }
                    },)*
                })
            }
        }
    };
}

fn c_name(name: &'static str) -> &'static CStr {
    CStr::from_bytes_with_nul(name.as_bytes()).unwrap_or_default()
}

/// Stands for an optional function that this driver lacks.
extern "C" fn not_found() -> Code {
    Code::NOT_FOUND
}

table! {
    required {
        cuInit(c_uint);
        cuDeviceGetCount(*mut c_int);
        cuDeviceTotalMem_v2(*mut usize, c_int);
        cuDeviceGetUuid_v2(*mut [u8; 16], c_int);
        cuDeviceGetAttribute(*mut c_int, c_int, c_int);
        cuPointerGetAttribute(*mut c_void, c_int, u64);

        cuCtxGetCurrent(*mut Context);
        cuCtxSetCurrent(Context);
        cuCtxGetDevice(*mut c_int);
        cuCtxSynchronize();
        cuThreadExchangeStreamCaptureMode(*mut c_uint);

        cuMemAddressReserve(*mut u64, usize, usize, u64, c_ulonglong);
        cuMemAddressFree(u64, usize);
        cuMemCreate(*mut u64, usize, *const MemAllocationProp, c_ulonglong);
        cuMemRelease(u64);
        cuMemMap(u64, usize, usize, u64, c_ulonglong);
        cuMemUnmap(u64, usize);
        cuMemSetAccess(u64, usize, *const MemAccessDesc, usize);

        cuStreamCreate(*mut Stream, c_uint);
        cuStreamDestroy_v2(Stream);
        cuStreamSynchronize(Stream);
        cuMemcpyDtoHAsync_v2(*mut u8, u64, usize, Stream);
        cuMemcpyHtoDAsync_v2(u64, *const u8, usize, Stream);
        cuMemHostAlloc(*mut *mut c_void, usize, c_uint);
        cuMemFreeHost(*mut c_void);
    }
    optional {
        cuCtxGetId(Context, *mut c_ulonglong);
        cuCtxFromGreenCtx(*mut Context, usize);

        cuMemRetainAllocationHandle(*mut u64, u64);
        cuMemExportToShareableHandle(*mut c_int, u64, c_int, c_ulonglong);
        cuMemImportFromShareableHandle(*mut u64, usize, c_int);

        cuStreamQuery(Stream);
        cuStreamIsCapturing(Stream, *mut c_int);
        cuEventCreate(*mut Event, c_uint);
        cuEventRecord(Event, Stream);
        cuEventQuery(Event);
        cuEventElapsedTime(*mut f32, Event, Event);
        cuEventDestroy_v2(Event);

        cuMemPoolGetAttribute(usize, c_uint, *mut u64);
        cuMemPoolTrimTo(usize, usize);
        cuMemPoolDestroy(usize);
        cuMemFreeAsync(u64, Stream);
        cuDeviceGetMemPool(*mut usize, c_int);
        cuDeviceGetDefaultMemPool(*mut usize, c_int);
        cuDeviceSetMemPool(c_int, usize);
        cuDeviceGetGraphMemAttribute(c_int, c_uint, *mut u64);
        cuDeviceGraphMemTrim(c_int);

        cuGraphGetNodes(usize, *mut usize, *mut usize);
        cuGraphNodeGetType(usize, *mut c_uint);
        cuGraphKernelNodeGetParams_v2(usize, *mut DriverKernelNodeParams);
        cuGraphMemAllocNodeGetParams(usize, *mut MemAllocNodeParams);
        cuGraphChildGraphNodeGetGraph(usize, *mut usize);
    }
}

/// Calls one of the driver's functions: `call!(driver.cuMemUnmap(address, bytes))`.
macro_rules! call {
    ($driver:ident.$name:ident($($value:expr),* $(,)?)) => {
        // SAFETY: the driver's function, with the types of its header; the values are what CUDA's contract of
        // it asks for: see the caller. What they point to is a variable of the caller.
        unsafe { ($driver.$name)($($value),*) }
    };
}
pub(super) use call;

/// The value that a call wrote, if it succeeded.
pub(super) fn written<T>(value: T, code: Code) -> Result<T, Code> {
    if code.is_success() { Ok(value) } else { Err(code) }
}
