//! The system calls that `mgbd`'s loop may make, by an allow list that the kernel keeps (seccomp(2)).
//!
//! The loop parses all that clients send. If one of them ever has it do something else than its code says, it
//! still runs no program, traces no process, has no socket but UNIX ones, makes no memory executable, mounts
//! nothing, becomes nobody else and loads nothing into the kernel. Threads that the loop starts, which close
//! what clients sent and write files, have the same list.
//!
//! Other threads were there before and have none: those that ask the driver and the name service run
//! libraries that are not ours, one writes the log, and one starts the holder ([`crate::holder`]), whose list
//! MPS and its clients would have as well.
//!
//! A call that is not on the list ends `mgbd` at once, with a line in its log and [`EXIT_CODE`]; what
//! programs have is held on, and another `mgbd` is started. It is no error that the caller could go on with:
//! the code that made it is not the code that was written here, or the list is wrong, which must be seen.

use std::collections::BTreeMap;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicI32, Ordering};

use seccompiler::{
    BpfProgram, Error, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch,
};

/// With what `mgbd` ends where it makes a call that it may not make.
pub const EXIT_CODE: i32 = 5;

/// How long the line about a refused call may take to be taken.
const TELL_TIMEOUT_MS: libc::c_int = 250;

/// Calls that are allowed whatever their arguments.
const ALLOWED: &[libc::c_long] = &[
    // Events, and what is waited for.
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait,
    libc::SYS_epoll_pwait2,
    libc::SYS_ppoll,
    libc::SYS_pselect6,
    libc::SYS_futex,
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_nanosleep,
    libc::SYS_sched_yield,
    libc::SYS_restart_syscall,
    // What clients, the holder and systemd are spoken to by.
    libc::SYS_accept4,
    libc::SYS_connect,
    libc::SYS_sendmsg,
    libc::SYS_sendto,
    libc::SYS_recvmsg,
    libc::SYS_recvfrom,
    libc::SYS_getsockopt,
    libc::SYS_setsockopt,
    libc::SYS_getsockname,
    libc::SYS_getpeername,
    libc::SYS_shutdown,
    libc::SYS_eventfd2,
    // Descriptors and files.
    libc::SYS_read,
    libc::SYS_write,
    libc::SYS_readv,
    libc::SYS_writev,
    libc::SYS_pread64,
    libc::SYS_pwrite64,
    libc::SYS_lseek,
    libc::SYS_close,
    libc::SYS_dup,
    libc::SYS_dup3,
    libc::SYS_fcntl,
    libc::SYS_flock,
    libc::SYS_fstat,
    libc::SYS_newfstatat,
    libc::SYS_statx,
    libc::SYS_fstatfs,
    libc::SYS_statfs,
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_readlinkat,
    libc::SYS_getdents64,
    libc::SYS_getcwd,
    libc::SYS_openat,
    libc::SYS_openat2,
    libc::SYS_memfd_create,
    libc::SYS_ftruncate,
    libc::SYS_fallocate,
    libc::SYS_fsync,
    libc::SYS_fdatasync,
    libc::SYS_renameat,
    libc::SYS_renameat2,
    libc::SYS_linkat,
    libc::SYS_unlinkat,
    libc::SYS_mkdirat,
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    libc::SYS_fchown,
    libc::SYS_fchownat,
    libc::SYS_setxattr,
    libc::SYS_fsetxattr,
    libc::SYS_umask,
    // Memory, as far as it is not executable: see `within`.
    libc::SYS_brk,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_madvise,
    // Processes: who they are, and the end of those that an administrator wants ended.
    libc::SYS_pidfd_open,
    libc::SYS_pidfd_send_signal,
    libc::SYS_wait4,
    libc::SYS_waitid,
    libc::SYS_getpid,
    libc::SYS_gettid,
    libc::SYS_getppid,
    libc::SYS_getuid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getegid,
    libc::SYS_sysinfo,
    libc::SYS_uname,
    libc::SYS_getrandom,
    libc::SYS_getrusage,
    // Threads and signals of its own.
    libc::SYS_set_robust_list,
    libc::SYS_rseq,
    libc::SYS_sched_getaffinity,
    libc::SYS_membarrier,
    libc::SYS_sigaltstack,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_exit,
    libc::SYS_exit_group,
    // Refused by `WITHOUT`, with what has libc take `clone` instead.
    libc::SYS_clone3,
];

