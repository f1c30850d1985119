//! Tasks that have had their memory for longer than their user may ([`crate::broker::Late`]): the log tells
//! of each, and where the administrator wants it its process ends.

use std::collections::BTreeSet;
use std::time::Duration;

use mgb_probe::wire::EndsFor;
use rustix::process::Signal;

use crate::broker::{Late, Times};
use crate::client::ClientId;
use crate::daemon::monitor::ending::{Done, Step, next};
use crate::daemon::server::Server;

/// How often the tasks' times are looked at. While there are clients the loop is awake as often, to write the
/// view.
const TIME_INTERVAL: Duration = Duration::from_millis(500);

impl Server {
    /// Deals with late processes, if it is time.
    pub(crate) fn check_times(&mut self, now: Duration) {
        if now < self.late.due {
            return;
        }
        self.late.due = now + TIME_INTERVAL;
        let Times { late, without_leases } = self.broker.check_times(now);
        if !without_leases.is_empty() {
            self.take_leases_of(|id| without_leases.contains(&id));
        }
        self.late.without_leases = without_leases;
        let ids: BTreeSet<ClientId> = late.iter().map(|one| one.client).collect();
        self.late.done.retain(|id, _| ids.contains(id));
        for one in late {
            self.deal_with(&one, now);
        }
    }

    fn deal_with(&mut self, late: &Late, now: Duration) {
        let id = late.client;
        let Some(client) = self.clients.get(&id) else {
            return;
        };
        let done = self.late.done.get(&id).copied();
        let (is_safe, listens) = (self.may_end(client), client.listens());
        let Some(step) = next(done, late.ends, is_safe, listens, now) else {
            return;
        };
        self.changed = true;
        self.late.done.insert(id, Done::by(step, now));
        match step {
            Step::Explain => client.explain(EndsFor::Time),
            Step::Signal(signal, verdict) => {
                self.signal(client, late.gpus, signal);
                self.tell_of(late, Some(signal), verdict, now);
            }
            // An mgbd before may have said it.
            Step::Tell(verdict) if late.is_new => self.tell_of(late, None, verdict, now),
            Step::Tell(_) => {}
        }
    }

    fn tell_of(&mut self, late: &Late, signal: Option<Signal>, verdict: &str, now: Duration) {
        let Some(client) = self.clients.get(&late.client) else {
            return;
        };
        let (pid, uid) = (client.pid, client.uid);
        let Some(left_out) = self.late.lines.take(uid, now) else {
            return;
        };
        let (time_s, most_s) = (late.time.as_secs(), late.most.as_secs());
        tracing::warn!(
            client = late.client,
            pid,
            uid,
            task = late.task,
            label = ?late.label,
            time_s,
            most_s,
            left_out,
            "a task has had its GPU memory for longer than its user may: {verdict}"
        );
        if let Some(signal) = signal {
            let (of, outcome) = (format!("process {pid}"), format!("{signal:?}"));
            tracing::info!(
                order = "end-late",
                of,
                whose = uid,
                time_s,
                most_s,
                outcome,
                "audit"
            );
        }
    }
}
