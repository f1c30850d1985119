//! Where a function's first call leads: find the driver's function, then go on to it.
//!
//! The code here does not know the signature of the function. So every register that may hold an argument is
//! saved and restored, the stack is left as the caller made it, and the driver's function is jumped to.

use std::ffi::c_void;

use crate::names::COUNT;
use crate::{driver, nvml};

/// Entered by a jump, with the function's index in `r11d`.
///
/// # Safety
/// Not for Rust: it has the signature of whatever function the index stands for.
#[unsafe(naked)]
pub unsafe extern "C" fn enter() {
    core::arch::naked_asm!(
        ".cfi_startproc",
        "push rbp",
        ".cfi_def_cfa_offset 16",
        ".cfi_offset rbp, -16",
        "mov rbp, rsp",
        ".cfi_def_cfa_register rbp",
        // 6 words and 8 vectors; the stack is 16-byte aligned here.
        "sub rsp, 176",
        "mov [rsp], rdi",
        "mov [rsp + 8], rsi",
        "mov [rsp + 16], rdx",
        "mov [rsp + 24], rcx",
        "mov [rsp + 32], r8",
        "mov [rsp + 40], r9",
        "movaps [rsp + 48], xmm0",
        "movaps [rsp + 64], xmm1",
        "movaps [rsp + 80], xmm2",
        "movaps [rsp + 96], xmm3",
        "movaps [rsp + 112], xmm4",
        "movaps [rsp + 128], xmm5",
        "movaps [rsp + 144], xmm6",
        "movaps [rsp + 160], xmm7",
        "mov edi, r11d",
        "call {find}",
        "mov r11, rax",
        "mov rdi, [rsp]",
        "mov rsi, [rsp + 8]",
        "mov rdx, [rsp + 16]",
        "mov rcx, [rsp + 24]",
        "mov r8, [rsp + 32]",
        "mov r9, [rsp + 40]",
        "movaps xmm0, [rsp + 48]",
        "movaps xmm1, [rsp + 64]",
        "movaps xmm2, [rsp + 80]",
        "movaps xmm3, [rsp + 96]",
        "movaps xmm4, [rsp + 112]",
        "movaps xmm5, [rsp + 128]",
        "movaps xmm6, [rsp + 144]",
        "movaps xmm7, [rsp + 160]",
        "leave",
        ".cfi_def_cfa rsp, 8",
        ".cfi_restore rbp",
        "jmp r11",
        ".cfi_endproc",
        find = sym find,
    )
}

/// Fills the slot of a function. Returns where to jump.
extern "C" fn find(index: u32) -> *const c_void {
    let index = index as usize;
    if index < COUNT {
        driver::settle(index)
    } else {
        nvml::settle(index)
    }
}
