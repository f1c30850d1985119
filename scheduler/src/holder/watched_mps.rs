//! The MPS that `mgbd` wants, started again when its control daemon ends. What ran under it fails with that
//! (error 806, driver 580), and without another one every program that is started would use its GPU outside
//! MPS, in turns with the others.

use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use mgb_interface::holder::wire::FromHolder;

use super::mps::Mps;

/// How long to wait before it is started again: twice as long each time, up to [`MAX_RETRY_INTERVAL`], until
/// one has lived for [`STEADY_INTERVAL`].
const RETRY_INTERVAL: Duration = Duration::from_millis(500);
/// The longest of them.
const MAX_RETRY_INTERVAL: Duration = Duration::from_secs(60);
/// One that has lived for so long did not end because it cannot run here.
const STEADY_INTERVAL: Duration = Duration::from_secs(5);

/// The MPS of a holder.
pub(super) struct WatchedMps {
    mps: Mps,
    /// Whether it is for several users, where one is wanted.
    wanted: Option<bool>,
    /// Becomes readable when the control daemon ends.
    control: Option<OwnedFd>,
    /// When to start it again.
    due: Option<Instant>,
    retry: Duration,
    /// When it was found or started last.
    began: Instant,
}

impl WatchedMps {
    pub(super) fn new(mps: Mps) -> WatchedMps {
        WatchedMps {
            mps,
            wanted: None,
            control: None,
            due: None,
            retry: RETRY_INTERVAL,
            began: Instant::now(),
        }
    }

    /// Starts or adopts one as this `mgbd` wants it, and says what there is.
    pub(super) fn start(&mut self, wanted: Option<bool>) -> FromHolder {
        self.wanted = wanted;
        (self.control, self.due) = (None, None);
        self.retry = RETRY_INTERVAL;
        let (mut pipe, mut note) = (None, None);
        match wanted.map(|users| self.mps.start(users)) {
            None => {}
            Some(Ok(())) => {
                self.watch();
                pipe = Some(self.mps.pipe().to_owned());
            }
            Some(Err(why)) => note = Some(why),
        }
        FromHolder::Mps { pipe, note }
    }

    /// One runs, and is watched from now on.
    fn watch(&mut self) {
        self.began = Instant::now();
        self.due = None;
        self.control = self.mps.watch();
        if self.control.is_none() {
            self.has_ended();
        }
    }

    /// The control daemon, to be watched.
    pub(super) fn watched(&self) -> Option<&OwnedFd> {
        self.control.as_ref()
    }

    /// The control daemon of MPS has ended: it is started again after a pause.
    pub(super) fn has_ended(&mut self) {
        self.control = None;
        if self.began.elapsed() >= STEADY_INTERVAL {
            self.retry = RETRY_INTERVAL;
        }
        self.try_later();
    }

    fn try_later(&mut self) {
        self.due = self.wanted.map(|_| Instant::now() + self.retry);
        self.retry = (self.retry * 2).min(MAX_RETRY_INTERVAL);
    }

    /// When the control daemon is to be looked at or started next.
    pub(super) fn due(&self) -> Option<Instant> {
        self.due
    }

    /// Starts it again if it is time; what there is then, if that has changed. Where it is not needed, the
    /// next `mgbd` has it started.
    pub(super) fn look(&mut self, is_needed: bool, now: Instant) -> Option<FromHolder> {
        if !is_needed {
            self.due = None;
        }
        let users = self.wanted?;
        self.due.filter(|due| now >= *due)?;
        match self.mps.start(users) {
            Ok(()) => {
                tracing::warn!("MPS's control daemon had ended: started again");
                self.watch();
                let pipe = Some(self.mps.pipe().to_owned());
                Some(FromHolder::Mps { pipe, note: None })
            }
            Err(why) => {
                tracing::error!(why, "MPS's control daemon has ended, and cannot be started again");
                self.try_later();
                Some(FromHolder::Mps {
                    pipe: None,
                    note: Some(why),
                })
            }
        }
    }

    pub(super) fn is_running(&self) -> bool {
        self.mps.is_running()
    }

    pub(super) fn has_clients(&self) -> bool {
        self.mps.has_clients()
    }

    pub(super) fn stop(&self) -> bool {
        self.mps.stop()
    }
}
