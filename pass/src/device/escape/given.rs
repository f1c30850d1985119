//! The addresses that kernels are given, and what is told of those that they may keep.
use std::collections::{BTreeMap, BTreeSet};

use super::solve::Solver;

/// By each kernel's symbol how it may keep addresses, in words that follow its name; empty where it keeps none.
pub type Published = BTreeMap<String, BTreeSet<String>>;

/// An address that a kernel is given.
pub struct GivenAddress {
    /// The kernel's symbol.
    pub kernel: String,
    /// The parameter that has it, from 1, and its name if it has one.
    pub parameter: (usize, String),
}

impl GivenAddress {
    /// That the kernel may keep it, in words that follow its name.
    fn words(&self, how: &str) -> String {
        let (number, name) = &self.parameter;
        let name = match name.is_empty() {
            true => String::new(),
            false => format!(" ({name})"),
        };
        format!("may keep the address in its parameter {number}{name}: it {how}")
    }
}

/// What these kernels may keep of the addresses that they are given, by the numbers that tokens have.
pub fn published(
    kernels: impl IntoIterator<Item = String>,
    given: &[GivenAddress],
    solver: Solver,
) -> Published {
    let mut all: Published = kernels
        .into_iter()
        .map(|kernel| (kernel, BTreeSet::new()))
        .collect();
    for (number, how) in solver.solve() {
        let one = &given[number as usize];
        all.entry(one.kernel.clone()).or_default().insert(one.words(&how));
    }
    all
}
