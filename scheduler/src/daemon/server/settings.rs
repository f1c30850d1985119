//! What is read again at SIGHUP: quotas, and of the settings those that may change while mgbd runs.

use rustix::net::RecvFlags;

use crate::daemon::config::ChangedSettings;
use crate::daemon::server::Server;

impl Server {
    /// Does what SIGHUP asks for.
    pub(crate) fn reload(&mut self) {
        // Left in the socket they would fill it, and later signals would say nothing.
        if let Some(told) = &self.config.reload {
            let mut bytes = [0; 64];
            while rustix::net::recv(told, &mut bytes, RecvFlags::DONTWAIT).is_ok_and(|(count, _)| count > 0) {
            }
        }
        self.accounts.read_file();
        if let Some(reread) = &self.config.reread
            && !self.accounts.lookups().settings(reread.clone())
        {
            tracing::error!("the settings stay as they were: the thread that reads them does not answer");
        }
    }

    /// The settings were read again. Those with a mistake change nothing.
    pub(crate) fn has_settings(&mut self, read: Result<ChangedSettings, String>) {
        let changed = match read {
            Ok(changed) => changed,
            Err(error) => {
                tracing::info!(order = "reload", outcome = %error, "audit");
                tracing::error!(%error, "the settings stay as they were");
                return;
            }
        };
        tracing::info!(order = "reload", outcome = "done", "audit");
        tracing::info!(now = ?changed.live, "read the settings again");
        for name in &changed.others {
            tracing::warn!(
                "{name} has changed: it takes effect at mgbd's next start, which programs do not notice \
                 (systemctl restart mgbd)"
            );
        }
        let live = changed.live;
        self.broker.change_rules(|rules| {
            rules.patience = live.patience;
            rules.moves = live.moves;
            rules.swap_memory = live.swap_memory;
            rules.drains_failing = live.drains_failing;
        });
        self.config.overhead_limit = live.overhead_limit;
        self.config.latency_reserve = live.latency_reserve;
        self.view.changed();
    }
}
