//! Faults of the machine in kernels and copies: bad addresses, bad instructions, deep recursion.
//!
//! While a fiber runs, its thread's guard names it. The signal handler makes a guarded fiber return
//! `Exit::Fault` instead of going on; all other faults go to the handlers that were installed before.

use std::cell::Cell;
use std::ffi::c_void;
use std::sync::{Once, OnceLock};

use corosensei::CoroutineResult;
use corosensei::trap::CoroutineTrapHandler;

use super::fiber::{Exit, Fiber, Pause, Stacks};
use crate::error::Result;
use crate::pages;
use crate::per_thread::PerThread;

/// The signals of faults.
pub const SIGNALS: [libc::c_int; 4] = [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL];

/// Bytes of the stack that the handler runs on.
const HANDLER_STACK: usize = 64 << 10;

thread_local! {
    static GUARD: Cell<Option<CoroutineTrapHandler<Exit>>> = const { Cell::new(None) };
    static PREPARED: Cell<bool> = const { Cell::new(false) };
}

static OWN_STACK: PerThread<Option<HandlerStack>> = PerThread::new();
static STACKS: PerThread<Stacks> = PerThread::new();

static BEFORE: [OnceLock<libc::sigaction>; SIGNALS.len()] = [const { OnceLock::new() }; SIGNALS.len()];

/// Resumes a fiber under guard.
pub fn resume(fiber: &mut Fiber) -> CoroutineResult<Pause, Exit> {
    prepare();
    let outer = GUARD.replace(Some(fiber.trap_handler()));
    let result = fiber.resume(());
    GUARD.set(outer);
    result
}

/// Runs `body` so that a fault in it is returned: the address.
///
/// `body` must hold nothing that is to be dropped where it may fault.
///
/// # Errors
/// The outer error: there is no stack. The inner one: the address of the fault.
pub fn guarded(body: impl FnOnce()) -> Result<std::result::Result<(), usize>> {
    let stack = STACKS.with(Stacks::take)?;
    // SAFETY: the fiber ends before this function returns, so what `body` borrows outlives it.
    let mut fiber = unsafe {
        Fiber::with_stack_unchecked(stack, |_, ()| {
            body();
            Exit::Done
        })
    };
    let result = resume(&mut fiber);
    STACKS.with(|stacks| stacks.give(fiber));
    match result {
        CoroutineResult::Return(Exit::Fault { address, .. }) => Ok(Err(address)),
        _ => Ok(Ok(())),
    }
}

/// Installs the handler once per process, and its stack once per thread.
fn prepare() {
    if PREPARED.replace(true) {
        return;
    }
    give_handler_stack();
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        for (at, signal) in SIGNALS.into_iter().enumerate() {
            // SAFETY: `sigaction` is plain data; the handler keeps to what may be done in one.
            unsafe {
                let mut action: libc::sigaction = std::mem::zeroed();
                action.sa_sigaction = handle as *const () as usize;
                action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_NODEFER;
                let mut before: libc::sigaction = std::mem::zeroed();
                if libc::sigaction(signal, &action, &mut before) == 0 {
                    let _ = BEFORE[at].set(before);
                }
            }
        }
    });
}

/// A fiber that has run out of stack cannot run the handler on it.
fn give_handler_stack() {
    // SAFETY: `stack_t` is plain data; the memory given to the kernel is taken back when the thread ends.
    unsafe {
        let mut present: libc::stack_t = std::mem::zeroed();
        libc::sigaltstack(std::ptr::null(), &mut present);
        if present.ss_flags & libc::SS_DISABLE == 0 {
            return;
        }
        let Ok(memory) = pages::reserve(0, HANDLER_STACK, pages::PAGE) else {
            return;
        };
        let stack = HandlerStack(memory);
        if pages::fill(memory, HANDLER_STACK).is_ok() {
            let own = libc::stack_t {
                ss_sp: memory as *mut c_void,
                ss_flags: 0,
                ss_size: HANDLER_STACK,
            };
            libc::sigaltstack(&own, std::ptr::null_mut());
            OWN_STACK.with(|own| *own = Some(stack));
        }
    }
}

