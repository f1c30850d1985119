//! The node view: made with `shared_memory`, readable by all, written by `mgbd`.

use std::collections::BTreeMap;
use std::fs::{OpenOptions, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use mgb_probe::Hello;
use mgb_probe::view::{Counts, CutView, GpuView, NodeView, QuotasView, Segment};
use rustix::fs::{FallocateFlags, XattrFlags};
use shared_memory::{Shmem, ShmemConf};

use super::client::Client;
use super::error::DaemonError;
use super::fit;
use super::memory_monitor::GpuSample;
use super::reclaim::Reclaims;
use crate::Broker;
use crate::client::ClientId;

/// The segment; removed when dropped.
pub(super) struct Board {
    shared: Shmem,
}

impl Board {
    /// One that all may read, or this user alone.
    pub(super) fn new(reader: Option<u32>) -> Result<Board, DaemonError> {
        let failed = |error: String| DaemonError::View(error);
        let shared = ShmemConf::new()
            .size(size_of::<Segment>())
            .create()
            .map_err(|error| failed(error.to_string()))?;
        let file = file_of(shared.get_os_id());
        reserve(&file).map_err(|error| failed(error.to_string()))?;
        let mode = if reader.is_some() { 0o400 } else { 0o444 };
        std::fs::set_permissions(&file, Permissions::from_mode(mode))
            .map_err(|error| failed(error.to_string()))?;
        let own = rustix::process::geteuid().as_raw();
        if let Some(reader) = reader.filter(|reader| *reader != own) {
            let set = rustix::fs::setxattr(&file, ACL, &readable_by(reader), XattrFlags::empty());
            set.map_err(|error| failed(error.to_string()))?;
        }
        Ok(Board { shared })
    }

    /// Its POSIX shared-memory name.
    pub(super) fn name(&self) -> &str {
        self.shared.get_os_id()
    }

    /// Whether its name still is.
    pub(super) fn is_there(&self) -> bool {
        file_of(self.name()).exists()
    }

    /// Shows the view as this user reads it.
    pub(super) fn write(&self, view: NodeView, reader: u32) {
        // SAFETY: the mapping is page aligned, has at least the size asked for
        // and lives as long as `self`; a Segment is made of atomics.
        let segment = unsafe { &*self.shared.as_ptr().cast::<Segment>() };
        if !segment.write(&fit::document(view, reader)) {
            tracing::error!(reader, "the node view does not fit, whatever is left out");
        }
    }
}

/// The extended attribute with a file's access list.
const ACL: &str = "system.posix_acl_access";

/// An access list (`linux/posix_acl_xattr.h`) by which the owner and one more user may read. The file is not
/// that user's: its owner could write to it, or cut it short, and then mgbd's next write to the mapping would
/// end mgbd.
fn readable_by(uid: u32) -> Vec<u8> {
    const VERSION: u32 = 2;
    const READ: u16 = 4;
    let nobody = u32::MAX;
    // Owner, user, owning group, mask, others: each tag with what it may and whom it means.
    let entries = [
        (0x01, READ, nobody),
        (0x02, READ, uid),
        (0x04, 0, nobody),
        (0x10, READ, nobody),
        (0x20, 0, nobody),
    ];
    let mut list = VERSION.to_le_bytes().to_vec();
    for (tag, may, whom) in entries {
        list.extend(u16::to_le_bytes(tag));
        list.extend(u16::to_le_bytes(may));
        list.extend(u32::to_le_bytes(whom));
    }
    list
}

/// Has all of a segment's memory there now: where `/dev/shm` is full, a write to the mapping would end mgbd.
fn reserve(file: &Path) -> std::io::Result<()> {
    let file = OpenOptions::new().write(true).open(file)?;
    Ok(rustix::fs::fallocate(
        file,
        FallocateFlags::empty(),
        0,
        size_of::<Segment>() as u64,
    )?)
}

/// The file of a segment.
fn file_of(name: &str) -> PathBuf {
    Path::new("/dev/shm").join(name.trim_start_matches('/'))
}

/// Puts the view together, but for how long `mgbd` is up and its quotas.
pub(super) fn node_view(
    hello: &Hello,
    broker: &Broker,
    gpus: &[GpuSample],
    reclaims: &Reclaims,
    clients: &BTreeMap<ClientId, Client>,
    offenders: u64,
    now: Duration,
) -> NodeView {
    let ledger = broker.ledger();
    let held = |id, gpu| clients.get(&id).map_or(0, |client| client.resident(gpu).0);
    let gpu_view = |at: usize| {
        let (charges, seen) = (ledger.charges(at), &gpus[at]);
        GpuView {
            gpu: hello.gpus[at].clone(),
            driver_free_bytes: seen.memory.map(|memory| memory.free),
            reserved_bytes: charges.reserved,
            headroom_bytes: charges.kept(),
            resident_bytes: seen.resident,
            contexts_bytes: charges.contexts,
            overhead_bytes: ledger.taken(at),
            reclaiming_bytes: charges.reclaiming,
            foreign_bytes: seen.foreign.saturating_sub(ledger.taken(at)),
            warps_charged: charges.warps,
            processes: ledger.processes(at),
            launches_in_flight: seen.launches,
            drained: broker.is_drained(at),
            lost: seen.is_lost,
            idle: broker.idle_views(at),
        }
    };
    let (tasks, queue) = (broker.task_views(held, now), broker.wait_views(now));
    let (all_tasks, all_waiting) = broker.view_totals();
    NodeView {
        version: hello.version,
        mgbd_pid: hello.mgbd_pid,
        policy: hello.policy.clone(),
        evicts_by: broker.evicts_by().map(|rule| rule.to_string()),
        mps_pipe: hello.mps_pipe.clone(),
        mps_note: hello.mps_note.clone(),
        uptime_ms: 0,
        clients: clients.values().filter(|client| !client.observer).count() as u32,
        starting: broker.starting(),
        gpus: (0..gpus.len()).map(gpu_view).collect(),
        cut: CutView {
            tasks: all_tasks.saturating_sub(tasks.len()) as u64,
            queue: all_waiting.saturating_sub(queue.len()) as u64,
            ..CutView::default()
        },
        tasks,
        queue,
        suspended: broker.suspended_views(now),
        leaving: broker.leaving_views(),
        quotas: QuotasView::default(),
        jobs: broker.job_views(now),
        reclaims: reclaims.views(),
        counts: Counts {
            offenders,
            ..broker.counts()
        },
    }
}
