//! Tasks that have had their memory for longer than their user may ([`crate::broker::Late`]): the log tells
//! of each, and where the administrator wants it its process ends.

use std::time::Duration;

use mgb_probe::wire::EndsFor;
use rustix::process::Signal;

use crate::broker::Late;
use crate::daemon::monitor::ending::EndingStep;
use crate::daemon::server::Server;

impl Server {
    /// Deals with late processes, if it is time.
    pub(crate) fn check_times(&mut self, now: Duration) {
        if !self.monitor.late().is_due(now) {
            return;
        }
        let times = self.broker.check_times(now);
        if !times.without_leases.is_empty() {
            self.take_leases_of(|id| times.without_leases.contains(&id));
        }
        let late = self.monitor.late().looked(times);
        for one in late {
            self.deal_with(&one, now);
        }
    }

    fn deal_with(&mut self, late: &Late, now: Duration) {
        let id = late.client;
        let Some(client) = self.clients.get(&id) else {
            return;
        };
        let (is_safe, listens) = (self.may_end(client), client.listens());
        let Some(step) = self.monitor.late().step(late, is_safe, listens, now) else {
            return;
        };
        self.view.changed();
        match step {
            EndingStep::Explain => client.explain(EndsFor::Time),
            EndingStep::Signal(signal, verdict) => {
                self.signal(client, late.gpus, signal);
                self.tell_of(late, Some(signal), verdict, now);
            }
            // An mgbd before may have said it.
            EndingStep::Tell(verdict) if late.is_new => self.tell_of(late, None, verdict, now),
            EndingStep::Tell(_) => {}
        }
    }

    fn tell_of(&mut self, late: &Late, signal: Option<Signal>, verdict: &str, now: Duration) {
        let Some(client) = self.clients.get(&late.client) else {
            return;
        };
        let (pid, uid) = (client.pid, client.uid);
        let Some(left_out) = self.monitor.late().line(uid, now) else {
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