/// The stack that a thread's handler runs on, unless the thread had one.
struct HandlerStack(usize);

impl Drop for HandlerStack {
    fn drop(&mut self) {
        // SAFETY: `stack_t` is plain data; the stack is given back only if it is still this one.
        unsafe {
            let mut present: libc::stack_t = std::mem::zeroed();
            libc::sigaltstack(std::ptr::null(), &mut present);
            if present.ss_sp as usize == self.0 {
                present.ss_flags = libc::SS_DISABLE;
                libc::sigaltstack(&present, std::ptr::null_mut());
            }
        }
        pages::release(self.0, HANDLER_STACK);
    }
}

unsafe extern "C" fn handle(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel passes a valid `siginfo_t`; for these signals it has an address.
    let address = unsafe { (*info).si_addr() } as usize;
    if let Some(guard) = GUARD.get() {
        // SAFETY: the kernel passes a `ucontext_t` that the handler may change.
        if unsafe { leave(guard, context.cast(), Exit::Fault { signal, address }) } {
            return;
        }
    }
    let before = SIGNALS
        .iter()
        .position(|&s| s == signal)
        .and_then(|at| BEFORE[at].get());
    // SAFETY: what was installed before is called as it was declared; the default is put back, so
    // that the faulting instruction, executed again, does what it would have done.
    unsafe {
        match before {
            Some(old) if old.sa_sigaction > libc::SIG_IGN && old.sa_flags & libc::SA_SIGINFO != 0 => {
                let old: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut c_void) =
                    std::mem::transmute(old.sa_sigaction);
                old(signal, info, context);
            }
            Some(old) if old.sa_sigaction > libc::SIG_IGN => {
                let old: extern "C" fn(libc::c_int) = std::mem::transmute(old.sa_sigaction);
                old(signal);
            }
            _ => {
                libc::signal(signal, libc::SIG_DFL);
            }
        }
    }
}

/// Makes the interrupted fiber return `exit`. `false` if it was not the fiber that was interrupted.
///
/// # Safety
/// Called from a signal handler with its context, while the guarded fiber lives.
#[cfg(target_arch = "x86_64")]
unsafe fn leave(guard: CoroutineTrapHandler<Exit>, context: *mut libc::ucontext_t, exit: Exit) -> bool {
    // SAFETY: `context` is that of the signal: contract of `leave`; the stack pointer is checked before the
    // fiber is redirected.
    unsafe {
        let registers = &mut (*context).uc_mcontext.gregs;
        if !guard.stack_ptr_in_bounds(registers[libc::REG_RSP as usize] as usize) {
            return false;
        }
        let to = guard.setup_trap_handler(move || exit);
        registers[libc::REG_RIP as usize] = to.rip as i64;
        registers[libc::REG_RSP as usize] = to.rsp as i64;
        registers[libc::REG_RBP as usize] = to.rbp as i64;
        registers[libc::REG_RDI as usize] = to.rdi as i64;
        registers[libc::REG_RSI as usize] = to.rsi as i64;
    }
    true
}

/// Elsewhere faults are the process's.
///
/// # Safety
/// None needed.
#[cfg(not(target_arch = "x86_64"))]
unsafe fn leave(_: CoroutineTrapHandler<Exit>, _: *mut libc::ucontext_t, _: Exit) -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_is_returned_and_the_thread_goes_on() {
        let page = pages::reserve(0, pages::PAGE, pages::PAGE).unwrap();
        for _ in 0..3 {
            // SAFETY: the page cannot be read: the fault is what is tested.
            let read = guarded(|| unsafe {
                std::ptr::read_volatile((page + 8) as *const u8);
            });
            assert_eq!(read, Ok(Err(page + 8)));
        }
        assert_eq!(guarded(|| ()), Ok(Ok(())));
    }
}
