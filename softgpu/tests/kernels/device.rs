//! "Device code": kernels as the pass's translation makes them, and the image that names them.

use std::cell::Cell;
use std::ffi::{CStr, c_void};
use std::ptr::null;
use std::sync::atomic::{AtomicU32, Ordering};

use softgpu::cudart::register::__softgpuRegisterImage;
use softgpu::image::{
    Image, KERNEL_BARRIER, Kernel, KernelEntry, Parameter, Relocation, Thread, VERSION, Variable,
};

/// The kernels of the tests.
#[allow(dead_code, reason = "each test binary launches its own")]
#[derive(Clone, Copy)]
pub enum TestKernel {
    Add,
    TreeSum,
    WarpSum,
    Diverge,
    EarlyExit,
    Hang,
    Store,
    Recurse,
    Trap,
    Assert,
    Unmarked,
    Print,
    Variables,
    Pretend,
    Untranslated,
}

const KERNELS: usize = TestKernel::Untranslated as usize + 1;

/// The host stubs: only their addresses matter.
pub static STUBS: [u8; KERNELS] = [0; KERNELS];

/// The host shadow of the variable.
pub static SHADOW: [u32; 2] = [0; 2];

thread_local! {
    static SELF: Cell<*mut Thread> = const { Cell::new(std::ptr::null_mut()) };
    static VARIABLES: Cell<*mut u8> = const { Cell::new(std::ptr::null_mut()) };
}

unsafe extern "C" fn self_slot() -> *mut *mut Thread {
    SELF.with(Cell::as_ptr)
}

unsafe extern "C" fn variables_slot() -> *mut *mut u8 {
    VARIABLES.with(Cell::as_ptr)
}

/// The argument at `index`: all of them are 64 bits.
unsafe fn argument(arguments: *const *const c_void, index: usize) -> u64 {
    // SAFETY: the tests pass as many as the kernels take.
    unsafe { (*arguments.add(index)).cast::<u64>().read() }
}

