//! Which kernels may keep an address that they are given: put it, or a number that it can be made of, into
//! memory that outlives the launch, or hand it to what is not followed.
//!
//! Static tasks rest on this. Their objects may leave the GPU while a launch of another task runs, so no such
//! launch may find the address of one in memory. docs/design/static-tasks.md has the whole argument.
//!
//! The addresses are followed through values, local variables (clang keeps everything in those before it
//! optimises), shared memory, structures, and calls, by rules that [`solve`] applies until nothing changes.
//! [`RuleReader`] makes the rules from LLVM's IR; `nvcc::published` makes them from PTX. Whatever has no rule counts
//! as keeping the address. Comparisons, and tests of a few bits, give nothing away; what a program makes of
//! their outcome bit by bit is not followed.
use inkwell::llvm_sys::prelude::LLVMModuleRef;

mod addresses;
mod assembly;
mod calls;
pub mod given;
mod instructions;
mod known;
mod memory;
pub mod ptx;
mod read;
mod rule;
pub mod set;
mod slots;
pub mod solve;

use super::ir;
pub use given::Published;
use given::published;
use read::Reached;
use slots::RuleReader;

/// What the kernels of a module may keep.
pub fn of_module(module: LLVMModuleRef) -> Published {
    // Apart, so that what may call anything opens nothing to others.
    let (open, closed): (Vec<Reached>, Vec<Reached>) =
        Reached::all(module).into_iter().partition(|one| one.is_open);
    let mut all = Published::new();
    for kernels in [open, closed].iter().filter(|kernels| !kernels.is_empty()) {
        let names: Vec<String> = kernels.iter().map(|one| ir::name(one.kernel)).collect();
        let (given, solver) = RuleReader::read(module, kernels);
        all.extend(published(names, &given, solver));
    }
    all
}
