//! A line of the log for each order of a person: who gave it, what it is about, whose that is, and what came
//! of it. All such lines begin with `audit order=`.

use mgb_probe::wire::{OF_JOB, Op, Reply, Request, WHOLE_JOB};

use crate::client::ClientId;
use crate::daemon::server::Server;

impl Server {
    /// Takes down an order that was answered.
    pub(crate) fn audit(&mut self, id: ClientId, request: &Request, reply: &Reply) {
        let Some(client) = self.clients.get(&id) else {
            return;
        };
        let (pid, uid) = (client.pid, client.uid);
        let (administers, now) = (self.broker.administers(id), self.now());
        let left_out = if administers {
            Some(0)
        } else {
            self.clients.audit_line(uid, now)
        };
        let Some(left_out) = left_out else {
            return;
        };
        let (order, of, to) = (name(request.op), self.subject(request), goal(request));
        let whose = self.owner(request, uid);
        let (outcome, command) = (outcome(reply), command_of(pid));
        tracing::info!(
            order,
            uid,
            pid,
            ?command,
            of,
            to,
            whose,
            outcome,
            administers,
            left_out,
            "audit"
        );
    }

    fn subject(&self, request: &Request) -> String {
        match request.op {
            Op::Drain | Op::EndDrain => format!("GPU {}", request.task),
            _ if request.flags & OF_JOB != 0 => format!("job {:016x}", request.task),
            _ if request.flags & WHOLE_JOB != 0 => format!("job of process {}", request.task),
            _ => format!("process {}", request.task),
        }
    }

    /// The user whose programs an order is about; `None`: it is about a GPU, nobody, or jobs of any user.
    fn owner(&self, request: &Request, uid: u32) -> Option<u32> {
        if matches!(request.op, Op::Drain | Op::EndDrain) {
            return None;
        }
        if request.flags & OF_JOB != 0 && request.op != Op::Move {
            let named = request
                .bytes
                .checked_sub(1)
                .and_then(|uid| u32::try_from(uid).ok());
            return named.or(Some(uid));
        }
        let mut clients = self.clients.values().filter(|client| !client.observer);
        let its = clients.find(|client| u64::from(client.pid) == request.task);
        its.map(|client| client.uid)
    }
}

fn name(op: Op) -> &'static str {
    match op {
        Op::Suspend => "suspend",
        Op::Resume => "resume",
        Op::Drain => "drain",
        Op::EndDrain => "end-drain",
        Op::Move => "move",
        _ => "other",
    }
}

/// The GPU where a program is to go.
fn goal(request: &Request) -> Option<u64> {
    (request.op == Op::Move).then_some(request.bytes)
}

fn outcome(reply: &Reply) -> String {
    match reply {
        Reply::Done => "done".to_owned(),
        Reply::Unchanged => "it was so already".to_owned(),
        Reply::Unknown => "there is none".to_owned(),
        Reply::Bad(why) => format!("refused: {}", why.to_text()),
        other => format!("{other:?}"),
    }
}

/// The name of a process's command, as the kernel has it.
fn command_of(pid: u32) -> String {
    let name = std::fs::read_to_string(format!("/proc/{pid}/comm"));
    name.map_or_else(|_| "?".to_owned(), |name| name.trim_end().to_owned())
}
