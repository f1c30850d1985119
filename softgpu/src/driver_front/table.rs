//! The functions of a front that the runtime calls.

use std::ffi::{CStr, c_char, c_int, c_uint, c_ulonglong, c_void};

use mgb_abi::array::Array3DDescriptor;
use mgb_abi::copy3d::{DriverCopy2D, DriverCopy3D};
use mgb_abi::graph::{GraphExecUpdateResultInfo, GraphInstantiateParams};
use mgb_abi::launch::DriverLaunchConfig;
use mgb_abi::pool::{MemAccessDesc, MemPoolProps};
use mgb_abi::texture::{DriverResourceDesc, DriverTextureDesc, ResourceViewDesc};

use crate::config::profile::CUDA_VERSION;
use crate::error::{Error, Result};
use crate::memory::share::MemoryHandle;
use crate::stream::{handle, shared};

/// `cuGetProcAddress`, of whichever library.
pub(super) type GetProcAddress =
    unsafe extern "C" fn(*const c_char, *mut *mut c_void, c_int, c_ulonglong, *mut c_int) -> c_int;

/// `CU_GET_PROC_ADDRESS_DEFAULT`,
const LEGACY: c_ulonglong = 0;
/// `CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM`.
const PER_THREAD: c_ulonglong = 2;

/// A driver function's code as a result.
fn result(code: c_int) -> Result {
    if code == 0 {
        Ok(())
    } else {
        Err(Error(code as u32))
    }
}

/// Two functions: the one for the legacy default stream and the one for the thread's own.
struct Forms<F>([F; 2]);

impl<F: Copy> Forms<F> {
    /// The one that this call of the runtime means.
    fn chosen(&self) -> F {
        self.0[usize::from(handle::own_default())]
    }
}

/// Makes [`Front`] and a method for each function, by the name that `cuGetProcAddress` knows.
macro_rules! front {
    (
        one: $(fn $one:ident($($one_arg:ident: $one_ty:ty),* $(,)?);)*
        by_stream: $(fn $two:ident($($two_arg:ident: $two_ty:ty),* $(,)?);)*
    ) => {
        /// The functions of a library that stands before the software GPU's driver. What they return is the
        /// driver's code.
        pub struct Front {
            ask: GetProcAddress,
            $($one: unsafe extern "C" fn($($one_ty),*) -> c_int,)*
            $($two: Forms<unsafe extern "C" fn($($two_ty),*) -> c_int>,)*
        }

        impl Front {
            /// All functions, as `ask` finds them.
            ///
            /// # Errors
            /// The name of one that is not there.
            pub(super) fn new(ask: GetProcAddress) -> std::result::Result<Front, &'static str> {
                let find = |name: &CStr, shown: &'static str, flags| {
                    look_up(ask, name, CUDA_VERSION, flags).map_err(|_| shown)
                };
                $(
                    let name = c_name(concat!(stringify!($one), "\0"));
                    let address = find(name, stringify!($one), LEGACY)?;
                    // SAFETY: the driver's function of this name has this signature.
                    let $one = unsafe {
                        std::mem::transmute::<*mut c_void, unsafe extern "C" fn($($one_ty),*) -> c_int>(address)
                    };
                )*
                $(
                    let name = c_name(concat!(stringify!($two), "\0"));
                    let addresses = [
                        find(name, stringify!($two), LEGACY)?,
                        find(name, stringify!($two), PER_THREAD)?,
                    ];
                    // SAFETY: the driver's functions of this name have this signature.
                    let $two = Forms(addresses.map(|address| unsafe {
                        std::mem::transmute::<*mut c_void, unsafe extern "C" fn($($two_ty),*) -> c_int>(address)
                    }));
                )*
                Ok(Front { ask, $($one,)* $($two,)* })
            }

            $(
                #[doc = concat!("CUDA's `", stringify!($one), "`. What it is given must meet its contract.")]
                #[allow(clippy::too_many_arguments)]
                pub(crate) fn $one(&self, $($one_arg: $one_ty),*) -> Result {
                    // SAFETY: the arguments meet CUDA's contract of the function: they are the runtime's own,
                    // or the program's for the same function of the runtime.
                    result(unsafe { (self.$one)($($one_arg),*) })
                }
            )*

            $(
                #[doc = concat!("CUDA's `", stringify!($two), "`. What it is given must meet its contract.")]
                #[allow(clippy::too_many_arguments)]
                pub(crate) fn $two(&self, $($two_arg: $two_ty),*) -> Result {
                    // SAFETY: the arguments meet CUDA's contract of the function: they are the runtime's own,
                    // or the program's for the same function of the runtime.
                    result(unsafe { (self.$two.chosen())($($two_arg),*) })
                }
            )*
        }
    };
}

