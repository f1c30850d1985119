//! What holds the generated parts, the list of own treatments and the catalogue together.

use std::collections::HashSet;

use crate::functions::exports::EXPORTS;
use crate::functions::{COUNT, FUNCTIONS};

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
