//! Waits for what a GPU lacks for a moment: memory, or the GPU itself.
//!
//! Under MPS a kernel's fault ends every program on the GPU, and while the server starts afresh it turns
//! newcomers away: as not ready, unavailable, or with an unknown error, from `cuInit` or as they make their
//! context. Asked again by the same process a little later it serves them (measured with driver 580 on an
//! H200: after up to a second, two to six tries 20 ms apart).

use std::time::{Duration, Instant};

use mgb_abi::error::Code;

/// How long to wait for a server that reports what is wrong.
const SERVER_TIMEOUT: Duration = Duration::from_secs(60);
/// How long to wait for a server that reports nothing.
const SILENT_SERVER_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a wait lasts before a message is printed.
const MESSAGE_TIMEOUT: Duration = Duration::from_secs(2);
/// Between two tries, at first and at most.
const MIN_RETRY_INTERVAL: Duration = Duration::from_millis(5);
const MAX_RETRY_INTERVAL: Duration = Duration::from_millis(250);

/// One wait for what may be there soon.
#[derive(Debug)]
pub struct Backoff {
    start: Instant,
    pause: Duration,
}

impl Backoff {
    /// It begins with the first try.
    pub fn begin() -> Backoff {
        Backoff {
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

    /// Whether to try again after this answer of a GPU that is unavailable; sleeps first. Once it takes long,
    /// `say` is called with what people are to know.
    pub fn again(&mut self, code: Code, say: impl FnOnce(&str)) -> bool {
        let waited = self.elapsed();
        let most = most(code);
        if waited >= most {
            return false;
        }
        if waited > MESSAGE_TIMEOUT {
            let most = most.as_secs();
            say(&format!(
                "a GPU is unavailable ({code}), as GPUs are after another program's fault; trying for {most} s"
            ));
        }
        self.sleep();
        true
    }
}

/// How long it makes sense to wait after such an answer.
fn most(code: Code) -> Duration {
    match code {
        Code::DEVICES_UNAVAILABLE | Code::MPS_SERVER_NOT_READY => SERVER_TIMEOUT,
        Code::UNKNOWN => SILENT_SERVER_TIMEOUT,
        _ => Duration::ZERO,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_passes_is_waited_for() {
        for code in [
            Code::DEVICES_UNAVAILABLE,
            Code::MPS_SERVER_NOT_READY,
            Code::UNKNOWN,
        ] {
            assert!(Backoff::begin().again(code, |_| {}), "{code}");
        }
        for code in [Code::SUCCESS, Code::INVALID_VALUE, Code::INITIALIZATION] {
            assert!(!Backoff::begin().again(code, |_| {}), "{code}");
        }
        let mut tired = Backoff {
            start: Instant::now() - SILENT_SERVER_TIMEOUT,
            pause: MIN_RETRY_INTERVAL,
        };
        assert!(!tired.again(Code::UNKNOWN, |_| {}));
        assert!(tired.again(Code::MPS_SERVER_NOT_READY, |_| {}));
    }
}