/// Calls of this machine alone, which others have under other names.
#[cfg(target_arch = "x86_64")]
const OLD: &[libc::c_long] = &[
    libc::SYS_epoll_wait,
    libc::SYS_poll,
    libc::SYS_select,
    libc::SYS_time,
    libc::SYS_gettimeofday,
    libc::SYS_open,
    libc::SYS_stat,
    libc::SYS_lstat,
    libc::SYS_access,
    libc::SYS_readlink,
    libc::SYS_rename,
    libc::SYS_link,
    libc::SYS_unlink,
    libc::SYS_mkdir,
    libc::SYS_rmdir,
    libc::SYS_chmod,
    libc::SYS_chown,
    libc::SYS_dup2,
];
#[cfg(not(target_arch = "x86_64"))]
const OLD: &[libc::c_long] = &[];

/// Where the line about a refused call goes.
static TELLS: AtomicI32 = AtomicI32::new(libc::STDERR_FILENO);

/// Has the line about a refused call written here, which must stay open.
pub fn tell_in(log: RawFd) {
    TELLS.store(log, Ordering::Relaxed);
}

/// From now on this thread, and those that it starts, may make no other calls than those of the list.
///
/// # Errors
/// Where the kernel does not keep such lists.
pub fn confine() -> Result<(), Error> {
    tell_of_refusals();
    // Without arguments in registers nothing can be said of this one. libc goes on with `clone`.
    seccompiler::apply_filter(&without_clone3()?)?;
    seccompiler::apply_filter(&loop_filter()?)
}

/// The argument of this number, of 32 bits, is this one.
fn is(argument: u8, value: u64) -> Result<SeccompCondition, Error> {
    condition(argument, SeccompCmpOp::Eq, value)
}

/// The argument of this number has these bits of the mask.
fn has(argument: u8, mask: u64, bits: u64) -> Result<SeccompCondition, Error> {
    condition(argument, SeccompCmpOp::MaskedEq(mask), bits)
}

fn condition(argument: u8, how: SeccompCmpOp, value: u64) -> Result<SeccompCondition, Error> {
    Ok(SeccompCondition::new(
        argument,
        SeccompCmpArgLen::Dword,
        how,
        value,
    )?)
}

/// Calls that are allowed with these arguments alone: each rule is one way.
fn within() -> Result<BTreeMap<libc::c_long, Vec<SeccompRule>>, Error> {
    let (unix, executable) = (libc::AF_UNIX as u64, libc::PROT_EXEC as u64);
    let thread = libc::CLONE_THREAD as u64;
    // Names of mappings, as libc gives its own; see prctl(2).
    let names_mapping = 0x5356_4d41;
    let one_way = [
        (libc::SYS_socket, is(0, unix)?),
        (libc::SYS_socketpair, is(0, unix)?),
        (libc::SYS_ioctl, is(1, libc::FIONBIO)?),
        (libc::SYS_mmap, has(2, executable, 0)?),
        (libc::SYS_mprotect, has(2, executable, 0)?),
        (libc::SYS_clone, has(0, thread, thread)?),
        // As it aborts.
        (libc::SYS_tgkill, is(0, std::process::id().into())?),
        (libc::SYS_prctl, is(0, libc::PR_SET_NAME as u64)?),
        (libc::SYS_prctl, is(0, names_mapping)?),
    ];
    let mut rules: BTreeMap<_, Vec<SeccompRule>> = BTreeMap::new();
    for (call, condition) in one_way {
        rules
            .entry(call)
            .or_default()
            .push(SeccompRule::new(vec![condition])?);
    }
    // Reads a limit.
    let whole = |argument| SeccompCondition::new(argument, SeccompCmpArgLen::Qword, SeccompCmpOp::Eq, 0);
    let reads = SeccompRule::new(vec![is(0, 0)?, whole(2)?])?;
    rules.insert(libc::SYS_prlimit64, vec![reads]);
    Ok(rules)
}