impl Front {
    /// A driver's function by its name without a version: the one that this version of CUDA means.
    ///
    /// # Errors
    /// `NOT_FOUND`, and whatever else the front answers.
    pub fn function(&self, name: &CStr, version: c_int, flags: c_ulonglong) -> Result<*mut c_void> {
        look_up(self.ask, name, version, flags)
    }
}

fn look_up(ask: GetProcAddress, name: &CStr, version: c_int, flags: c_ulonglong) -> Result<*mut c_void> {
    let (mut function, mut status) = (std::ptr::null_mut(), 0);
    // SAFETY: a C string, and two places for the answer.
    result(unsafe { ask(name.as_ptr(), &mut function, version, flags, &mut status) })?;
    if function.is_null() {
        return Err(Error::NOT_FOUND);
    }
    Ok(function)
}

/// A constant text that ends in a zero.
fn c_name(text: &'static str) -> &'static CStr {
    CStr::from_bytes_with_nul(text.as_bytes()).unwrap_or_default()
}

front! {
    one:
    fn cuInit(flags: c_uint);
    fn cuDriverGetVersion(version: *mut c_int);
    fn cuDevicePrimaryCtxRetain(context: *mut usize, device: c_int);
    fn cuDevicePrimaryCtxRelease(device: c_int);
    fn cuDevicePrimaryCtxReset(device: c_int);
    fn cuCtxSetCurrent(context: usize);
    fn cuCtxSynchronize();
    fn cuMemGetInfo(free: *mut usize, total: *mut usize);
    fn cuMemAlloc(pointer: *mut usize, size: usize);
    fn cuMemAllocPitch(pointer: *mut usize, pitch: *mut usize, width: usize, height: usize, element: c_uint);
    fn cuMemAllocManaged(pointer: *mut usize, size: usize, flags: c_uint);
    fn cuMemFree(pointer: usize);
    fn cuArray3DCreate(array: *mut usize, wanted: *const Array3DDescriptor);
    fn cuArrayDestroy(array: usize);
    fn cuTexObjectCreate(
        object: *mut u64, resource: *const DriverResourceDesc, settings: *const DriverTextureDesc,
        view: *const ResourceViewDesc,
    );
    fn cuTexObjectDestroy(object: u64);
    fn cuSurfObjectCreate(object: *mut u64, resource: *const DriverResourceDesc);
    fn cuSurfObjectDestroy(object: u64);
    fn cuMemPoolCreate(pool: *mut usize, properties: *const MemPoolProps);
    fn cuMemPoolDestroy(pool: usize);
    fn cuMemPoolTrimTo(pool: usize, keep: usize);
    fn cuMemPoolSetAttribute(pool: usize, attribute: c_uint, value: *const c_void);
    fn cuMemPoolGetAttribute(pool: usize, attribute: c_uint, value: *mut c_void);
    fn cuMemPoolSetAccess(pool: usize, list: *const MemAccessDesc, count: usize);
    fn cuDeviceSetMemPool(device: c_int, pool: usize);
    fn cuGraphInstantiateWithFlags(exec: *mut usize, graph: usize, flags: c_ulonglong);
    fn cuGraphExecDestroy(exec: usize);
    fn cuGraphExecUpdate(exec: usize, graph: usize, info: *mut GraphExecUpdateResultInfo);
    fn cuDeviceGraphMemTrim(device: c_int);
    fn cuStreamDestroy(stream: usize);
    fn cuEventSynchronize(event: usize);
    fn cuEventQuery(event: usize);
    fn cuIpcGetMemHandle(handle: *mut MemoryHandle, memory: usize);
    fn cuIpcOpenMemHandle(memory: *mut usize, handle: MemoryHandle, flags: c_uint);
    fn cuIpcCloseMemHandle(memory: usize);
    fn cuIpcGetEventHandle(handle: *mut shared::EventHandle, event: usize);
    fn cuIpcOpenEventHandle(event: *mut usize, handle: shared::EventHandle);

    by_stream:
    fn cuMemcpy(to: usize, from: usize, count: usize);
    fn cuMemcpyHtoD(to: usize, from: *const c_void, count: usize);
    fn cuMemcpyDtoH(to: *mut c_void, from: usize, count: usize);
    fn cuMemcpyDtoD(to: usize, from: usize, count: usize);
    fn cuMemcpy2DUnaligned(copy: *const DriverCopy2D);
    fn cuMemcpy3D(copy: *const DriverCopy3D);
    fn cuMemcpyPeer(to: usize, to_context: usize, from: usize, from_context: usize, count: usize);
    fn cuMemcpy3DPeer(copy: *const DriverCopy3D);
    fn cuMemcpyAsync(to: usize, from: usize, count: usize, stream: usize);
    fn cuMemcpyHtoDAsync(to: usize, from: *const c_void, count: usize, stream: usize);
    fn cuMemcpyDtoHAsync(to: *mut c_void, from: usize, count: usize, stream: usize);
    fn cuMemcpyDtoDAsync(to: usize, from: usize, count: usize, stream: usize);
    fn cuMemcpy2DAsync(copy: *const DriverCopy2D, stream: usize);
    fn cuMemcpy3DAsync(copy: *const DriverCopy3D, stream: usize);
    fn cuMemcpyPeerAsync(
        to: usize, to_context: usize, from: usize, from_context: usize, count: usize, stream: usize,
    );
    fn cuMemcpy3DPeerAsync(copy: *const DriverCopy3D, stream: usize);
    fn cuMemsetD8(to: usize, value: u8, count: usize);
    fn cuMemsetD2D8(to: usize, pitch: usize, value: u8, width: usize, height: usize);
    fn cuMemsetD8Async(to: usize, value: u8, count: usize, stream: usize);
    fn cuMemsetD2D8Async(to: usize, pitch: usize, value: u8, width: usize, height: usize, stream: usize);
    fn cuLaunchKernel(
        kernel: usize, grid_x: c_uint, grid_y: c_uint, grid_z: c_uint, block_x: c_uint, block_y: c_uint,
        block_z: c_uint, shared: c_uint, stream: usize, arguments: *mut *mut c_void,
        extra: *mut *mut c_void,
    );
    fn cuLaunchCooperativeKernel(
        kernel: usize, grid_x: c_uint, grid_y: c_uint, grid_z: c_uint, block_x: c_uint, block_y: c_uint,
        block_z: c_uint, shared: c_uint, stream: usize, arguments: *mut *mut c_void,
    );
    fn cuLaunchKernelEx(
        config: *const DriverLaunchConfig, kernel: usize, arguments: *mut *mut c_void,
        extra: *mut *mut c_void,
    );
    fn cuGraphLaunch(graph: usize, stream: usize);
    fn cuGraphUpload(graph: usize, stream: usize);
    fn cuGraphInstantiateWithParams(exec: *mut usize, graph: usize, parameters: *mut GraphInstantiateParams);
    fn cuStreamBeginCapture(stream: usize, mode: u32);
    fn cuStreamBeginCaptureToGraph(
        stream: usize, graph: usize, after: *const usize, edges: *const c_void, count: usize, mode: u32,
    );
    fn cuStreamEndCapture(stream: usize, graph: *mut usize);
    fn cuStreamSynchronize(stream: usize);
    fn cuStreamQuery(stream: usize);
    fn cuMemAllocAsync(pointer: *mut usize, size: usize, stream: usize);
    fn cuMemAllocFromPoolAsync(pointer: *mut usize, size: usize, pool: usize, stream: usize);
    fn cuMemFreeAsync(pointer: usize, stream: usize);
}
