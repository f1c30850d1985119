//! A kernel as the translation describes it to the software GPU.
use super::entry::Parameter;

/// A kernel with its host code.
pub struct Kernel {
    /// The device's symbol.
    pub name: String,
    /// The symbol of its entry function.
    pub entry: String,
    /// What a launch passes.
    pub parameters: Vec<Parameter>,
    /// Why it cannot run: names the instruction or function.
    pub error: Option<String>,
    /// Whether threads of a block may wait for each other in it.
    pub waits: bool,
    /// Bytes of static shared memory per block.
    pub static_shared: u64,
    /// Registers per thread, estimated.
    pub registers: u32,
    /// Bytes of stack per thread; 0 when not known.
    pub stack_bytes: u64,
    /// The launch bound; 0 when there is none.
    pub max_threads: u32,
    /// Bytes of a thread's frame, if its entry is a coroutine.
    pub frame_bytes: Option<u64>,
}
