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
    pub const INVALID_MEMCPY_DIRECTION: Code = Code(21);
    pub const DEVICES_UNAVAILABLE: Code = Code(46);
    pub const NO_DEVICE: Code = Code(100);
    pub const INVALID_DEVICE: Code = Code(101);
    pub const NOT_READY: Code = Code(600);
    pub const NOT_SUPPORTED: Code = Code(801);
    pub const UNKNOWN: Code = Code(999);

    /// Whether it is `cudaSuccess`.
    pub fn is_success(self) -> bool {
        self == Code::SUCCESS
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
