//! What outlives a process: the files by which the driver knows it.
//!
//! Clients of one MPS server share its context on a GPU. When a process is gone
//! the driver takes its memory down, and if kernels or copies of it still run
//! they fault: an error that ends every other client on that GPU (measured with
//! driver 580 on an H200: the neighbours get `cudaErrorIllegalAddress`; where
//! there is none, the next program to start cannot make its context). So clients
//! hand `mgbd` the files of the driver that they have open, and as long as it has
//! them the driver takes nothing down. Of a process that ended with work under
//! way they are closed once that work is done.
//!
//! When it is done nobody says. But a GPU with work queued is busy without a
//! pause, and the driver's samples of how busy it was tell of pauses.
//!
//! The holder (see [`crate::holder`]) has the same files, so that they outlive `mgbd` too; both let go of
//! them at once.

use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::fs::{AtFlags, FileType, StatxFlags, major, stat, statx};

use crate::client::ClientId;
use crate::daemon::deferred_close;
use crate::daemon::limits::{LOG_LINES, Limiter};
use crate::node::NodeDriver;

/// How long to keep them where the GPU never shows a pause.
const KEEP_TIMEOUT: Duration = Duration::from_secs(60);
/// How often to look.
const CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// Files of processes that are gone, and the work they are kept for.
pub(crate) struct ClientFds {
    gone: Vec<KeptFds>,
    /// When to look next.
    due: Duration,
    /// Major numbers of the driver's devices.
    devices: Vec<u32>,
    /// Lines of the log about ends at work, and about the ends of that work.
    ends: Limiter<()>,
    done: Limiter<()>,
}

struct KeptFds {
    id: ClientId,
    pid: u32,
    uid: u32,
    files: Vec<OwnedFd>,
    /// GPUs where work may be under way still.
    gpus: Vec<usize>,
    /// When the process ended.
    since: Duration,
}

impl KeptFds {
    /// Tells that its memory goes.
    fn tell(&self, now: Duration, left_out: u32) {
        let (pid, kept_ms) = (self.pid, now.saturating_sub(self.since).as_millis() as u64);
        if self.gpus.is_empty() {
            tracing::info!(pid, kept_ms, left_out, "its work is done: its memory goes");
            return;
        }
        let gpus = &self.gpus;
        tracing::warn!(
            pid,
            ?gpus,
            kept_ms,
            left_out,
            "the GPU is busy without a pause since a process ended with work under way: its memory goes; if \
             that work is what runs, every program on the GPU now fails with it"
        );
    }
}

impl ClientFds {
    /// One that takes files of the devices which `node` names.
    #[allow(clippy::disallowed_methods, reason = "the driver's devices, as mgbd starts")]
    pub(crate) fn new(node: &dyn NodeDriver) -> ClientFds {
        let paths = node.driver_files().into_iter();
        let devices = paths
            .filter_map(|path| Some(major(stat(path).ok()?.st_rdev)))
            .collect();
        ClientFds {
            gone: Vec::new(),
            due: Duration::ZERO,
            devices,
            ends: Limiter::new(LOG_LINES),
            done: Limiter::new(LOG_LINES),
        }
    }

    /// Whether these are files of the driver: those of anything else are not kept.
    #[allow(clippy::disallowed_methods, reason = "what the kernel knows by itself")]
    pub(crate) fn takes(&self, files: &[OwnedFd]) -> bool {
        // As far as the kernel knows by itself: a file of a FUSE would have its owner answer.
        let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
        files.iter().all(|file| {
            statx(file, "", flags, StatxFlags::TYPE).is_ok_and(|stat| {
                FileType::from_raw_mode(u32::from(stat.stx_mode)) == FileType::CharacterDevice
                    && self.devices.contains(&stat.stx_rdev_major)
            })
        })
    }

    /// A user's process is gone, while on these GPUs work of its may be under way.
    pub(crate) fn outlive(
        &mut self,
        id: ClientId,
        (pid, uid): (u32, u32),
        files: Vec<OwnedFd>,
        gpus: Vec<usize>,
        now: Duration,
    ) {
        if files.is_empty() || gpus.is_empty() {
            return deferred_close::close_drivers(uid, files);
        }
        if let Some(left_out) = self.ends.take((), now) {
            tracing::info!(
                pid,
                ?gpus,
                left_out,
                "a process ended with work under way: its memory stays until that is done"
            );
        }
        self.gone.push(KeptFds {
            id,
            pid,
            uid,
            files,
            gpus,
            since: now,
        });
    }

    /// How many files of processes that are gone are open.
    pub(crate) fn files(&self) -> usize {
        self.by_user().map(|(_, files)| files).sum()
    }

    /// The same of each such process, with its user.
    pub(crate) fn by_user(&self) -> impl Iterator<Item = (u32, usize)> {
        self.gone.iter().map(|kept| (kept.uid, kept.files.len()))
    }

    /// Whether memory of the process is kept.
    pub(crate) fn keeps(&self, pid: u32) -> bool {
        self.gone.iter().any(|kept| kept.pid == pid)
    }

    /// Whether files of this client are kept.
    pub(crate) fn keeps_client(&self, id: ClientId) -> bool {
        self.gone.iter().any(|kept| kept.id == id)
    }

    /// How long until the next look, if there is anything to look for.
    pub(crate) fn interval(&self, now: Duration) -> Option<Duration> {
        (!self.gone.is_empty()).then(|| self.due.saturating_sub(now))
    }

    /// Lets go of what is done with; the clients whose it was, and their processes.
    pub(crate) fn check(&mut self, node: &dyn NodeDriver, now: Duration) -> Vec<(ClientId, u32)> {
        let mut over = Vec::new();
        if self.gone.is_empty() || now < self.due {
            return Vec::new();
        }
        self.due = now + CHECK_INTERVAL;
        for at in (0..self.gone.len()).rev() {
            let kept = &mut self.gone[at];
            let ago = now.saturating_sub(kept.since);
            // A driver that does not say is waited for no longer than patience lasts.
            kept.gpus
                .retain(|&gpu| !node.paused_within(gpu, ago).unwrap_or(false));
            if kept.gpus.is_empty() || ago >= KEEP_TIMEOUT {
                over.push(self.gone.swap_remove(at));
            }
        }
        for kept in &mut over {
            if let Some(left_out) = self.done.take((), now) {
                kept.tell(now, left_out);
            }
            deferred_close::close_drivers(kept.uid, std::mem::take(&mut kept.files));
        }
        over.into_iter().map(|kept| (kept.id, kept.pid)).collect()
    }
}
