//! Processes that have more of a GPU than they were granted, by the driver's word.
//!
//! Others are granted only what the driver shows free, and the process's user is charged for it, so nobody is
//! harmed but who could have had that room. Whether that is a library or a lie, mgbd cannot tell: the
//! administrator says how much is too much, and whether such a process is to end.

use std::collections::BTreeMap;
use std::time::Duration;

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::client::Client;
use super::family::belongs_to;
use super::overhead::Overhead;
use super::server::Server;
use crate::peer::is_of;

/// How long a process may take to end by itself.
const TO_END: Duration = Duration::from_secs(5);

impl Server {
    /// Deals with those who have too much on a GPU.
    pub(super) fn check_overheads(&mut self, gpu: usize, seen: &[Overhead], now: Duration) {
        let Some(limit) = self.config.overhead_limit else {
            return;
        };
        self.beyond.retain(|id, _| self.clients.contains_key(id));
        for (id, bytes) in seen.iter().filter(|(_, bytes)| *bytes > limit.bytes) {
            let Some(client) = self.clients.get(id) else {
                continue;
            };
            let (pid, uid) = (client.pid, client.uid);
            // Under MPS the driver takes down what a killed process has at work, and its neighbours with it,
            // unless its files are kept: see `keep`.
            let is_safe = self.hello.mps_pipe.is_none() || !client.kept.is_empty();
            let ends = limit.ends && is_safe;
            let (signal, verdict) = match self.beyond.get(id) {
                None if ends => (Some(Signal::TERM), "it is told to end"),
                None if limit.ends => (
                    None,
                    "it goes on: its end at work would fail its neighbours under MPS",
                ),
                None => (None, "it goes on"),
                Some(since) if ends && now.saturating_sub(*since) >= TO_END => {
                    (Some(Signal::KILL), "it is killed")
                }
                Some(_) => continue,
            };
            self.offenders += u64::from(!self.beyond.contains_key(id));
            self.beyond.insert(*id, now);
            self.changed = true;
            tracing::warn!(
                client = id,
                pid,
                uid,
                gpu,
                bytes,
                limit = limit.bytes,
                "a process has more GPU memory than it was granted and --overhead-limit allows: {verdict}"
            );
            if let Some(signal) = signal {
                self.signal(client, gpu, signal);
            }
        }
    }

    /// Signals a client's process, and before it those of its children that use the GPU, also where they have
    /// left it: it may be a shell.
    fn signal(&self, client: &Client, gpu: usize, signal: Signal) {
        let (own, marks) = (BTreeMap::from([(client.pid, ())]), self.lookups.marks());
        for resident in self.node.residents(gpu).unwrap_or_default() {
            let is_child = || {
                resident.pid != client.pid
                    && (belongs_to(resident.pid, &own).is_some()
                        || marks.belongs_to(resident.pid, [client]).is_some())
            };
            let pid = Pid::from_raw(resident.pid as i32).filter(|_| is_child());
            // Looked at again once it is held: the number may have become another process's.
            if let Some(Ok(child)) = pid.map(|pid| pidfd_open(pid, PidfdFlags::empty()))
                && is_child()
                && is_of(resident.pid, client.uid) == Some(true)
            {
                let _ = pidfd_send_signal(&child, signal);
            }
        }
        // The process of this client, whatever has its number now; as its user could.
        if is_of(client.pid, client.uid) == Some(true) {
            let _ = pidfd_send_signal(&client.pidfd, signal);
        }
    }
}
