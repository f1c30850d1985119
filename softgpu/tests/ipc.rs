//! Memory and events that processes share by handles.

mod common;

use std::ffi::c_void;
use std::io::{BufRead, BufReader, Write};
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use common::{MIB, StateFile, is_child};
use softgpu::cudart::copy::cudaMemcpy;
use softgpu::cudart::event::{
    cudaEventCreate, cudaEventCreateWithFlags, cudaEventQuery, cudaEventRecord, cudaEventSynchronize,
    cudaStreamWaitEvent,
};
use softgpu::cudart::ipc::{
    cudaIpcCloseMemHandle, cudaIpcGetEventHandle, cudaIpcGetMemHandle, cudaIpcOpenEventHandle,
    cudaIpcOpenMemHandle,
};
use softgpu::cudart::memory::{cudaFree, cudaMalloc, cudaMemGetInfo};
use softgpu::cudart::stream::cudaLaunchHostFunc;
use softgpu::memory::share::MemoryHandle;
use softgpu::stream::shared;

const DEVICES: &str = "1x64MiB:ctx=1MiB";

fn malloc(bytes: usize) -> *mut c_void {
    let mut pointer = std::ptr::null_mut();
    // SAFETY: an out pointer of our own.
    assert_eq!(unsafe { cudaMalloc(&mut pointer, bytes) }, 0);
    pointer
}

fn write(to: *mut c_void, value: u64) {
    // SAFETY: eight bytes of ours.
    let code = unsafe { cudaMemcpy(to, std::ptr::from_ref(&value).cast(), 8, 1) };
    assert_eq!(code, 0);
}

fn read(from: *const c_void) -> u64 {
    let mut value = 0u64;
    // SAFETY: eight bytes of ours.
    let code = unsafe { cudaMemcpy(std::ptr::from_mut(&mut value).cast(), from, 8, 2) };
    assert_eq!(code, 0);
    value
}

fn free_bytes() -> usize {
    let (mut free, mut total) = (0, 0);
    // SAFETY: out pointers of our own.
    assert_eq!(unsafe { cudaMemGetInfo(&mut free, &mut total) }, 0);
    free / MIB
}

fn handle(memory: *mut c_void) -> MemoryHandle {
    let mut handle = MaybeUninit::uninit();
    // SAFETY: an out pointer of our own, written where the call succeeds.
    unsafe {
        assert_eq!(cudaIpcGetMemHandle(handle.as_mut_ptr(), memory), 0);
        handle.assume_init()
    }
}

