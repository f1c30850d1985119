//! Where the trampolines lead: bind and back everything, then go on to the real function.
//!
//! A trampoline does not know the signature of its function. So every register that may hold an argument
//! is saved and restored, the stack is left as the caller made it, and the real function is jumped to, not
//! called: it finds its stack arguments and its caller's return address where it expects them.

use std::ffi::c_void;

use crate::ops::passthrough;

/// Entered by a jump from a trampoline, with the function's index in `r11d`.
///
/// # Safety
/// Not for Rust: it has the signature of whatever function the trampoline stands for.
#[unsafe(naked)]
pub unsafe extern "C" fn enter() {
    core::arch::naked_asm!(
        ".cfi_startproc",
        "push rbp",
        ".cfi_def_cfa_offset 16",
        ".cfi_offset rbp, -16",
        "mov rbp, rsp",
        ".cfi_def_cfa_register rbp",
        // 8 words and 8 vectors; the stack is 16-byte aligned here.
        "sub rsp, 192",
        "mov [rsp], rdi",
        "mov [rsp + 8], rsi",
        "mov [rsp + 16], rdx",
        "mov [rsp + 24], rcx",
        "mov [rsp + 32], r8",
        "mov [rsp + 40], r9",
        // The number of vector registers of a variadic call, and the static chain.
        "mov [rsp + 48], rax",
        "mov [rsp + 56], r10",
        "movaps [rsp + 64], xmm0",
        "movaps [rsp + 80], xmm1",
        "movaps [rsp + 96], xmm2",
        "movaps [rsp + 112], xmm3",
        "movaps [rsp + 128], xmm4",
        "movaps [rsp + 144], xmm5",
        "movaps [rsp + 160], xmm6",
        "movaps [rsp + 176], xmm7",
        "mov edi, r11d",
        "mov rsi, rsp",
        // Above the caller's rbp and the return address.
        "lea rdx, [rbp + 16]",
        "call {bind_then_pass}",
        "mov r11, rax",
        "mov rdi, [rsp]",
        "mov rsi, [rsp + 8]",
        "mov rdx, [rsp + 16]",
        "mov rcx, [rsp + 24]",
        "mov r8, [rsp + 32]",
        "mov r9, [rsp + 40]",
        "mov rax, [rsp + 48]",
        "mov r10, [rsp + 56]",
        "movaps xmm0, [rsp + 64]",
        "movaps xmm1, [rsp + 80]",
        "movaps xmm2, [rsp + 96]",
        "movaps xmm3, [rsp + 112]",
        "movaps xmm4, [rsp + 128]",
        "movaps xmm5, [rsp + 144]",
        "movaps xmm6, [rsp + 160]",
        "movaps xmm7, [rsp + 176]",
        "leave",
        ".cfi_def_cfa rsp, 8",
        ".cfi_restore rbp",
        "jmp r11",
        ".cfi_endproc",
        bind_then_pass = sym bind_then_pass,
    )
}

/// Makes the function at `index` safe to run, and returns where to jump.
extern "C" fn bind_then_pass(
    index: u32,
    registers: *mut *mut c_void,
    stack: *mut *mut c_void,
) -> *const c_void {
    let _stays = mgb_probe::cancel::hold();
    passthrough::target(index as usize, &passthrough::Arguments { registers, stack })
}
