//! Signals to clients' processes that an administrator wants to end.

use std::collections::{BTreeMap, BTreeSet};

use mgb_interface::peer::is_of;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::daemon::client::Client;
use crate::daemon::process::family::belongs_to;
use crate::daemon::server::Server;
use crate::gpu_set::GpuSet;

impl Server {
    /// Whether ending a client's process harms nobody else. Under MPS the driver takes down what a killed
    /// process has at work, and its neighbours with it, unless its files are kept: see `client_fds`.
    pub(crate) fn may_end(&self, client: &Client) -> bool {
        self.hello.mps_pipe.is_none() || !client.kept.is_empty()
    }

    /// Signals a client's process, and then those of its children that use one of these GPUs, also where they have left
    /// it: it may be a shell, which would go on with its next command where a child ended first.
    pub(crate) fn signal(&self, client: &Client, gpus: GpuSet, signal: Signal) {
        let (own, marks) = (
            BTreeMap::from([(client.pid, ())]),
            self.accounts.lookups().marks(),
        );
        let gpus = (0..self.hello.gpus.len()).filter(|gpu| gpus.contains(gpu));
        let residents: BTreeSet<u32> = gpus
            .flat_map(|gpu| self.node.residents(gpu).unwrap_or_default())
            .map(|resident| resident.pid)
            .collect();
        // Held before the process is signalled: once it has ended they are nobody's children.
        let mut children = Vec::new();
        for resident in residents {
            let is_child = || {
                resident != client.pid
                    && (belongs_to(resident, &own).is_some()
                        || marks.belongs_to(resident, [client]).is_some())
            };
            let pid = Pid::from_raw(resident as i32).filter(|_| is_child());
            // Looked at again once it is held: the number may have become another process's.
            if let Some(Ok(child)) = pid.map(|pid| pidfd_open(pid, PidfdFlags::empty()))
                && is_child()
                && is_of(resident, client.uid) == Some(true)
            {
                children.push(child);
            }
        }
        // The process of this client, whatever has its number now; as its user could.
        if is_of(client.pid, client.uid) == Some(true) {
            let _ = pidfd_send_signal(&client.pidfd, signal);
        }
        for child in children {
            let _ = pidfd_send_signal(&child, signal);
        }
    }
}
