//! A limit on what asking takes: a file system or a driver that hangs must not hang the doctor.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

/// After so long the user is told what takes long.
const QUIET: Duration = Duration::from_secs(2);

/// What `ask` gives, or `None` if it takes longer than `limit`; its thread is left behind then. After two
/// seconds standard error says that `what` is being looked at.
pub fn within<T: Send + 'static>(
    limit: Duration,
    what: &str,
    ask: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let (send, receive) = mpsc::channel();
    let spawned = thread::Builder::new().spawn(move || {
        // Nobody listens any more where it took too long.
        let _ = send.send(ask());
    });
    spawned.ok()?;
    match receive.recv_timeout(QUIET.min(limit)) {
        Ok(answer) => return Some(answer),
        // It panicked, and has said so.
        Err(RecvTimeoutError::Disconnected) => return None,
        Err(RecvTimeoutError::Timeout) => {}
    }
    let left = limit.saturating_sub(QUIET);
    if left.is_zero() {
        return None;
    }
    mgb_command::tell!("mgb doctor: looking at {what}, for {} s at most", limit.as_secs());
    receive.recv_timeout(left).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_hangs_is_left_behind() {
        assert_eq!(within(Duration::from_secs(60), "a test", || 7), Some(7));
        let (hold, held) = mpsc::channel::<()>();
        let hangs = move || held.recv().is_ok();
        assert_eq!(within(Duration::from_millis(10), "a test", hangs), None);
        drop(hold);
    }
}
