//! Processes that have more of a GPU than they were granted, by the driver's word.
//!
//! Others are granted only what the driver shows free, and the process's user is charged for it, so nobody is
//! harmed but who could have had that room. Whether that is a library or a lie, mgbd cannot tell: the
//! administrator says how much is too much, and whether such a process is to end.

use std::time::Duration;

use mgb_probe::wire::EndsFor;

use crate::daemon::monitor::ending::EndingStep;
use crate::daemon::monitor::overhead::Overhead;
use crate::daemon::server::Server;
use crate::gpu_set::GpuSet;

impl Server {
    /// Deals with those who have too much on a GPU.
    pub(crate) fn check_overheads(&mut self, gpu: usize, seen: &[Overhead], now: Duration) {
        let Some(limit) = self.config.overhead_limit else {
            return;
        };
        let clients = &self.clients;
        self.monitor.beyond().retain(|id| clients.contains_key(&id));
        for (id, bytes) in seen.iter().filter(|(_, bytes)| *bytes > limit.bytes) {
            let Some(client) = self.clients.get(id) else {
                continue;
            };
            let (pid, uid) = (client.pid, client.uid);
            let (is_safe, listens) = (self.may_end(client), client.listens());
            let step = self.monitor.beyond().step(*id, limit.ends, is_safe, listens, now);
            let Some((step, is_first)) = step else {
                continue;
            };
            if is_first {
                self.clients.exceeds();
            }
            self.view.changed();
            let Some(client) = self.clients.get(id) else {
                continue;
            };
            let (signal, verdict) = match step {
                EndingStep::Explain => {
                    client.explain(EndsFor::Memory);
                    continue;
                }
                EndingStep::Tell(verdict) => (None, verdict),
                EndingStep::Signal(signal, verdict) => (Some(signal), verdict),
            };
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
                self.signal(client, GpuSet::of(gpu), signal);
            }
        }
    }
}
