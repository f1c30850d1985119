//! Words that programs print under MGB, by which `mgb batch` knows why a job failed: one place for who prints
//! them and who looks for them.

/// How the line begins that a program prints as it ends, when its GPU has failed under it.
pub const GPU_FAILED: &str = "mgb: the GPU failed under this program";

/// Stands in front of the bytes there are, in a line about what no GPU can hold.
pub const LARGEST_GPU: &str = "the largest GPU has";

/// What a program says of a task for which it waited, or asked, when `mgbd` had ended.
pub const MGBD_ENDED: &str = "mgbd ended before it gave the task room";
