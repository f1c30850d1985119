//! The order in which the blocks of a grid, and the threads of a block, begin: no program may depend on it,
//! and one that forgets a barrier does. Under `SOFTGPU_ORDER` such a program shows itself by other results.
//!
//! | `SOFTGPU_ORDER` | meaning |
//! |---|---|
//! | unset | from the first to the last |
//! | `reverse` | from the last to the first |
//! | a whole number | shuffled by it |

use std::sync::OnceLock;

use crate::error::{Error, Result, say_once};

/// The order in which blocks run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockOrder {
    /// From the first to the last.
    Forward,
    /// From the last to the first.
    Reverse,
    /// By a seed.
    Shuffled(u64),
}

impl BlockOrder {
    fn parse(text: &str) -> Option<BlockOrder> {
        match text {
            "" => Some(BlockOrder::Forward),
            "reverse" => Some(BlockOrder::Reverse),
            seed => seed.parse().ok().map(BlockOrder::Shuffled),
        }
    }

    /// What the environment says.
    fn of_environment() -> &'static std::result::Result<BlockOrder, String> {
        static ORDER: OnceLock<std::result::Result<BlockOrder, String>> = OnceLock::new();
        ORDER.get_or_init(|| {
            let text = std::env::var("SOFTGPU_ORDER").unwrap_or_default();
            BlockOrder::parse(&text).ok_or_else(|| {
                format!("SOFTGPU_ORDER={text}: it must be \"reverse\", or a whole number to shuffle by")
            })
        })
    }

    /// The order of this process.
    pub fn get() -> BlockOrder {
        BlockOrder::of_environment()
            .as_ref()
            .copied()
            .unwrap_or(BlockOrder::Forward)
    }
}

/// Reads the environment.
///
/// # Errors
/// `INITIALIZATION`, after a line on stderr, if it cannot be read.
pub fn prepare() -> Result {
    BlockOrder::of_environment().as_ref().map(drop).map_err(|error| {
        say_once(error);
        Error::INITIALIZATION
    })
}

/// So many things in an order: each comes once.
#[derive(Clone, Copy, Debug)]
pub struct Sequence {
    count: u64,
    step: u64,
    first: u64,
}

impl Sequence {
    /// So many things in this order; there is at least one.
    pub fn new(order: BlockOrder, count: u64) -> Sequence {
        let (step, first) = match order {
            BlockOrder::Forward => (1, 0),
            BlockOrder::Reverse => (count - 1, count - 1),
            BlockOrder::Shuffled(seed) => {
                let random = seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                // Steps that share no factor with the count reach everything.
                let mut step = random % count;
                while gcd(step, count) != 1 {
                    step = (step + 1) % count.max(2);
                }
                (step, (random >> 32) % count)
            }
        };
        Sequence { count, step, first }
    }

    /// The thing that comes after so many others.
    pub fn at(&self, number: u64) -> u64 {
        if self.step == 1 && self.first == 0 {
            return number;
        }
        let place = u128::from(number) * u128::from(self.step) + u128::from(self.first);
        (place % u128::from(self.count)) as u64
    }
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_comes_once() {
        for order in [
            BlockOrder::Forward,
            BlockOrder::Reverse,
            BlockOrder::Shuffled(0),
            BlockOrder::Shuffled(7),
            BlockOrder::Shuffled(u64::MAX),
        ] {
            for count in [1, 2, 3, 32, 96, 97, 1024] {
                let sequence = Sequence::new(order, count);
                let mut all: Vec<u64> = (0..count).map(|number| sequence.at(number)).collect();
                all.sort_unstable();
                assert_eq!(all, (0..count).collect::<Vec<_>>(), "{order:?} of {count}");
            }
        }
        assert_eq!(Sequence::new(BlockOrder::Reverse, 5).at(0), 4);
        assert_ne!(Sequence::new(BlockOrder::Shuffled(1), 1024).at(1), 1);
    }

    #[test]
    fn words_that_are_no_order_are_refused() {
        assert_eq!(BlockOrder::parse("reverse"), Some(BlockOrder::Reverse));
        assert_eq!(BlockOrder::parse("12"), Some(BlockOrder::Shuffled(12)));
        assert_eq!(BlockOrder::parse("-1"), None);
        assert_eq!(BlockOrder::parse("random"), None);
    }
}
