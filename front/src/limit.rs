//! `MGB_GPU_MEMORY`: a program that sees GPUs of so much memory, of which nobody else takes any. For programs that
//! size what they take by a GPU's total, or reckon what they have taken from free memory before and after: a
//! neighbour that comes or goes meanwhile would be in that figure.

use std::sync::OnceLock;

use mgb_core::notice;
use mgb_probe::byte_size::{self, Bytes};
use mgb_probe::need::GRANULE;

/// The variable of the environment.
pub const VARIABLE: &str = "MGB_GPU_MEMORY";

/// Bytes that the program is to have on each GPU at most, in whole granules; none where it may have all.
pub fn bytes() -> Option<u64> {
    static LIMIT: OnceLock<Option<u64>> = OnceLock::new();
    *LIMIT.get_or_init(|| {
        let text = std::env::var(VARIABLE).ok().filter(|text| !text.is_empty())?;
        match byte_size::parse(&text) {
            Ok(bytes) if bytes >= GRANULE => Some(bytes / GRANULE * GRANULE),
            _ => {
                notice::once(
                    "limit-setting",
                    format_args!(
                        "{VARIABLE} is a size such as 40GiB, 2 MiB or more, not {text}: it sets no limit"
                    ),
                );
                None
            }
        }
    })
}

/// Says that the program has been refused what is beyond its limit.
pub fn refused(limit: u64) {
    notice::once(
        "limit",
        format_args!(
            "failed to allocate device memory: with it the program has more than the {} on a GPU that {VARIABLE} \
             gives it",
            Bytes(limit)
        ),
    );
}