fn loop_filter() -> Result<BpfProgram, Error> {
    let mut rules = within()?;
    rules.extend(ALLOWED.iter().chain(OLD).map(|call| (*call, Vec::new())));
    program(rules, SeccompAction::Trap, SeccompAction::Allow)
}

fn without_clone3() -> Result<BpfProgram, Error> {
    let rules = [(libc::SYS_clone3, Vec::new())].into();
    program(
        rules,
        SeccompAction::Allow,
        SeccompAction::Errno(libc::ENOSYS as u32),
    )
}

fn program(
    rules: BTreeMap<libc::c_long, Vec<SeccompRule>>,
    otherwise: SeccompAction,
    action: SeccompAction,
) -> Result<BpfProgram, Error> {
    let machine = TargetArch::try_from(std::env::consts::ARCH)?;
    Ok(SeccompFilter::new(rules, otherwise, action, machine)?.try_into()?)
}

/// Has a refused call end the process with a line that names it.
fn tell_of_refusals() {
    // SAFETY: zeros are a valid `sigaction`, whose handler is set below.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_flags = libc::SA_SIGINFO;
    action.sa_sigaction = refused as extern "C" fn(_, _, _) as usize;
    // SAFETY: `refused` is a handler as SA_SIGINFO has them, and async-signal-safe.
    unsafe { libc::sigaction(libc::SIGSYS, &raw const action, std::ptr::null_mut()) };
}

/// The handler of SIGSYS.
extern "C" fn refused(_: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    /// Where the kernel has the call's number in a `siginfo_t`, in words of 32 bits.
    const CALL: usize = 6;
    // SAFETY: the kernel passes a whole `siginfo_t`, of 32 words.
    let call = unsafe { info.cast::<libc::c_int>().add(CALL).read() };
    let mut digits = [0; 10];
    let number = decimal(call.unsigned_abs(), &mut digits);
    let before = b"mgbd: it made system call ".as_slice();
    let after = b", which it may not make, and ends; --no-seccomp lets it make any\n".as_slice();
    let parts = [before, number, after].map(|part| libc::iovec {
        iov_base: part.as_ptr().cast_mut().cast(),
        iov_len: part.len(),
    });
    // What was logged before comes first, as far as somebody reads it.
    crate::log::flush();
    let mut log = libc::pollfd {
        fd: TELLS.load(Ordering::Relaxed),
        events: libc::POLLOUT,
        revents: 0,
    };
    // SAFETY: system calls on what is there. A pipe that is said to be ready takes this much at once.
    unsafe {
        if libc::poll(&raw mut log, 1, TELL_TIMEOUT_MS) > 0 {
            libc::writev(log.fd, parts.as_ptr(), parts.len() as libc::c_int);
        }
    }
    // SAFETY: ends the process, without anything of Rust's.
    unsafe { libc::_exit(EXIT_CODE) }
}

