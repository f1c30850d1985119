//! The driver's functions, found in whatever `libcuda.so.1` the process loads: the front's or the driver's own.

use std::ffi::{CString, c_int, c_uint, c_ulonglong, c_void};
use std::sync::OnceLock;

use mgb_abi::array::ArrayDescriptor;
use mgb_abi::graph::{GraphExecUpdateResultInfo, GraphNodeParams, MemAllocNodeParams};
use mgb_abi::pool::{MemAccessDesc, MemPoolProps};
use mgb_abi::vmm::MemAllocationProp;

/// A code of type `CUresult`.
pub type ResultCode = c_int;
/// `CUDA_SUCCESS`.
pub const SUCCESS: ResultCode = 0;
/// `CUDA_ERROR_INVALID_VALUE`.
pub const INVALID_VALUE: ResultCode = 1;
/// `CUDA_ERROR_OUT_OF_MEMORY`.
pub const OUT_OF_MEMORY: ResultCode = 2;
/// `CUDA_ERROR_NOT_INITIALIZED`, which every call of a forked child answers.
pub const NOT_INITIALIZED: ResultCode = 3;

/// The bytes of a `CUipcMemHandle`.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
pub struct IpcBytes(pub [u8; 64]);

/// A library's function.
fn find(library: *mut c_void, name: &str) -> *mut c_void {
    let symbol = CString::new(name).expect("a name has no zero byte");
    // SAFETY: a library that is loaded, and a C string.
    let found = unsafe { libc::dlsym(library, symbol.as_ptr()) };
    assert!(!found.is_null(), "there is no {name}");
    found
}

/// Loads a library, for the rest of the process.
pub fn load(file: &str) -> *mut c_void {
    let name = CString::new(file).expect("a name has no zero byte");
    // SAFETY: a C string; what the library does as it is loaded is what programs load it for.
    let library = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_GLOBAL) };
    assert!(!library.is_null(), "failed to load {file}");
    library
}

/// Functions of a library as methods of a structure.
macro_rules! functions {
    ($of:ident: $($name:ident($($arg:ident: $ty:ty),* $(,)?);)*) => {
        /// Functions of a library.
        #[allow(non_snake_case, reason = "they have the library's names")]
        pub struct $of {
            $($name: unsafe extern "C" fn($($ty),*) -> c_int,)*
        }

        #[allow(non_snake_case, reason = "they have the library's names")]
        #[allow(clippy::too_many_arguments, reason = "they have the library's arguments")]
        impl $of {
            /// Those of a library that is loaded.
            pub fn of(library: *mut c_void) -> $of {
                $of {
                    // SAFETY: the library's function of this name has this signature.
                    $($name: unsafe {
                        std::mem::transmute::<*mut c_void, unsafe extern "C" fn($($ty),*) -> c_int>(
                            $crate::driver::find_for_table(library, stringify!($name)),
                        )
                    },)*
                }
            }

            $(
                /// The library's function of this name.
                pub fn $name(&self, $($arg: $ty),*) -> c_int {
                    // SAFETY: pointers are to places of the caller's that live until the call has returned, or to
                    // memory of the model's that is as large as the call is told.
                    unsafe { (self.$name)($($arg),*) }
                }
            )*
        }
    };
}
pub(crate) use functions;

/// [`find`], for the macro.
pub fn find_for_table(library: *mut c_void, name: &str) -> *mut c_void {
    find(library, name)
}

