//! The addresses that the arena hands out: whether a program's memory is to have any, and where they are.

use std::sync::OnceLock;

use mgb_core::arena::Arena;
use mgb_core::memory;
use mgb_core::notice;

use crate::calls::driver;

/// The variable that does without an arena.
const ARENA: &str = "MGB_ARENA";

/// Where the arena is asked for, and how large: below where programs and libraries lie; 0: anywhere.
const ADDRESS_RANGES: [(u64, u64); 5] = [
    (1 << 44, 32 << 40),
    (0, 32 << 40),
    (0, 16 << 40),
    (0, 4 << 40),
    (0, 1 << 40),
];

/// Whether memory may be swapped at all.
pub fn may_swap() -> bool {
    static MAY: OnceLock<bool> = OnceLock::new();
    *MAY.get_or_init(is_wanted)
}

/// Whether the program's memory is to be in an arena. `MGB_ARENA=off` has it be the driver's own, which other
/// devices, and libraries that look at the driver closely, know what to do with.
fn is_wanted() -> bool {
    match std::env::var(ARENA) {
        Ok(value) if value == "off" => false,
        Ok(value) if !value.is_empty() && value != "on" => {
            notice::once(
                "arena-setting",
                format_args!("{ARENA} is on or off, not {value}: it is taken for on"),
            );
            true
        }
        _ => true,
    }
}

/// Reserves addresses for the arena. `None`: the process may have none.
pub fn reserve() -> Option<Arena> {
    for (wanted, bytes) in ADDRESS_RANGES {
        if let Ok(base) = driver().reserve(bytes, wanted) {
            return Some(memory::arena(base, bytes, false));
        }
    }
    notice::once(
        "arena",
        format_args!(
            "failed to reserve addresses for device memory, which cannot be swapped then; is `ulimit -v` set?"
        ),
    );
    None
}
