//! Why the driver did not do what was asked of it.

use std::fmt;

use mgb_abi::error::Code;

/// A failed call of the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The driver's function.
    pub function: &'static str,
    /// What the driver answered.
    pub code: Code,
}

impl Failure {
    /// Whether the process is on its way out and the driver is shut down: all memory is gone.
    pub fn is_shut_down(&self) -> bool {
        self.code == Code::CUDART_UNLOADING
    }

    /// Whether the GPU has no memory left.
    pub fn is_out_of_memory(&self) -> bool {
        self.code == Code::MEMORY_ALLOCATION
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} failed: {}", self.function, self.code)
    }
}

impl std::error::Error for Failure {}

/// Nothing, or the failure of the driver's function.
pub(super) fn check(function: &'static str, code: Code) -> Result<(), Failure> {
    if code.is_success() {
        Ok(())
    } else {
        Err(Failure { function, code })
    }
}
