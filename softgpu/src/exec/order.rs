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
pub enum Order {
    /// From the first to the last.
    Forward,
    /// From the last to the first.
    Reverse,
    /// By a seed.
    Shuffled(u64),
}

impl Order {
    fn parse(text: &str) -> Option<Order> {
        match text {
            "" => Some(Order::Forward),
            "reverse" => Some(Order::Reverse),
            seed => seed.parse().ok().map(Order::Shuffled),
        }
    }

    /// What the environment says.
    fn of_environment() -> &'static std::result::Result<Order, String> {
        static ORDER: OnceLock<std::result::Result<Order, String>> = OnceLock::new();
        ORDER.get_or_init(|| {
            let text = std::env::var("SOFTGPU_ORDER").unwrap_or_default();
            Order::parse(&text).ok_or_else(|| {
                format!("SOFTGPU_ORDER={text}: it must be \"reverse\", or a whole number to shuffle by")
            })
        })
    }

    /// The order of this process.
    pub fn get() -> Order {
        Order::of_environment()
            .as_ref()
            .copied()
            .unwrap_or(Order::Forward)
    }
}

/// Reads the environment.
///
/// # Errors
/// `INITIALIZATION`, after a line on stderr, if it cannot be read.
pub fn prepare() -> Result {
    Order::of_environment().as_ref().map(drop).map_err(|error| {
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
    pub fn new(order: Order, count: u64) -> Sequence {
        let (step, first) = match order {
            Order::Forward => (1, 0),
            Order::Reverse => (count - 1, count - 1),
            Order::Shuffled(seed) => {
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
            Order::Forward,
            Order::Reverse,
            Order::Shuffled(0),
            Order::Shuffled(7),
            Order::Shuffled(u64::MAX),
        ] {
            for count in [1, 2, 3, 32, 96, 97, 1024] {
                let sequence = Sequence::new(order, count);
                let mut all: Vec<u64> = (0..count).map(|number| sequence.at(number)).collect();
                all.sort_unstable();
                assert_eq!(all, (0..count).collect::<Vec<_>>(), "{order:?} of {count}");
            }
        }
        assert_eq!(Sequence::new(Order::Reverse, 5).at(0), 4);
        assert_ne!(Sequence::new(Order::Shuffled(1), 1024).at(1), 1);
    }

    #[test]
    fn words_that_are_no_order_are_refused() {
        assert_eq!(Order::parse("reverse"), Some(Order::Reverse));
        assert_eq!(Order::parse("12"), Some(Order::Shuffled(12)));
        assert_eq!(Order::parse("-1"), None);
        assert_eq!(Order::parse("random"), None);
    }
}