functions! { Driver:
    cuInit(flags: c_uint);
    cuDeviceGetCount(count: *mut c_int);
    cuDevicePrimaryCtxRetain(context: *mut usize, device: c_int);
    cuDevicePrimaryCtxRelease_v2(device: c_int);
    cuDevicePrimaryCtxReset_v2(device: c_int);
    cuDevicePrimaryCtxGetState(device: c_int, flags: *mut c_uint, active: *mut c_int);
    cuCtxSetCurrent(context: usize);
    cuCtxGetCurrent(context: *mut usize);
    cuCtxGetDevice(device: *mut c_int);
    cuCtxSynchronize();
    cuMemAlloc_v2(address: *mut u64, bytes: usize);
    cuMemAllocPitch_v2(address: *mut u64, pitch: *mut usize, width: usize, height: usize, element: c_uint);
    cuMemAllocManaged(address: *mut u64, bytes: usize, flags: c_uint);
    cuMemFree_v2(address: u64);
    cuMemHostAlloc(address: *mut *mut c_void, bytes: usize, flags: c_uint);
    cuMemFreeHost(address: *mut c_void);
    cuMemGetInfo_v2(free: *mut usize, total: *mut usize);
    cuMemGetAddressRange_v2(base: *mut u64, bytes: *mut usize, address: u64);
    cuPointerGetAttribute(value: *mut c_void, attribute: c_uint, address: u64);
    cuMemsetD8_v2(address: u64, value: u8, bytes: usize);
    cuMemsetD8Async(address: u64, value: u8, bytes: usize, stream: usize);
    cuMemcpyHtoD_v2(to: u64, from: *const c_void, bytes: usize);
    cuMemcpyDtoH_v2(to: *mut c_void, from: u64, bytes: usize);
    cuMemcpyDtoD_v2(to: u64, from: u64, bytes: usize);
    cuMemcpyHtoDAsync_v2(to: u64, from: *const c_void, bytes: usize, stream: usize);
    cuMemcpyDtoDAsync_v2(to: u64, from: u64, bytes: usize, stream: usize);
    cuMemAllocAsync(address: *mut u64, bytes: usize, stream: usize);
    cuMemFreeAsync(address: u64, stream: usize);
    cuMemAllocFromPoolAsync(address: *mut u64, bytes: usize, pool: usize, stream: usize);
    cuMemPoolCreate(pool: *mut usize, props: *const MemPoolProps);
    cuMemPoolDestroy(pool: usize);
    cuMemPoolTrimTo(pool: usize, keep: usize);
    cuMemPoolGetAttribute(pool: usize, attribute: c_uint, value: *mut c_void);
    cuMemPoolSetAttribute(pool: usize, attribute: c_uint, value: *mut c_void);
    cuDeviceGetDefaultMemPool(pool: *mut usize, device: c_int);
    cuDeviceGetMemPool(pool: *mut usize, device: c_int);
    cuDeviceSetMemPool(device: c_int, pool: usize);
    cuMemAddressReserve(address: *mut u64, bytes: usize, alignment: usize, wanted: u64, flags: c_ulonglong);
    cuMemAddressFree(address: u64, bytes: usize);
    cuMemCreate(handle: *mut u64, bytes: usize, prop: *const MemAllocationProp, flags: c_ulonglong);
    cuMemRelease(handle: u64);
    cuMemRetainAllocationHandle(handle: *mut u64, address: u64);
    cuMemMap(address: u64, bytes: usize, offset: usize, handle: u64, flags: c_ulonglong);
    cuMemUnmap(address: u64, bytes: usize);
    cuMemSetAccess(address: u64, bytes: usize, access: *const MemAccessDesc, count: usize);
    cuArrayCreate_v2(array: *mut usize, descriptor: *const ArrayDescriptor);
    cuArrayGetDescriptor_v2(descriptor: *mut ArrayDescriptor, array: usize);
    cuArrayDestroy(array: usize);
    cuStreamCreate(stream: *mut usize, flags: c_uint);
    cuStreamDestroy_v2(stream: usize);
    cuStreamSynchronize(stream: usize);
    cuStreamQuery(stream: usize);
    cuStreamBeginCapture_v2(stream: usize, mode: c_uint);
    cuStreamEndCapture(stream: usize, graph: *mut usize);
    cuStreamIsCapturing(stream: usize, status: *mut c_int);
    cuThreadExchangeStreamCaptureMode(mode: *mut c_uint);
    cuEventCreate(event: *mut usize, flags: c_uint);
    cuEventRecord(event: usize, stream: usize);
    cuEventSynchronize(event: usize);
    cuEventQuery(event: usize);
    cuEventDestroy_v2(event: usize);
    cuGraphCreate(graph: *mut usize, flags: c_uint);
    cuGraphDestroy(graph: usize);
    cuGraphAddEmptyNode(node: *mut usize, graph: usize, after: *const usize, count: usize);
    cuGraphAddMemAllocNode(
        node: *mut usize, graph: usize, after: *const usize, count: usize, params: *mut MemAllocNodeParams,
    );
    cuGraphAddMemFreeNode(node: *mut usize, graph: usize, after: *const usize, count: usize, address: u64);
    cuGraphAddNode_v2(
        node: *mut usize, graph: usize, after: *const usize, edges: *const c_void, count: usize,
        params: *mut GraphNodeParams,
    );
    cuGraphInstantiateWithFlags(exec: *mut usize, graph: usize, flags: c_ulonglong);
    cuGraphExecDestroy(exec: usize);
    cuGraphExecUpdate_v2(exec: usize, graph: usize, info: *mut GraphExecUpdateResultInfo);
    cuGraphLaunch(exec: usize, stream: usize);
    cuGraphUpload(exec: usize, stream: usize);
    cuDeviceGraphMemTrim(device: c_int);
    cuIpcGetMemHandle(handle: *mut IpcBytes, address: u64);
    cuIpcOpenMemHandle_v2(address: *mut u64, handle: IpcBytes, flags: c_uint);
    cuIpcCloseMemHandle(address: u64);
}

/// The driver that the process has.
pub fn driver() -> &'static Driver {
    static DRIVER: OnceLock<Driver> = OnceLock::new();
    DRIVER.get_or_init(|| Driver::of(load("libcuda.so.1")))
}
