//! Lines for people that only the driver front has.

use mgb_core::mps;
use mgb_core::notice::once;

/// MPS refused a kernel.
pub fn refused_by_mps() {
    once("mps", format_args!("{}", mps::refusal()));
}