fn spelled<T>(handle: &T) -> String {
    assert_eq!(size_of::<T>(), 64);
    // SAFETY: a handle is integers without gaps.
    let bytes: &[u8; 64] = unsafe { &*std::ptr::from_ref(handle).cast() };
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn spelt<T>(text: &str) -> T {
    assert_eq!(size_of::<T>(), 64);
    let bytes: Vec<u8> = (0..64)
        .map(|at| u8::from_str_radix(&text[2 * at..2 * at + 2], 16).unwrap())
        .collect();
    // SAFETY: a handle is integers, for which any bytes are a value.
    unsafe { bytes.as_ptr().cast::<T>().read_unaligned() }
}

/// An event for other processes, and its handle.
fn event() -> (usize, shared::EventHandle) {
    let (mut event, mut handle) = (0, MaybeUninit::uninit());
    // SAFETY: out pointers of our own, written where the calls succeed.
    unsafe {
        assert_eq!(cudaEventCreate(&mut event), 0);
        assert_eq!(cudaIpcGetEventHandle(handle.as_mut_ptr(), event), 400);
        assert_eq!(cudaEventCreateWithFlags(&mut event, 6), 0);
        assert_eq!(cudaIpcGetEventHandle(handle.as_mut_ptr(), event), 0);
        (event, handle.assume_init())
    }
}

fn open_event(handle: shared::EventHandle) -> i32 {
    let mut event = 0;
    // SAFETY: an out pointer of our own.
    unsafe { cudaIpcOpenEventHandle(&mut event, handle) }
}

unsafe extern "C" fn hold(flag: *mut c_void) {
    // SAFETY: the flag outlives the stream's work.
    while !unsafe { &*flag.cast::<AtomicBool>() }.load(SeqCst) {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}

fn open(handle: MemoryHandle) -> (i32, *mut c_void) {
    let mut memory = std::ptr::null_mut();
    // SAFETY: an out pointer of our own.
    (unsafe { cudaIpcOpenMemHandle(&mut memory, handle, 1) }, memory)
}

/// Gets handles to a small and to a large allocation, writes through both, and tells.
fn child() {
    let mut lines = std::io::stdin().lines();
    let mut next = || lines.next().unwrap().unwrap();
    let [small, large] = [spelt::<MemoryHandle>(&next()), spelt(&next())];
    let mut event = 0;
    // SAFETY: an out pointer of our own. Its owner's stream is held up before the record.
    unsafe {
        assert_eq!(cudaIpcOpenEventHandle(&mut event, spelt(&next())), 0);
        assert_eq!(cudaEventQuery(event), 600);
        assert_eq!(cudaStreamWaitEvent(0, event, 0), 0);
        println!("\nwaits");
        assert_eq!([cudaEventSynchronize(event), cudaEventQuery(event)], [0, 0]);
    }
    let before = free_bytes();
    let [(first, small_at), (second, large_at)] = [open(small), open(large)];
    assert_eq!((first, second), (0, 0));
    // Not charged; open once more is the same memory; not to be freed.
    assert_eq!(free_bytes(), before);
    assert_eq!(open(small), (0, small_at));
    // SAFETY: addresses of ours.
    unsafe {
        assert_ne!(cudaFree(small_at), 0);
        assert_eq!((read(small_at), read(large_at)), (11, 22));
        write(small_at, 33);
        write(large_at.wrapping_byte_add(3 * MIB - 8), 44);
        println!("\ndone");
        assert_eq!(next(), "changed");
        assert_eq!(read(small_at), 55);
        assert_eq!(
            [cudaIpcCloseMemHandle(small_at), cudaIpcCloseMemHandle(small_at)],
            [0, 0]
        );
        assert_eq!(
            [cudaIpcCloseMemHandle(small_at), cudaIpcCloseMemHandle(large_at)],
            [1, 0]
        );
        assert_eq!(cudaMemcpy(large_at, std::ptr::from_ref(&0u64).cast(), 8, 1), 700);
    }
    println!("closed");
}

#[test]
fn processes_share_memory_by_handles() {
    const NAME: &str = "processes_share_memory_by_handles";
    if is_child(NAME) {
        if std::env::var("SOFTGPU_TEST_ROLE").is_ok() {
            child();
        } else {
            owner();
        }
        std::process::exit(0);
    }
    let state = StateFile::new();
    let mut owner = common::command(NAME, DEVICES, &state);
    let output = owner.env("SOFTGPU_TEST_STATE", state.path()).output().unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

fn owner() {
    let (other, small, large) = (malloc(300), malloc(300), malloc(3 * MIB));
    write(other, 1);
    write(small, 11);
    write(large, 22);
    let handles = [handle(small), handle(large)];
    assert_eq!(handles[0], handle(small));
    assert_eq!([read(other), read(small), read(large)], [1, 11, 22]);
    assert_eq!(open(handles[0]).0, 201);
    let mut broken = MaybeUninit::<MemoryHandle>::uninit();
    // SAFETY: an out pointer of our own.
    let code = unsafe { cudaIpcGetMemHandle(broken.as_mut_ptr(), std::ptr::null_mut()) };
    assert_eq!(code, 1);
    let mut command = std::process::Command::new(std::env::current_exe().unwrap());
    let mut child = command
        .args(std::env::args().skip(1))
        .env("SOFTGPU_TEST_ROLE", "opener")
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    for handle in &handles {
        writeln!(input, "{}", spelled(handle)).unwrap();
    }
    static GO: AtomicBool = AtomicBool::new(false);
    let (event, shared) = event();
    // SAFETY: the flag is there for ever.
    unsafe {
        let flag = std::ptr::from_ref(&GO).cast_mut().cast();
        assert_eq!(cudaLaunchHostFunc(0, Some(hold), flag), 0);
        assert_eq!(cudaEventRecord(event, 0), 0);
        assert_eq!(open_event(shared), 201);
    }
    writeln!(input, "{}", spelled(&shared)).unwrap();
    assert!(lines.by_ref().any(|line| line.unwrap() == "waits"));
    GO.store(true, SeqCst);
    assert!(lines.by_ref().any(|line| line.unwrap() == "done"));
    let last = large.wrapping_byte_add(3 * MIB - 8);
    assert_eq!([read(small), read(last), read(other)], [33, 44, 1]);
    write(small, 55);
    writeln!(input, "changed").unwrap();
    assert!(lines.any(|line| line.unwrap() == "closed"));
    assert!(child.wait().unwrap().success());
    let before = free_bytes();
    // SAFETY: addresses of ours.
    unsafe { assert_eq!([cudaFree(large), cudaFree(small), cudaFree(other)], [0; 3]) };
    assert_eq!(free_bytes(), before + 6);
    // What is allocated anew there is this process's alone, and a handle to what is gone is none.
    let again = malloc(3 * MIB);
    write(again, 66);
    assert_eq!(read(again), 66);
}
