//! `cudaError_t`, as far as lazyrt itself returns or looks for values.

/// A `cudaError_t`.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Code(pub u32);

impl Code {
    pub const SUCCESS: Code = Code(0);
    pub const INVALID_VALUE: Code = Code(1);
    pub const MEMORY_ALLOCATION: Code = Code(2);
    pub const INITIALIZATION: Code = Code(3);
    pub const INVALID_PITCH_VALUE: Code = Code(12);
    pub const INVALID_MEMCPY_DIRECTION: Code = Code(21);
    pub const DEVICES_UNAVAILABLE: Code = Code(46);
    pub const NO_DEVICE: Code = Code(100);
    pub const INVALID_DEVICE: Code = Code(101);
    pub const PEER_ACCESS_UNSUPPORTED: Code = Code(217);
    pub const INVALID_HANDLE: Code = Code(400);
    pub const ILLEGAL_STATE: Code = Code(401);
    pub const NOT_READY: Code = Code(600);
    pub const PEER_ACCESS_ALREADY_ENABLED: Code = Code(704);
    pub const PEER_ACCESS_NOT_ENABLED: Code = Code(705);
    pub const ALREADY_REGISTERED: Code = Code(712);
    pub const NOT_REGISTERED: Code = Code(713);
    pub const NOT_SUPPORTED: Code = Code(801);
    pub const MPS_SERVER_NOT_READY: Code = Code(807);
    pub const UNKNOWN: Code = Code(999);

    /// Whether it is `cudaSuccess`.
    pub fn is_success(self) -> bool {
        self == Code::SUCCESS
    }

    /// Whether the process can use the GPU no more after it (until a reset, where that is possible at all): an
    /// uncorrectable memory error, what a kernel does to end its context, or an end by MPS.
    pub fn is_sticky(self) -> bool {
        matches!(self.0, 214 | 700 | 702 | 710 | 714..=719 | 810)
    }
}

/// An error that lazyrt itself found. Native ones travel as `Ok(code)`: the runtime has recorded them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Own(pub Code);

/// What an op answers.
pub type Answer = Result<Code, Own>;

/// Fails with an error of lazyrt's own.
pub fn fail<T>(code: Code) -> Result<T, Own> {
    Err(Own(code))
}
