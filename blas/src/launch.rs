//! Kernels of this library, and their launches.
//!
//! A kernel is a value: it is its own only parameter. The software GPU gets to know it at its first launch,
//! by an image as the compiler pass makes them for kernels of programs.

use std::any::{TypeId, type_name};
use std::collections::HashMap;
use std::ffi::{CString, c_void};
use std::ptr::null;
use std::sync::{Mutex, PoisonError};

use mgb_abi::image::{Image, Kernel as Described, Parameter, Thread, VERSION};
use mgb_abi::launch::Dim3;

use crate::handle::BlasHandle;
use crate::runtime::{__softgpuRegisterImage, cudaLaunchKernel, cudaStreamSynchronize};
use crate::status::{Result, Status};

/// Threads of a block.
pub const THREADS: u64 = 256;

/// Registers of a thread, as of many kernels of NVIDIA's: a multiprocessor holds four blocks.
const REGISTERS: u32 = 64;

/// Code that runs on a software GPU.
///
/// Its device time is that of a kernel whose threads execute as many instructions as it says. Each kernel
/// here counts one for a multiplication with its addition, four where the numbers are complex, and of 16-bit
/// formats a sixteenth, as on a GPU with matrix units; and one for each further element that it reads or
/// writes.
pub trait BlasKernel: Copy + Send + 'static {
    /// Runs one thread, and returns how many instructions that was. It must not allocate: where it touches
    /// memory that is not there it ends on the spot.
    ///
    /// # Safety
    /// The kernel's pointers are as its function asks for them: contract of every function of cuBLAS. Where
    /// they are not, the software GPU ends the kernel.
    unsafe fn run(&self, thread: u64) -> u64;
}

/// What the software GPU calls.
///
/// # Safety
/// `thread` is the running thread's, and the only argument a kernel of this type.
unsafe extern "C" fn entry<K: BlasKernel>(thread: *mut Thread, arguments: *const *const c_void) {
    // SAFETY: contract of `entry`; the kernel's own contract is that of the function that launched it.
    unsafe {
        let kernel = *(*arguments).cast::<K>();
        let [block, ..] = (*thread).ctaid;
        let number = u64::from(block) * u64::from((*thread).ntid[0]) + u64::from((*thread).tid[0]);
        (*thread).ops += kernel.run(number);
    }
}

/// The address by which kernels of a type are launched.
fn stub<K: BlasKernel>() -> *const c_void {
    static STUBS: Mutex<Option<HashMap<TypeId, usize>>> = Mutex::new(None);
    let mut stubs = STUBS.lock().unwrap_or_else(PoisonError::into_inner);
    let known = stubs.get_or_insert_default().entry(TypeId::of::<K>());
    *known.or_insert_with(register::<K>) as *const c_void
}

/// Describes kernels of a type to the software GPU, for the life of the process.
fn register<K: BlasKernel>() -> usize {
    let name = format!("cublas: {}", type_name::<K>().replace("mgb_blas::", ""));
    let name = CString::new(name).unwrap_or_default();
    let parameter: &'static Parameter = Box::leak(Box::new(Parameter {
        size: size_of::<K>() as u32,
        align: align_of::<K>() as u32,
    }));
    // Any address that is nobody else's.
    let stub = std::ptr::from_ref(parameter).cast::<c_void>();
    let kernel: &'static Described = Box::leak(Box::new(Described {
        stub,
        name: name.into_raw(),
        entry: Some(entry::<K>),
        error: null(),
        parameters: parameter,
        parameter_count: 1,
        flags: 0,
        static_shared: 0,
        registers: REGISTERS,
        local_bytes: 0,
        max_threads: THREADS as u32,
        frame_bytes: 0,
    }));
    let image: &'static Image = Box::leak(Box::new(Image {
        version: VERSION,
        kernel_count: 1,
        kernels: kernel,
        source: c"libcublas".as_ptr(),
        variable_count: 0,
        relocation_count: 0,
        variables: null(),
        relocations: null(),
        initial: null(),
        variable_bytes: 0,
        variable_align: 0,
        variables_slot: None,
        self_slot: None,
    }));
    // SAFETY: the image is as the header says, and stays.
    unsafe { __softgpuRegisterImage(image) };
    stub as usize
}

/// Launches a kernel with as many threads, or a few more that make the last block whole, in the handle's
/// stream.
///
/// # Errors
/// `ExecutionFailed` if the runtime refuses it; none for no threads.
pub fn launch<K: BlasKernel>(handle: &BlasHandle, kernel: K, threads: u64) -> Result {
    let blocks = threads.div_ceil(THREADS);
    if blocks == 0 {
        return Ok(());
    }
    let dim = |x: u64| u32::try_from(x).map(|x| Dim3 { x, y: 1, z: 1 });
    let (Ok(grid), Ok(block)) = (dim(blocks), dim(THREADS)) else {
        return Err(Status::InvalidValue);
    };
    let mut argument = (&raw const kernel).cast_mut().cast::<c_void>();
    // SAFETY: the kernel takes one argument, which the runtime copies.
    let code = unsafe { cudaLaunchKernel(stub::<K>(), grid, block, &raw mut argument, 0, handle.stream()) };
    if code == 0 {
        Ok(())
    } else {
        Err(Status::ExecutionFailed)
    }
}

/// Waits for what has been launched in the handle's stream.
///
/// # Errors
/// `ExecutionFailed` if something failed there.
pub fn finish(handle: &BlasHandle) -> Result {
    // SAFETY: a stream that the program gave.
    let code = unsafe { cudaStreamSynchronize(handle.stream()) };
    if code == 0 {
        Ok(())
    } else {
        Err(Status::ExecutionFailed)
    }
}
