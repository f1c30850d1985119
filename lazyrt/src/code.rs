//! What an operation answers: codes of the runtime, and errors that lazyrt itself found.

pub use mgb_abi::error::Code;

/// An error that lazyrt itself found. Native ones travel as `Ok(code)`: the runtime has recorded them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Own(pub Code);

/// What an op answers.
pub type Answer = Result<Code, Own>;

/// Fails with an error of lazyrt's own.
pub fn fail<T>(code: Code) -> Result<T, Own> {
    Err(Own(code))
}