macro_rules! kernels {
    ($($(#[$meta:meta])* fn $name:ident($this:ident, $call:ident, $args:ident) $body:block)*) => {$(
        $(#[$meta])*
        unsafe extern "C" fn $name(thread: *mut Thread, $args: *const *const c_void) {
            // SAFETY: the runtime passes a thread and its arguments; the slot names the same thread.
            unsafe {
                assert_eq!(thread, SELF.get());
                #[allow(unused_variables)]
                let ($this, $call) = (thread, &*(*thread).calls);
                (*thread).ops += 10;
                $body
            }
        }
    )*};
}

kernels! {
    fn add(this, call, args) {
        let i = (*this).ctaid[0] as usize * (*this).ntid[0] as usize + (*this).tid[0] as usize;
        let [a, b, c, n] = [0, 1, 2, 3].map(|at| argument(args, at));
        if i < n as usize {
            *(c as *mut u32).add(i) = *(a as *const u32).add(i) + *(b as *const u32).add(i);
        }
    }

    fn tree_sum(this, call, args) {
        let (tid, threads) = ((*this).tid[0] as usize, (*this).ntid[0] as usize);
        let shared = (*this).dynamic_shared.cast::<u32>();
        *shared.add(tid) = tid as u32 + 1;
        let mut width = threads.next_power_of_two();
        while width > 1 {
            (call.barrier)(this, 0, 0);
            width /= 2;
            if tid < width && tid + width < threads {
                *shared.add(tid) += *shared.add(tid + width);
            }
        }
        if tid == 0 {
            *(argument(args, 0) as *mut u32).add((*this).ctaid[0] as usize) = *shared;
        }
    }

    fn warp_sum(this, call, args) {
        let tid = (*this).tid[0];
        let mut sum = tid;
        for step in [16, 8, 4, 2, 1] {
            let mut inside = 7;
            sum += (call.shuffle)(this, 3, u32::MAX, sum, step, 31, &mut inside);
            assert_eq!(inside, 1);
        }
        assert_eq!((call.vote)(this, 3, u32::MAX, u32::from((*this).lane < 4)), 15);
        assert_eq!((call.vote)(this, 0, u32::MAX, 1), 1);
        assert_eq!((call.barrier_reduce)(this, 0, 0, 0, u32::from(tid == 5)), 1);
        *(argument(args, 0) as *mut u32).add(tid as usize) = sum;
    }

    fn diverge(this, call, args) {
        let tid = (*this).tid[0];
        // Two places in the code, which the compiler must not make one of.
        let mask = if tid % 2 == 0 {
            std::hint::black_box(tid);
            let mask = (call.active_mask)(this, 1);
            (call.warp_sync)(this, mask);
            (call.vote)(this, 3, mask, 1)
        } else {
            let mask = (call.active_mask)(this, 2);
            (call.vote)(this, 3, mask, 1)
        };
        (call.warp_sync)(this, u32::MAX);
        *(argument(args, 0) as *mut u32).add(tid as usize) = mask;
    }

    fn early_exit(this, call, args) {
        if (*this).tid[0] % 2 == 0 {
            return;
        }
        for _ in 0..5 {
            (call.barrier)(this, 0, 0);
        }
        AtomicU32::from_ptr(argument(args, 0) as *mut u32).fetch_add(1, Ordering::Relaxed);
    }

    fn hang(this, call, args) {
        let _ = args;
        (call.barrier)(this, if (*this).tid[0] == 3 { 1 } else { 0 }, 0);
    }

    fn store(this, call, args) {
        std::ptr::write_volatile(argument(args, 0) as *mut u32, 1);
    }

    fn recurse(this, call, args) {
        deeper(argument(args, 0));
    }

    fn trap(this, call, args) {
        let _ = args;
        if (*this).tid[0] == 2 {
            (call.trap)(this, c"llvm.trap".as_ptr());
        }
    }

    fn assertion(this, call, args) {
        let _ = args;
        (call.assert_fail)(this, c"x > 0".as_ptr(), c"a.cu".as_ptr(), 7, c"f".as_ptr());
    }

    fn unmarked(this, call, args) {
        let _ = args;
        (call.barrier)(this, 0, 0);
    }

    fn print(this, call, args) {
        let _ = args;
        let packed = [u64::from((*this).ctaid[0]) | u64::from((*this).nctaid[0]) << 32, 0.5f64.to_bits()];
        assert_eq!((call.vprintf)(this, c"block %d of %d: %.2f\n".as_ptr(), packed.as_ptr().cast()), 3);
    }

    fn pretend(this, call, args) {
        (*this).ops += argument(args, 0);
    }

    fn variables(this, call, args) {
        let out = argument(args, 0) as *mut u32;
        let block = VARIABLES.get();
        *out = block.cast::<u32>().read();
        *out.add(1) = *block.add(8).cast::<*const u32>().read();
    }
}

#[inline(never)]
fn deeper(depth: u64) -> u64 {
    let here = std::hint::black_box([depth; 64]);
    if depth == 0 {
        here[3]
    } else {
        deeper(depth - 1) + std::hint::black_box(&here)[7]
    }
}

fn kernel(
    code: TestKernel,
    name: &'static CStr,
    entry: Option<KernelEntry>,
    parameters: usize,
    flags: u32,
) -> Kernel {
    static PARAMETERS: [Parameter; 4] = [Parameter { size: 8, align: 8 }; 4];
    Kernel {
        stub: std::ptr::from_ref(&STUBS[code as usize]).cast(),
        name: name.as_ptr(),
        entry,
        error: if entry.is_none() {
            c"llvm.nvvm.never is not supported".as_ptr()
        } else {
            null()
        },
        parameters: PARAMETERS.as_ptr(),
        parameter_count: parameters as u32,
        flags,
        static_shared: 0,
        registers: 32,
        local_bytes: 0,
        max_threads: 0,
        frame_bytes: 0,
    }
}

/// Registers the image, as a program's constructor would.
pub fn register() {
    let kernels = vec![
        kernel(TestKernel::Add, c"add", Some(add), 4, 0),
        kernel(
            TestKernel::TreeSum,
            c"tree_sum",
            Some(tree_sum),
            1,
            KERNEL_BARRIER,
        ),
        kernel(
            TestKernel::WarpSum,
            c"warp_sum",
            Some(warp_sum),
            1,
            KERNEL_BARRIER,
        ),
        kernel(TestKernel::Diverge, c"diverge", Some(diverge), 1, KERNEL_BARRIER),
        kernel(
            TestKernel::EarlyExit,
            c"early_exit",
            Some(early_exit),
            1,
            KERNEL_BARRIER,
        ),
        kernel(TestKernel::Hang, c"hang", Some(hang), 0, KERNEL_BARRIER),
        kernel(TestKernel::Store, c"store", Some(store), 1, 0),
        kernel(TestKernel::Recurse, c"recurse", Some(recurse), 1, 0),
        kernel(TestKernel::Trap, c"trap", Some(trap), 0, 0),
        kernel(
            TestKernel::Assert,
            c"assertion",
            Some(assertion),
            0,
            KERNEL_BARRIER,
        ),
        kernel(TestKernel::Unmarked, c"unmarked", Some(unmarked), 0, 0),
        kernel(TestKernel::Print, c"print", Some(print), 0, 0),
        kernel(TestKernel::Variables, c"variables", Some(variables), 1, 0),
        kernel(TestKernel::Pretend, c"pretend", Some(pretend), 1, 0),
        kernel(TestKernel::Untranslated, c"untranslated", None, 0, 0),
    ];
    // Two words, and a pointer to the second of them.
    static INITIAL: [u32; 4] = [11, 22, 0, 0];
    static RELOCATIONS: [Relocation; 1] = [Relocation { offset: 8, target: 4 }];
    let host = std::ptr::from_ref(&SHADOW).cast();
    let variables = vec![Variable {
        host,
        name: c"words".as_ptr(),
        offset: 0,
        size: 8,
    }];
    let image = Image {
        version: VERSION,
        kernel_count: kernels.len() as u32,
        kernels: kernels.leak().as_ptr(),
        source: c"device.rs".as_ptr(),
        variable_count: 1,
        relocation_count: 1,
        variables: variables.leak().as_ptr(),
        relocations: RELOCATIONS.as_ptr(),
        initial: INITIAL.as_ptr().cast(),
        variable_bytes: 16,
        variable_align: 8,
        variables_slot: Some(variables_slot),
        self_slot: Some(self_slot),
    };
    // SAFETY: everything was leaked, or is static.
    unsafe { __softgpuRegisterImage(Box::leak(Box::new(image))) }
}
