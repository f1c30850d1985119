//! What translated device code and the software GPU agree on: a mirror of `softgpu/include/softgpu_image.h`.

use core::ffi::{c_char, c_void};

/// The version of the contract.
pub const VERSION: u32 = 3;

/// The kernel needs threads of a block to wait for each other.
pub const KERNEL_BARRIER: u32 = 1;

/// The kernel's entry is a [`Begin`].
pub const KERNEL_COROUTINE: u32 = 2;

/// `softgpu_thread`: the state of one running thread, as generated code sees it.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Thread {
    /// `threadIdx`.
    pub tid: [u32; 3],
    /// `blockDim`.
    pub ntid: [u32; 3],
    /// `blockIdx`.
    pub ctaid: [u32; 3],
    /// `gridDim`.
    pub nctaid: [u32; 3],
    /// Within the warp.
    pub lane: u32,
    /// Within the block.
    pub warp: u32,
    /// The block's static shared memory.
    pub shared: *mut u8,
    /// The block's dynamic shared memory.
    pub dynamic_shared: *mut u8,
    /// Services of the runtime.
    pub calls: *const Calls,
    /// Instructions that the thread has executed.
    pub ops: u64,
    /// Past the dynamic shared memory.
    pub shared_end: *mut u8,
    /// How often it has seen the same at `poll_place` in a loop.
    pub polls: u32,
    /// Of a cooperative launch: its size, its grid barrier.
    pub workspace: *mut u32,
    /// What it saw last in memory that others write.
    pub poll_value: u64,
    /// Where it saw that.
    pub poll_place: *const c_void,
    /// Of a coroutine: its frame.
    pub local: *mut u8,
    /// Bytes of that; 0 of others.
    pub local_bytes: u64,
    /// What a coroutine's last service gave it.
    pub answer: u32,
}

/// `softgpu_calls`: services that generated code calls.
#[repr(C)]
#[allow(missing_docs)]
pub struct Calls {
    pub version: u32,
    pub count: u32,
    pub barrier: unsafe extern "C" fn(*mut Thread, u32, u32),
    pub barrier_reduce: unsafe extern "C" fn(*mut Thread, u32, u32, u32, u32) -> u32,
    pub warp_sync: unsafe extern "C" fn(*mut Thread, u32),
    pub shuffle: unsafe extern "C" fn(*mut Thread, u32, u32, u32, u32, u32, *mut u8) -> u32,
    pub vote: unsafe extern "C" fn(*mut Thread, u32, u32, u32) -> u32,
    pub active_mask: unsafe extern "C" fn(*mut Thread, u32) -> u32,
    pub trap: unsafe extern "C" fn(*mut Thread, *const c_char),
    pub vprintf: unsafe extern "C" fn(*mut Thread, *const c_char, *const c_void) -> i32,
    pub assert_fail: unsafe extern "C" fn(*mut Thread, *const c_char, *const c_char, u32, *const c_char),
    pub clock: unsafe extern "C" fn(*mut Thread) -> u64,
    pub global_timer: unsafe extern "C" fn(*mut Thread) -> u64,
    pub barrier_arrive: unsafe extern "C" fn(*mut Thread, u32, u32),
    pub yield_turn: unsafe extern "C" fn(*mut Thread),
    pub exit: unsafe extern "C" fn(*mut Thread),
    pub allocate: unsafe extern "C" fn(*mut Thread, u64) -> *mut c_void,
    pub release: unsafe extern "C" fn(*mut Thread, *mut c_void),
    pub matrix: unsafe extern "C" fn(*mut Thread, u64, *mut c_void),
    pub texture: unsafe extern "C" fn(*mut Thread, u64, u32, u32, *const u32, *mut u32),
    pub surface_read: unsafe extern "C" fn(*mut Thread, u64, u32, u32, *const u32, u32, *mut c_void),
    pub surface_write: unsafe extern "C" fn(*mut Thread, u64, u32, u32, *const u32, u32, *const c_void),
    pub is_local: unsafe extern "C" fn(*mut Thread, *const c_void) -> u32,
}

/// `softgpu_parameter`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Parameter {
    /// Bytes of the value.
    pub size: u32,
    /// Alignment of the value in bytes.
    pub align: u32,
}

/// A kernel's code: runs one thread.
pub type KernelEntry = unsafe extern "C" fn(*mut Thread, *const *const c_void);

/// A coroutine's code: lays out a thread in a frame.
pub type Begin = unsafe extern "C" fn(*mut Thread, *const *const c_void, *mut u8) -> u64;

