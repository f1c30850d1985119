//! Has GPUs drained that fail, and says why.

use crate::daemon::monitor::health::HealthWatch;
use crate::daemon::server::Server;
use crate::node::health::News;

impl Server {
    /// Has the driver asked for the GPUs' health from now on.
    pub(crate) fn watch_health(&mut self) -> std::io::Result<()> {
        let source = self.node.health();
        let watch = source.map(|source| HealthWatch::new(source, self.lookups.answers()));
        self.health = watch.transpose()?;
        Ok(())
    }

    /// The driver says this of a GPU.
    pub(crate) fn hear_of_health(&mut self, gpu: usize, news: News) {
        let now = self.now();
        for why in self.broker.has_health(gpu, news, now) {
            let uuid = self.hello.gpus[gpu].uuid.as_str();
            if self.config.drains_failing {
                tracing::error!(gpu, uuid, %why, "a GPU fails: it is drained until `mgb drain {gpu} --end`");
            } else {
                tracing::error!(gpu, uuid, %why, "a GPU fails, and is used on (--no-health-drain)");
            }
            self.changed = true;
        }
    }
}
