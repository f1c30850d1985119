//! What the loop hears of the holder, and does about one that is gone.

use rustix::event::epoll::EventFlags;

use crate::daemon::server::Server;
use crate::daemon::source::EventSource;

impl Server {
    /// The holder says something, or is gone: its descriptor is closed with the line, and leaves the epoll by that.
    pub(crate) fn hear_holder(&mut self) {
        if let Some(mps) = self.restart.hear() {
            let pipe = mps.pipe.map(|pipe| pipe.display().to_string());
            if pipe != self.hello.mps_pipe {
                match &mps.note {
                    None => tracing::info!("programs have an MPS again"),
                    Some(why) => tracing::warn!(why, "no MPS any more: programs that start take turns"),
                }
            }
            self.hello.mps_pipe = pipe;
            self.hello.mps_note = mps.note;
            self.view.changed();
        }
    }

    /// Starts a holder in the place of one that is gone.
    pub(crate) fn restart_holder(&mut self) {
        let started = self.restart.start_again(self.accept.socket(), &self.clients);
        if let Some(line) = started
            && let Err(error) = self.poll.watch(line, EventSource::Holder, EventFlags::IN)
        {
            tracing::warn!(%error, "failed to watch the holder");
        }
    }
}