/// A number as text, without memory of the heap.
fn decimal(mut number: u32, digits: &mut [u8; 10]) -> &[u8] {
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            return &digits[at..];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How a child process ends that confines itself and then does this: `None`, by a signal.
    fn ends(what: impl FnOnce() -> bool) -> Option<i32> {
        // SAFETY: the child does nothing that needs another thread of this process, and ends by `_exit`.
        match unsafe { libc::fork() } {
            0 => {
                // SAFETY: the descriptor is the child's own. Nobody is to read what it says.
                unsafe { libc::close(libc::STDERR_FILENO) };
                let is_right = confine().is_ok() && what();
                // SAFETY: ends the child.
                unsafe { libc::_exit(i32::from(!is_right)) }
            }
            child => {
                let mut status = 0;
                // SAFETY: waits for a child of this process.
                unsafe { libc::waitpid(child, &raw mut status, 0) };
                libc::WIFEXITED(status).then(|| libc::WEXITSTATUS(status))
            }
        }
    }

    #[test]
    fn what_the_loop_does_it_may_do() {
        type Does = fn() -> bool;
        let may: [(&str, Does); 4] = [
            ("a UNIX socket", || {
                // SAFETY: a plain system call of a process that is about to end.
                unsafe { libc::socket(libc::AF_UNIX, libc::SOCK_SEQPACKET, 0) >= 0 }
            }),
            ("memory", || {
                let (protection, flags) = (
                    libc::PROT_READ | libc::PROT_WRITE,
                    libc::MAP_PRIVATE | libc::MAP_ANON,
                );
                // SAFETY: new memory, where there is none.
                let at = unsafe { libc::mmap(std::ptr::null_mut(), 4096, protection, flags, -1, 0) };
                at != libc::MAP_FAILED
            }),
            ("a thread", || {
                let thread = std::thread::Builder::new().name("a thread".to_owned());
                thread
                    .spawn(|| 7)
                    .is_ok_and(|thread| thread.join().is_ok_and(|seven| seven == 7))
            }),
            ("a file", || std::fs::read("/proc/self/status").is_ok()),
        ];
        for (what, does) in may {
            assert_eq!(ends(does), Some(0), "{what}");
        }
    }

    #[test]
    fn anything_else_ends_it() {
        fn call(number: libc::c_long, arguments: [libc::c_long; 3]) -> bool {
            // SAFETY: the process is about to end; nothing is passed that the kernel could write to.
            unsafe { libc::syscall(number, arguments[0], arguments[1], arguments[2]) >= 0 }
        }
        let (inet, stream) = (libc::AF_INET.into(), libc::SOCK_STREAM.into());
        let vfork = (libc::CLONE_VM | libc::CLONE_VFORK).into();
        let executable = (libc::PROT_READ | libc::PROT_EXEC).into();
        let never: [(&str, libc::c_long, [libc::c_long; 3]); 16] = [
            ("an internet socket", libc::SYS_socket, [inet, stream, 0]),
            (
                "a netlink socket",
                libc::SYS_socket,
                [libc::AF_NETLINK.into(), 3, 0],
            ),
            ("a program", libc::SYS_execve, [0, 0, 0]),
            ("a program by a descriptor", libc::SYS_execveat, [0, 0, 0]),
            ("a process", libc::SYS_clone, [libc::SIGCHLD.into(), 0, 0]),
            ("a process that shares memory", libc::SYS_clone, [vfork, 0, 0]),
            ("executable memory", libc::SYS_mmap, [0, 4096, executable]),
            (
                "memory made executable",
                libc::SYS_mprotect,
                [0, 4096, executable],
            ),
            ("tracing", libc::SYS_ptrace, [libc::PTRACE_ATTACH.into(), 1, 0]),
            ("another's memory", libc::SYS_process_vm_readv, [1, 0, 0]),
            ("another's descriptor", libc::SYS_pidfd_getfd, [0, 0, 0]),
            ("a mount", libc::SYS_mount, [0, 0, 0]),
            (
                "a namespace",
                libc::SYS_unshare,
                [libc::CLONE_NEWUSER.into(), 0, 0],
            ),
            ("another user", libc::SYS_setresuid, [1, 1, 1]),
            ("a program in the kernel", libc::SYS_bpf, [0, 0, 0]),
            (
                "a terminal's input",
                libc::SYS_ioctl,
                [0, libc::TIOCSTI as libc::c_long, 0],
            ),
        ];
        for (what, number, arguments) in never {
            assert_eq!(ends(|| call(number, arguments)), Some(EXIT_CODE), "{what}");
        }
        // A signal to another process, a new handler, and the 32-bit calls, whose numbers mean others.
        assert_eq!(ends(|| call(libc::SYS_kill, [1, 0, 0])), Some(EXIT_CODE));
        assert_eq!(ends(|| call(libc::SYS_tgkill, [1, 1, 0])), Some(EXIT_CODE));
        assert_eq!(ends(|| call(libc::SYS_rt_sigaction, [0, 0, 0])), Some(EXIT_CODE));
        assert_ne!(ends(|| call(0x4000_0000 | libc::SYS_getpid, [0; 3])), Some(0));
    }
}
