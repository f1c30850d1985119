//! The CUDA API table: every function of the runtime, what it means and how MGB treats it.
//!
//! Generated from CUDA's headers and libcudart's symbol table (`data/api.json`) and from the
//! project's own judgements (`data/treatments.toml`). The pass, lazyrt, softgpu and the docs'
//! support table are driven from it.

/// How MGB treats a function of the runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Treatment {
    /// Hands out or takes back addresses; needs no GPU (`cudaMalloc`, `cudaFree`).
    Address,
    /// Runs on the GPU of the objects it names; binds them first (`cudaMemcpy`, launches).
    Bound,
    /// Recorded while unbound when small, and replayed at binding.
    Recorded,
    /// Answered by lazyrt, without a GPU.
    Answered,
    /// Needs no GPU and no context, and changes nothing: passed on as it is (`cudaGetErrorString`).
    Native,
    /// Binds, and ties the process to that GPU (streams, events, graphs, handles).
    Anchors,
    /// Refused, with the reason.
    Refused,
    /// The default: bind everything the process holds, then pass the call through.
    BindThenPass,
}

/// What an argument is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// Nothing that MGB looks at.
    Plain,
    /// A pointer into device memory, or one that may be (`cudaMemcpy`'s).
    DevicePointer,
    /// Where the call writes a new device pointer.
    DevicePointerOut,
    /// A host buffer the call reads or writes.
    HostPointer,
    /// A size in bytes. An allocation's size is the product of its sizes.
    Size,
    /// A `cudaMemcpyKind`.
    CopyKind,
    /// A stream.
    Stream,
    /// An event.
    Event,
    /// The host stub of a kernel.
    Kernel,
    /// The argument array of a launch.
    KernelArguments,
    /// A symbol: the host shadow of a device variable.
    Symbol,
    /// A device ordinal.
    Device,
}

/// What a function is, for the pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// Allocates device memory.
    Alloc,
    /// Frees device memory.
    Free,
    /// Copies to, from or within device memory.
    Copy,
    /// Sets device memory.
    Set,
    /// Launches a kernel.
    Launch,
    /// Waits for the device, a stream or an event.
    Sync,
    /// Reads or writes a device variable.
    Symbol,
    /// Part of registering modules and kernels.
    Register,
    /// Asks or sets something without touching memory objects.
    Query,
    /// Anything else.
    Other,
}

/// One argument of a function.
#[derive(Clone, Copy, Debug)]
pub struct Param {
    /// As the header names it; empty where it has no name.
    pub name: &'static str,
    /// The C type as the header spells it.
    pub ty: &'static str,
    /// What it is.
    pub role: Role,
}

/// One function of the runtime.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// The symbol.
    pub name: &'static str,
    /// The C return type; empty for functions that no header declares.
    pub ret: &'static str,
    /// Its arguments; empty for functions that no header declares.
    pub params: &'static [Param],
    /// The family, for the support table: `memory`, `stream`, `graph`, …
    pub family: &'static str,
    /// What it is.
    pub class: Class,
    /// How MGB treats it.
    pub treatment: Treatment,
    /// Whether the native call creates a context on the current device.
    pub creates_context: bool,
    /// Whether it may return before its work is done.
    pub asynchronous: bool,
    /// Declared in a header.
    pub declared: bool,
    /// Exported by libcudart.
    pub exported: bool,
    /// For `_ptsz` and `_ptds` forms, the plain function.
    pub base: Option<&'static str>,
    /// Why it is treated so, or what does not work; may be empty.
    pub note: &'static str,
}
