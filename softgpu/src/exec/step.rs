//! How far a piece of a grid has come.

/// Whether a piece of a grid is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GridStep {
    /// All of its threads have ended.
    Over,
    /// Those that are left wait for what others do.
    Waits,
}
