//! Clients ask: how much of what they have posted is taken in a turn of the loop, and what is answered at once.

use std::collections::BTreeMap;
use std::time::Duration;

use mgb_probe::wire::{Op, Reply, Text};

use crate::broker::Answer;
use crate::client::ClientId;
use crate::daemon::server::Server;
use crate::daemon::source::EventSource;

/// Requests of a user's clients that are answered before those of others are looked at again.
const MAX_AT_ONCE: usize = 8;
/// How long a client is not heard that rings without a request again and again.
const VAIN_PAUSE: Duration = Duration::from_millis(1);

impl Server {
    /// Takes some of what clients have posted.
    pub(crate) fn take_requests(&mut self) {
        let mut taken: BTreeMap<u32, usize> = BTreeMap::new();
        let mut is_full = false;
        for id in self.clients.take_posting() {
            let uid = self.clients.get(&id).map_or(0, |client| client.uid);
            let of_user = taken.entry(uid).or_default();
            if *of_user >= MAX_AT_ONCE {
                // Who could not be heard in this turn is the first in the next one.
                if !std::mem::replace(&mut is_full, true) {
                    self.clients.hears_next(id);
                }
                self.clients.posted(id);
            } else {
                *of_user += self.take_requests_of(id, MAX_AT_ONCE - *of_user);
            }
        }
    }

    /// Takes so many requests of a client, at most; how many there were.
    fn take_requests_of(&mut self, id: ClientId, most: usize) -> usize {
        let Some(client) = self.clients.get_mut(&id).filter(|client| client.line.is_some()) else {
            return 0;
        };
        let requests = match client.take(most) {
            Ok(requests) => requests,
            Err(breach) => {
                self.cut_off(id, &breach);
                return 0;
            }
        };
        let (has_more, count) = (client.has_more(), requests.len());
        let rings_in_vain = count == 0 && client.rings_in_vain();
        if has_more {
            self.clients.posted(id);
        }
        if rings_in_vain {
            self.pause(EventSource::Doorbell(id), VAIN_PAUSE);
        }
        if count == 0 {
            return 0;
        }
        let now = self.now();
        let are_too_many = self.clients.took(id, count, now);
        let (mut answers, mut is_order) = (Vec::new(), false);
        for (cell, request) in requests {
            tracing::trace!(client = id, ?request, "asked");
            is_order |= request.is_control();
            let reply = if are_too_many && request.may_wait() {
                Some(Reply::Bad(Text::new("the user has too many requests that wait")))
            } else if request.op == Op::BecomeLatency {
                Some(self.becomes_latency(id))
            } else {
                self.broker.request(id, cell, request, now)
            };
            if let Some(reply) = &reply
                && request.is_control()
            {
                self.audit(id, &request, reply);
            }
            if let Some(reply) = reply {
                answers.push(Answer {
                    client: id,
                    cell,
                    reply,
                });
            }
        }
        if is_order {
            // Who ordered it looks at the view next, and shall find it there; once for all of them, as it
            // costs as much as many answers.
            self.sample();
            self.show(now);
        }
        self.deliver(answers);
        self.view.changed();
        self.poll.was_asked();
        count
    }
}
