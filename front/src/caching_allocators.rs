//! Allocators that keep freed memory, and empty their cache where an allocation fails.
//!
//! Before such an allocator waits for others, it is refused once: it frees what it keeps, and asks again.
//! Only allocators that are known to do so are refused, and only what they ask for themselves: any other
//! code of the same program, such as a library's workspace or NCCL's buffers, would take it for an end.

use std::cell::Cell;
use std::path::Path;

use crate::callers;

/// The libraries of such allocators, by the beginnings of their names. PyTorch's allocators (its own, the one
/// with expandable segments, and that for pools of the driver's) are in one library in all its builds for
/// GPUs.
const LIBRARIES: [&str; 1] = ["libc10_cuda"];

thread_local! {
    /// Bytes of the allocation that was refused last; 0: it has been asked for again since.
    static REFUSED: Cell<u64> = const { Cell::new(0) };
}

/// Whether an allocation that would wait is to fail instead, this time.
pub fn refuses_first(bytes: u64, would_wait: impl FnOnce() -> bool) -> bool {
    if !callers::is_in(is_one) {
        return false;
    }
    if REFUSED.replace(0) == bytes || !would_wait() {
        return false;
    }
    REFUSED.set(bytes);
    true
}

/// Whether the file is such an allocator's: packagers put a word behind the name.
fn is_one(file: &Path) -> bool {
    let name = file
        .file_name()
        .and_then(|name| name.to_str())
        .unwrap_or_default();
    let rest = LIBRARIES.iter().find_map(|library| name.strip_prefix(library));
    rest.is_some_and(|rest| rest.starts_with(['.', '-']))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn allocators_are_known_by_their_files() {
        for (file, expected) in [
            ("/venv/torch/lib/libc10_cuda.so", true),
            ("libc10_cuda-4f2a.so.2", true),
            ("/venv/torch/lib/libc10.so", false),
            ("/opt/libc10_cuda.so/libnccl.so.2", false),
            ("libc10_cudax.so", false),
            ("", false),
        ] {
            assert_eq!(is_one(Path::new(file)), expected, "{file:?}");
        }
    }
}
