//! How a process has joined MPS, as it publishes it: nobody else can see that.

/// What MPS was told of a process as its driver was initialised.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JoinedMps {
    /// The process uses its GPUs outside the MPS that mgbd runs.
    pub is_outside: bool,
    /// Its priority: 0 is normal, 1 is below that. `None`: what MPS gives by itself.
    pub priority: Option<u8>,
    /// The percentage of the multiprocessors that it has at most. `None`: all of them.
    pub percentage: Option<u8>,
    /// That percentage is the program's own, and not mgbd's.
    pub is_own: bool,
}

const IS_SAID: u64 = 1;
const IS_OUTSIDE: u64 = 2;
const IS_OWN: u64 = 4;
/// Where a byte with a number stands that is one more than what it says; 0: it says nothing.
const PRIORITY: u32 = 8;
const PERCENTAGE: u32 = 16;

impl JoinedMps {
    /// As it stands in a channel. 0 is said by nobody.
    pub(crate) fn word(self) -> u64 {
        let byte = |number: Option<u8>| number.map_or(0, |number| u64::from(number.saturating_add(1)));
        let outside = if self.is_outside { IS_OUTSIDE } else { 0 };
        let own = if self.is_own { IS_OWN } else { 0 };
        IS_SAID | outside | own | byte(self.priority) << PRIORITY | byte(self.percentage) << PERCENTAGE
    }

    /// What a channel's word stands for; `None`: the client has said nothing yet, or is of a build that
    /// does not.
    pub(crate) fn of_word(word: u64) -> Option<JoinedMps> {
        let byte = |at: u32| (word >> at & 0xff).checked_sub(1).map(|number| number as u8);
        (word & IS_SAID != 0).then(|| JoinedMps {
            is_outside: word & IS_OUTSIDE != 0,
            priority: byte(PRIORITY),
            percentage: byte(PERCENTAGE),
            is_own: word & IS_OWN != 0,
        })
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_comes_back() {
        assert_eq!(JoinedMps::of_word(0), None);
        for is_outside in [false, true] {
            for (priority, percentage) in [(None, None), (Some(0), Some(90)), (Some(1), Some(100))] {
                let joined = JoinedMps {
                    is_outside,
                    priority,
                    percentage,
                    is_own: percentage.is_some() && is_outside,
                };
                assert_eq!(JoinedMps::of_word(joined.word()), Some(joined));
            }
        }
        // Any bits are something.
        assert!(JoinedMps::of_word(u64::MAX).is_some_and(|joined| joined.priority == Some(254)));
    }
}
