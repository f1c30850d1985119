//! Has GPUs drained that fail, and says why.

use crate::daemon::server::Server;
use crate::node::health::News;

impl Server {
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
            self.view.changed();
        }
    }
}
