//! Counts what programs take, for people: see [`crate::daemon::usage`].

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use crate::client::ClientId;
use crate::daemon::server::Server;
use crate::daemon::usage::Holder;

impl Server {
    /// Counts for all who have tasks the time since this was done last, if it is time.
    pub(crate) fn count_usage(&mut self, now: Duration) {
        if !self.usage.is_due(now) {
            return;
        }
        let mut holders: BTreeMap<(ClientId, usize), Holder> = BTreeMap::new();
        for (key, task) in self.broker.ledger().tasks() {
            let place = (key.client, task.gpu);
            let holder = holders.entry(place).or_insert_with(|| Holder {
                client: key.client,
                gpu: task.gpu,
                uid: self.broker.user_of(key.client),
                label: task.label,
                granted: task.granted,
                bytes: 0,
                evicted: 0,
                gpu_ns: self.monitor.gpu_time(key.client, task.gpu).part_ns,
            });
            holder.granted = holder.granted.min(task.granted);
            holder.bytes = holder.bytes.saturating_add(task.reserved);
            holder.evicted = holder.evicted.saturating_add(task.evicted);
        }
        let holders: Vec<Holder> = holders.into_values().collect();
        let is_here = |client| self.clients.get(&client).is_some();
        self.usage.sample(&holders, is_here, now, SystemTime::now());
    }
}