/// What a coroutine's frame begins with; `None` once its thread has ended.
pub type Resume = Option<unsafe extern "C" fn(*mut u8)>;

/// `softgpu_kernel`.
#[repr(C)]
pub struct Kernel {
    /// The host stub that launches it.
    pub stub: *const c_void,
    /// The kernel's mangled name.
    pub name: *const c_char,
    /// `None`: see `error`.
    pub entry: Option<KernelEntry>,
    /// Why there is no code.
    pub error: *const c_char,
    /// `parameter_count` of them.
    pub parameters: *const Parameter,
    /// How many parameters it has.
    pub parameter_count: u32,
    /// `KERNEL_*`.
    pub flags: u32,
    /// Bytes per block.
    pub static_shared: u32,
    /// Per thread, estimated.
    pub registers: u32,
    /// Stack that a thread needs; 0: not known.
    pub local_bytes: u32,
    /// `__launch_bounds__`; 0: none.
    pub max_threads: u32,
    /// Of a coroutine.
    pub frame_bytes: u64,
}

/// `softgpu_variable`.
#[repr(C)]
pub struct Variable {
    /// The host shadow; may be null.
    pub host: *const c_void,
    /// The variable's name.
    pub name: *const c_char,
    /// Within the block of variables.
    pub offset: u64,
    /// Bytes of the variable.
    pub size: u64,
}

/// `softgpu_relocation`: at `offset` stands a pointer to `target`, both within the block.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Relocation {
    /// Where the pointer stands.
    pub offset: u64,
    /// What it points to.
    pub target: u64,
}

/// `softgpu_image`: one translation unit.
#[repr(C)]
pub struct Image {
    /// [`VERSION`].
    pub version: u32,
    /// How many kernels.
    pub kernel_count: u32,
    /// The first of `kernel_count` kernels.
    pub kernels: *const Kernel,
    /// Path of the source file.
    pub source: *const c_char,
    /// How many variables.
    pub variable_count: u32,
    /// How many relocations.
    pub relocation_count: u32,
    /// The first of `variable_count` variables.
    pub variables: *const Variable,
    /// The first of `relocation_count` relocations.
    pub relocations: *const Relocation,
    /// Initial contents of the block of variables.
    pub initial: *const u8,
    /// Bytes of the block of variables.
    pub variable_bytes: u64,
    /// Alignment of the block of variables.
    pub variable_align: u64,
    /// Where generated code finds the block: the calling OS thread's pointer to it.
    pub variables_slot: Option<unsafe extern "C" fn() -> *mut *mut u8>,
    /// Where generated code finds its `softgpu_thread`.
    pub self_slot: Option<unsafe extern "C" fn() -> *mut *mut Thread>,
}

// SAFETY: an image and all it points to is constant data of the program.
unsafe impl Sync for Image {}
// SAFETY: a kernel's description is constant data of the program.
unsafe impl Sync for Kernel {}
// SAFETY: a variable's description is constant data of the program.
unsafe impl Sync for Variable {}

/// A slice of an image's array, which may be null when it is empty.
///
/// # Safety
/// `start` points to `count` values that live as long as the image, or `count` is 0.
pub unsafe fn slice<'a, T>(start: *const T, count: u32) -> &'a [T] {
    if start.is_null() || count == 0 {
        return &[];
    }
    // SAFETY: `start` has `count` elements that outlive `'a`: contract of `slice`.
    unsafe { core::slice::from_raw_parts(start, count as usize) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::mem::offset_of;

    #[test]
    fn the_layout_is_the_headers() {
        assert_eq!(offset_of!(Thread, ctaid), 24);
        assert_eq!(offset_of!(Thread, lane), 48);
        assert_eq!(offset_of!(Thread, shared), 56);
        assert_eq!(offset_of!(Thread, calls), 72);
        assert_eq!(offset_of!(Thread, ops), 80);
        assert_eq!(offset_of!(Thread, shared_end), 88);
        assert_eq!(offset_of!(Thread, polls), 96);
        assert_eq!(offset_of!(Thread, workspace), 104);
        assert_eq!(offset_of!(Thread, local), 128);
        assert_eq!(offset_of!(Thread, answer), 144);
        assert_eq!(size_of::<Thread>(), 152);
        assert_eq!(size_of::<Kernel>(), 72);
        assert_eq!(size_of::<Image>(), 88);
        assert_eq!(size_of::<Calls>(), 8 + 21 * 8);
    }
}
