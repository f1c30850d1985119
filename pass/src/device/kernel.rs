//! A kernel as the translation describes it to the software GPU.
use super::entry::Parameter;

/// What the name of a twin begins with.
const TWIN: &str = "__mgb_twin_";

/// Whether a symbol is that of a second kernel, which the pass has added (`parts`).
pub fn is_twin(symbol: &str) -> bool {
    symbol.starts_with(TWIN)
}

/// The symbol of a kernel's twin.
pub fn twin_of(kernel: &str) -> String {
    format!("{TWIN}{kernel}")
}

/// The symbol of a host module's variable by whose address the runtime knows a twin.
pub fn twin_stub(twin: &str) -> String {
    format!("mgb.twin.stub.{twin}")
}

/// The kernel of which this one is the twin; itself, if it is none.
pub fn original_of(symbol: &str) -> &str {
    symbol.strip_prefix(TWIN).unwrap_or(symbol)
}

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
