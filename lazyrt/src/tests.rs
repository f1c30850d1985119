//! What holds the generated parts, the list of own treatments and the catalogue together.

use std::collections::HashSet;

use crate::functions::exports::EXPORTS;
use crate::functions::{COUNT, FUNCTIONS, index};

#[test]
fn every_exported_function_has_its_own_address() {
    // That they link at all shows that none is missing.
    let addresses: HashSet<usize> = EXPORTS.iter().map(|function| *function as usize).collect();
    assert_eq!(addresses.len(), COUNT);
}

#[test]
fn every_own_treatment_is_a_function() {
    let own: &[&str] = include!("own.rs");
    for name in own {
        assert!(FUNCTIONS.iter().any(|function| function.name == *name), "{name}");
    }
    assert!(own.is_sorted());
}

/// Stands in for a function of the runtime that has a trampoline. Trampolines do not depend on
/// signatures, so it may have one that uses every way in which arguments are passed.
#[unsafe(no_mangle)]
#[allow(non_snake_case, clippy::too_many_arguments)]
extern "C" fn cudaGraphAddDependencies(
    i: u64,
    j: u64,
    k: u64,
    l: u64,
    m: u64,
    n: u64,
    a: f64,
    b: f64,
    c: f64,
    d: f64,
    e: f64,
    f: f64,
    g: f64,
    h: f64,
    on_stack: u64,
    also_on_stack: f64,
) -> f64 {
    let words: u64 = (1..).zip([i, j, k, l, m, n]).map(|(at, word)| at * word).sum();
    let vectors = a + 2.0 * b + 3.0 * c + 4.0 * d + 5.0 * e + 6.0 * f + 7.0 * g + 8.0 * h;
    words as f64 + vectors + 1000.0 * on_stack as f64 + 10000.0 * also_on_stack
}

#[test]
fn a_trampoline_hands_every_argument_on() {
    type Wide =
        extern "C" fn(u64, u64, u64, u64, u64, u64, f64, f64, f64, f64, f64, f64, f64, f64, u64, f64) -> f64;
    // SAFETY: no other test of this binary reads the environment.
    unsafe { std::env::set_var("MGB", "off") };
    let trampoline = EXPORTS[index::cudaGraphAddDependencies];
    // SAFETY: it jumps to the stand-in, which has this type.
    let call = unsafe { std::mem::transmute::<unsafe extern "C" fn(), Wide>(trampoline) };
    let got = call(1, 2, 3, 4, 5, 6, 1.5, 2.5, 3.5, 4.5, 5.5, 6.5, 7.5, 8.5, 9, 10.25);
    let words: u64 = (1..=6).map(|at| at * at).sum();
    let vectors: f64 = (1..=8).map(|at| f64::from(at) * (f64::from(at) + 0.5)).sum();
    assert_eq!(got, words as f64 + vectors + 9000.0 + 102_500.0);
}

#[test]
fn a_function_that_the_runtime_lacks_says_so() {
    // SAFETY: no other test of this binary reads the environment.
    unsafe { std::env::set_var("MGB", "off") };
    let trampoline = EXPORTS[index::cudaGraphAddNode];
    // SAFETY: where there is no such function, one without arguments answers.
    let call = unsafe { std::mem::transmute::<unsafe extern "C" fn(), extern "C" fn() -> u32>(trampoline) };
    assert_eq!(call(), crate::code::Code::NOT_SUPPORTED.0);
}
