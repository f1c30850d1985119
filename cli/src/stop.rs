//! Ctrl-C and its like, for commands that must stop what they started before they end.

use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context, Result, bail};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use tokio::signal::unix::{SignalKind, signal};

/// Completes with the first signal that asks this process to stop: for commands that run in tokio.
///
/// # Errors
/// Signals cannot be waited for.
pub fn stop_signal() -> Result<impl Future<Output = ()>> {
    let kinds = [
        SignalKind::terminate(),
        SignalKind::interrupt(),
        SignalKind::hangup(),
    ];
    let [Ok(mut terminate), Ok(mut interrupt), Ok(mut hangup)] = kinds.map(signal) else {
        bail!("failed to wait for signals");
    };
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
            _ = hangup.recv() => {}
        }
    })
}

/// Counts the signals that ask this process to stop, and wakes its event loop.
#[derive(Debug)]
pub struct StopSignals {
    wake: UnixStream,
    last: Arc<AtomicUsize>,
}

impl StopSignals {
    /// From now on SIGINT, SIGTERM and SIGHUP do not end this process, but show here.
    pub fn watch() -> Result<Self> {
        let (wake, write) = UnixStream::pair().context("failed to make a pipe for signals")?;
        wake.set_nonblocking(true)
            .context("failed to make a pipe for signals")?;
        let last = Arc::new(AtomicUsize::new(0));
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            // The number first: the woken thread must find it.
            let watched = signal_hook::flag::register_usize(signal, Arc::clone(&last), signal as usize)
                .and_then(|_| signal_hook::low_level::pipe::register(signal, write.try_clone()?));
            watched.context("failed to watch signals")?;
        }
        Ok(Self { wake, last })
    }

    /// For tests: each byte written to the other end stands for a signal.
    #[cfg(test)]
    pub fn pretended() -> (Self, UnixStream) {
        let (wake, write) = UnixStream::pair().unwrap();
        wake.set_nonblocking(true).unwrap();
        (
            Self {
                wake,
                last: Arc::default(),
            },
            write,
        )
    }

    /// The descriptor that becomes readable with every signal.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }

    /// How many signals came since the last call.
    pub fn take(&self) -> usize {
        let mut bytes = [0; 64];
        let mut wake = &self.wake;
        wake.read(&mut bytes).unwrap_or(0)
    }

    /// The exit code of a command that was asked to stop: 128 and the signal's number.
    pub fn exit_code(&self) -> Option<u8> {
        match self.last.load(Ordering::SeqCst) {
            0 => None,
            signal => Some(128 + signal as u8),
        }
    }
}
