//! Waiting for memory that mgbd has granted and that is not there: a process that mgbd does not know holds it.
//!
//! Bytes that were swapped out must come back: natively they would never have left. So their program waits for as
//! long as it takes, and says so, instead of being told that the GPU is full.

use std::time::{Duration, Instant};

use mgb_abi::error::Code;

/// Between two tries, at first and at most.
const MIN_RETRY_INTERVAL: Duration = Duration::from_millis(5);
const MAX_RETRY_INTERVAL: Duration = Duration::from_millis(250);

/// One wait for such memory.
#[derive(Debug)]
pub struct Wait {
    start: Instant,
    pause: Duration,
}

impl Wait {
    /// It begins with the first try.
    pub fn begin() -> Wait {
        Wait {
            start: Instant::now(),
            pause: MIN_RETRY_INTERVAL,
        }
    }

    /// How long it has lasted.
    pub fn elapsed(&self) -> Duration {
        self.start.elapsed()
    }

    /// Sleeps until the next try, twice as long each time up to a limit.
    pub fn sleep(&mut self) {
        std::thread::sleep(self.pause);
        self.pause = (self.pause * 2).min(MAX_RETRY_INTERVAL);
    }
}

/// What `make` answers, once that is not that the device has no memory left. `say` is called at each try that
/// fails so.
///
/// # Errors
/// Any other failure.
pub fn wait_for<T>(mut make: impl FnMut() -> Result<T, Code>, say: fn()) -> Result<T, Code> {
    let mut wait = Wait::begin();
    loop {
        match make() {
            Err(Code::MEMORY_ALLOCATION) => {
                say();
                wait.sleep();
            }
            done => return done,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_full_device_is_waited_for() {
        let mut answers = [Err(Code::MEMORY_ALLOCATION), Err(Code::MEMORY_ALLOCATION), Ok(7)].into_iter();
        let next = || answers.next().expect("it stops at the success");
        assert_eq!(wait_for(next, || {}), Ok(7));
        let broken = || Err::<(), Code>(Code::ILLEGAL_ADDRESS);
        assert_eq!(
            wait_for(broken, || panic!("nothing to wait for")),
            Err(Code::ILLEGAL_ADDRESS)
        );
    }
}
