//! Kernels that can be run in parts: how each of them can, and where twins are to be registered.
use mgb_catalogue::report::{KernelParts, KernelReport, Reason};

use super::Collected;
use super::sources::SourceFacts;
use crate::device::parts::{self, PartsKind};
use crate::host::ir::Value;
use crate::host::ir::helpers;

/// A kernel that has a twin, where the host registers it.
pub struct TwinRegistration {
    /// The call that registers the kernel.
    pub call: Value,
    /// The twin's symbol.
    pub symbol: String,
    /// Whether each of its workers takes one block.
    pub takes_one: bool,
    /// Whether, if not, the twin serves only launches whose rows of threads are whole warps.
    pub whole_rows: bool,
    /// The bytes of each parameter of the kernel.
    pub parameters: Vec<u32>,
}

/// What each source's kernels are like, with the source's name.
pub fn reports(sources: &[SourceFacts]) -> Vec<(String, KernelReport)> {
    let mut all: Vec<(String, KernelReport)> = sources
        .iter()
        .flat_map(|source| {
            source.stubs.iter().filter_map(|(&stub, symbol)| {
                let found = source.uses.parts.get(symbol)?;
                Some((helpers::source(stub), report(symbol, found)))
            })
        })
        .collect();
    all.sort_by(|(one, a), (another, b)| (one, &a.kernel).cmp(&(another, &b.kernel)));
    all
}

fn report(symbol: &str, found: &PartsKind) -> KernelReport {
    let kernel = helpers::demangle(symbol);
    let reasons = found.obstacles.iter().map(|obstacle| Reason {
        code: *obstacle,
        text: format!("the kernel {}", parts::words(*obstacle)),
        at: None,
    });
    KernelReport {
        kernel,
        parts: found.parts(),
        reasons: reasons.collect(),
    }
}

/// Where the host registers kernels that have twins.
pub fn twins(collected: &Collected, sources: &[SourceFacts]) -> Vec<TwinRegistration> {
    if sources.iter().all(|source| source.uses.parts.is_empty()) {
        return Vec::new();
    }
    let registrations = collected.calls_of("__cudaRegisterFunction").into_iter();
    let twins = registrations.filter_map(|call| {
        let stub = helpers::base_and_offset(call.operand(1)).0;
        let (symbol, source) = sources
            .iter()
            .find_map(|source| Some((source.stubs.get(&stub)?, source)))?;
        let found = source.uses.parts.get(symbol)?;
        (found.parts() != KernelParts::Whole).then(|| TwinRegistration {
            call,
            symbol: parts::twin_of(symbol),
            takes_one: found.parts() == KernelParts::Slices,
            whole_rows: found.whole_rows,
            parameters: found.parameters.clone(),
        })
    });
    twins.collect()
}
