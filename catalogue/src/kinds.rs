//! The kinds that the table is written in: of functions, of arguments, and how MGB treats a function.
//!
//! The build script includes this file too, so that an unknown word in `treatments.toml` fails the build with
//! its line.

/// An enum whose variants are also words of `treatments.toml`.
macro_rules! words {
    ($(#[$meta:meta])* pub enum $name:ident { $($(#[$doc:meta])* $variant:ident,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum $name { $($(#[$doc])* $variant,)* }

        impl $name {
            /// Every value, in the order of declaration.
            pub const ALL: &'static [$name] = &[$($name::$variant,)*];

            /// The word, as `treatments.toml` and the source spell it.
            pub const fn word(self) -> &'static str {
                match self { $($name::$variant => stringify!($variant),)* }
            }

            /// The value of a word.
            pub fn from_word(word: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|value| value.word() == word)
            }
        }
    };
}

words! {
    /// How MGB treats a function of the runtime.
    pub enum Treatment {
        /// Allocates or frees addresses; needs no GPU (`cudaMalloc`, `cudaFree`).
        Address,
        /// Runs on the GPU of the objects it names; binds them first (launches, copies to host).
        Bound,
        /// Recorded while unbound when small, and replayed at binding; bound otherwise.
        Recorded,
        /// Answered by lazyrt: without a GPU while nothing is bound, passed through where it must be.
        Answered,
        /// Needs no GPU and no context, and changes nothing: passed through (`cudaGetErrorString`).
        Native,
        /// Binds, and anchors the process to that GPU (streams, events, graphs, handles).
        Anchors,
        /// Refused, with the reason.
        Refused,
        /// All others: bind what the call may need, everything if that is not known, then pass it through.
        BindThenPass,
    }
}

words! {
    /// What an argument is.
    pub enum Role {
        /// No memory or object that MGB follows.
        Plain,
        /// A pointer into device memory, or one that may be (`cudaMemcpy`'s).
        DevicePointer,
        /// Where the call writes a new device pointer.
        DevicePointerOut,
        /// A host buffer the call reads or writes.
        HostPointer,
        /// A size in bytes, or a number of rows. An allocation's size, a copy's or a set's, is the
        /// product of its sizes.
        Size,
        /// The bytes from one row to the next; only its `Size` many are touched.
        Pitch,
        /// Where an allocation writes the pitch it has chosen.
        PitchOut,
        /// The byte or word a set writes.
        Value,
        /// The direction of a copy, a `cudaMemcpyKind`.
        CopyKind,
        /// The handle of a stream.
        Stream,
        /// The handle of an event.
        Event,
        /// The host stub of a kernel, or its `cudaKernel_t`.
        Kernel,
        /// The argument array of a launch.
        KernelArguments,
        /// The grid of a launch (`dim3`).
        Grid,
        /// The block of a launch (`dim3`).
        Block,
        /// Dynamic shared memory per block, in bytes.
        SharedBytes,
        /// The `cudaLaunchConfig_t` that holds grid, block, shared memory and stream.
        LaunchConfig,
        /// A symbol: the host shadow of a device variable.
        Symbol,
        /// An offset in bytes into a symbol.
        Offset,
        /// A device ordinal.
        Device,
    }
}

words! {
    /// What a function is, for the pass.
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
        /// Carries the configuration of a `<<<…>>>` launch to its stub.
        Configure,
        /// Waits for the device, a stream or an event.
        Sync,
        /// Reads or writes a device variable.
        Symbol,
        /// Part of registering modules and kernels.
        Register,
        /// Queries or sets something without touching memory objects.
        Query,
        /// An argument of any other kind.
        Other,
    }
}
