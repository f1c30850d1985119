//! What a holder that does not read (stopped, or short of time) is told once it does: the loop does not wait
//! for it.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use mgb_interface::holder::packet::send;
use mgb_interface::holder::wire::ToHolder;
use parking_lot::Mutex;
use rustix::io::Errno;

use crate::daemon::deferred_close;

/// Messages that wait at most, and files beside them.
const MAX_MESSAGES: usize = 1 << 14;
const MAX_FILES: usize = 1 << 13;

/// Messages that were not sent yet, in their order.
#[derive(Default)]
pub(crate) struct Backlog(Mutex<UnsentMessages>);

#[derive(Default)]
struct UnsentMessages {
    messages: VecDeque<(ToHolder, Vec<OwnedFd>)>,
    files: usize,
    /// There were too many, and that was told.
    is_full: bool,
}

impl Backlog {
    /// Sends a message, or keeps it until there is room. [`Errno::AGAIN`], once: there are too many already.
    pub(crate) fn send(
        &self,
        line: &OwnedFd,
        message: &ToHolder,
        files: &[BorrowedFd<'_>],
    ) -> Result<(), Errno> {
        let mut waiting = self.0.lock();
        waiting.flush(line)?;
        if waiting.messages.is_empty() {
            match send(line, message, files) {
                Err(Errno::AGAIN) => {}
                done => return done,
            }
        }
        if waiting.messages.len() >= MAX_MESSAGES || waiting.files + files.len() > MAX_FILES {
            let was_full = std::mem::replace(&mut waiting.is_full, true);
            return if was_full { Ok(()) } else { Err(Errno::AGAIN) };
        }
        let copies = files.iter().map(|file| file.try_clone_to_owned());
        let copies: Vec<OwnedFd> = copies.collect::<Result<_, _>>().map_err(|_| Errno::MFILE)?;
        waiting.files += copies.len();
        waiting.messages.push_back((message.clone(), copies));
        Ok(())
    }

    /// Sends what there is room for.
    pub(crate) fn flush(&self, line: &OwnedFd) {
        // What goes wrong shows with the next message, or where the line is read.
        let _ = self.0.lock().flush(line);
    }

    /// Whether a message waits to be sent to the holder.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.lock().messages.is_empty()
    }

    /// Forgets all of it: who was to be told is gone.
    pub(crate) fn clear(&self) {
        let UnsentMessages { messages, .. } = std::mem::take(&mut *self.0.lock());
        deferred_close::close_drivers(
            u32::MAX,
            messages.into_iter().flat_map(|(_, files)| files).collect(),
        );
    }
}

impl UnsentMessages {
    fn flush(&mut self, line: &OwnedFd) -> Result<(), Errno> {
        while let Some((message, files)) = self.messages.front() {
            let borrowed: Vec<_> = files.iter().map(AsFd::as_fd).collect();
            match send(line, message, &borrowed) {
                Ok(()) => {}
                Err(Errno::AGAIN) => return Ok(()),
                Err(error) => return Err(error),
            }
            if let Some((_, files)) = self.messages.pop_front() {
                self.files -= files.len();
                // The holder has them now: this close is not the last.
                drop(files);
            }
        }
        self.is_full = false;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use mgb_interface::holder::packet::{Packet, receive};
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

    use super::*;

    #[test]
    fn who_does_not_read_hears_all_in_order_later() {
        let (kind, flags) = (SocketType::SEQPACKET, SocketFlags::CLOEXEC);
        let (line, holder) = socketpair(AddressFamily::UNIX, kind, flags, None).unwrap();
        let backlog = Backlog::default();
        let count = MAX_MESSAGES as u64 / 2;
        for id in 0..count {
            backlog.send(&line, &ToHolder::Granted { id }, &[]).unwrap();
        }
        assert!(!backlog.is_empty());
        for id in 0..count {
            let heard: Packet<ToHolder> = receive(&holder).unwrap();
            assert_eq!(heard.message, ToHolder::Granted { id });
            backlog.flush(&line);
        }
        assert!(backlog.is_empty());
        // There is an end to it, of which one hears once.
        let send = |id| backlog.send(&line, &ToHolder::Granted { id }, &[]);
        let told: Vec<Errno> = (0..3 * MAX_MESSAGES as u64)
            .filter_map(|id| send(id).err())
            .collect();
        assert_eq!(told, [Errno::AGAIN]);
    }
}
