//! Asks the driver for the GPUs' health, by a thread of its own, since waiting for events blocks, and may
//! hang.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::daemon::lookups::Answers;
use crate::node::health::{HealthSource, News};

/// The thread. It ends after this is dropped, once the driver has answered.
pub(crate) struct HealthWatch(Arc<AtomicBool>);

impl HealthWatch {
    /// Starts the thread that asks the driver.
    pub(crate) fn new(mut source: Box<dyn HealthSource>, answers: Answers) -> std::io::Result<HealthWatch> {
        let is_over = Arc::<AtomicBool>::default();
        let ends = is_over.clone();
        let thread = std::thread::Builder::new().name("health".to_owned());
        thread.spawn(move || {
            while !ends.load(Ordering::Relaxed) {
                let news = source.next();
                answers.health(news.into_iter().filter(|(_, news)| is_news(news)));
            }
        })?;
        Ok(HealthWatch(is_over))
    }
}

impl Drop for HealthWatch {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Whether the loop is to hear of it. Programs can cause as many Xids as they like.
fn is_news(news: &News) -> bool {
    match news {
        News::Event(ailment) => ailment.is_fatal(),
        News::States(_) => true,
    }
}
