//! What the loop has the holder hold: clients, until nothing of them is left.

use rustix::event::epoll;

use crate::client::ClientId;
use crate::daemon::restart::holder::Holder;
use crate::daemon::server::Server;
use crate::daemon::source::Source;

impl Server {
    /// Something was granted to the client, or it has files to be kept: that outlives even an `mgbd` which is
    /// told to stop.
    pub(crate) fn hold(&mut self, id: ClientId) {
        if let (Some(holder), Some(client)) = (&self.holder, self.clients.get_mut(&id))
            && !client.granted
        {
            client.granted = true;
            holder.granted(id);
        }
    }

    /// The client's files are these now.
    pub(crate) fn hold_files(&mut self, id: ClientId) {
        self.hold(id);
        if let (Some(holder), Some(client)) = (&self.holder, self.clients.get(&id)) {
            holder.keep(id, &client.kept);
        }
    }

    /// Of a client that is gone, or has become another program, nothing is at work any more.
    pub(crate) fn let_go(&mut self, id: ClientId) {
        if self.clients.contains_key(&id) {
            self.hold_files(id);
        } else if let Some(holder) = &self.holder {
            holder.release(id);
        }
    }

    pub(crate) fn hear_holder(&mut self) {
        // Its descriptor is closed with the line, and leaves the epoll by that.
        if let Some(mps) = self.holder.as_mut().and_then(Holder::hear) {
            let pipe = mps.pipe.map(|pipe| pipe.display().to_string());
            if pipe != self.hello.mps_pipe {
                match &mps.note {
                    None => tracing::info!("programs have an MPS again"),
                    Some(why) => tracing::warn!(why, "no MPS any more: programs that start take turns"),
                }
            }
            self.hello.mps_pipe = pipe;
            self.hello.mps_note = mps.note;
            self.changed = true;
        }
    }

    /// Starts a holder in the place of one that is gone.
    pub(crate) fn restart_holder(&mut self) {
        let Some(holder) = &mut self.holder else { return };
        holder.tell_more();
        if !holder.due().is_some_and(|wait| wait.is_zero()) {
            return;
        }
        if !holder.start_again() {
            return;
        }
        if let Some(line) = holder.line() {
            let watched = epoll::add(&self.epoll, line, Source::Holder.data(), epoll::EventFlags::IN);
            if let Err(error) = watched {
                tracing::warn!(%error, "failed to watch the holder");
            }
        }
        holder.listener(self.listener.socket());
        if let Some(book) = &self.book {
            holder.journal(book);
        }
        for client in self.clients.values().filter(|client| client.is_held) {
            holder.client(client);
            if client.granted {
                holder.granted(client.id);
            }
            holder.keep(client.id, &client.kept);
        }
    }
}
