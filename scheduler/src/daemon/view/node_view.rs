//! The node view: a file in shared memory, readable by whom it is for, written by `mgbd`, which never maps it
//! ([`mgb_probe::view::Segment`]).

use std::collections::BTreeMap;
use std::fs::File;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use mgb_interface::folders::file_at;
use mgb_probe::Hello;
use mgb_probe::view::{Counts, CutView, GpuView, NodeView, QuotasView, SEGMENT_BYTES, Segment, TaskView};
use rustix::fs::{FallocateFlags, Mode, fchmod, fstat};
use rustix::io::Errno;
use rustix::shm;

use crate::Broker;
use crate::client::ClientId;
use crate::daemon::access_list;
use crate::daemon::client::Client;
use crate::daemon::error::DaemonError;
use crate::daemon::limits::{LOG_LINES, Limiter};
use crate::daemon::monitor::Monitor;
use crate::daemon::view::fit;
use crate::node::health::Ailment;

/// How often another name is tried where one is taken.
const MAX_NAMES: usize = 100;

/// What is wrong with a GPU, in words.
fn fails(ailments: &[Ailment]) -> Option<String> {
    let words: Vec<String> = ailments.iter().map(Ailment::to_string).collect();
    (!words.is_empty()).then(|| words.join("; "))
}

/// The segment; removed when dropped.
pub(crate) struct ViewFile {
    name: String,
    segment: Segment,
    /// Lines of the log about what others do to it.
    troubles: Limiter<()>,
}

impl ViewFile {
    /// One that all may read, or this user alone.
    pub(crate) fn new(reader: Option<u32>) -> Result<ViewFile, DaemonError> {
        let failed = |error: Errno| DaemonError::View(error.to_string());
        let (name, file) = make().map_err(failed)?;
        let segment = Segment::new(File::from(file));
        let board = ViewFile {
            name,
            segment,
            troubles: Limiter::new(LOG_LINES),
        };
        board.prepare(reader).map_err(failed)?;
        Ok(board)
    }

    fn prepare(&self, reader: Option<u32>) -> Result<(), Errno> {
        let file = self.segment.file();
        // Where `/dev/shm` is full that is to be known now.
        rustix::fs::fallocate(file, FallocateFlags::empty(), 0, SEGMENT_BYTES)?;
        let mode = if reader.is_some() { 0o400 } else { 0o444 };
        fchmod(file, Mode::from_raw_mode(mode))?;
        let own = rustix::process::geteuid().as_raw();
        match reader.filter(|reader| *reader != own) {
            Some(reader) => access_list::let_read(file, reader),
            None => Ok(()),
        }
    }

    /// Its POSIX shared-memory name.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Whether its name still is, and is its.
    pub(crate) fn is_there(&self) -> bool {
        let own = fstat(self.segment.file()).map(|stat| (stat.st_dev, stat.st_ino));
        file_at(&file_of(&self.name)).is_some_and(|there| own == Ok(there))
    }

    /// Shows the view as this user reads it.
    pub(crate) fn write(&mut self, view: NodeView, reader: u32, now: Duration) {
        let written = self.segment.write(&fit::document(view, reader));
        let name = &self.name;
        let Some(left_out) = (!matches!(written, Ok(false)))
            .then(|| self.troubles.take((), now))
            .flatten()
        else {
            return;
        };
        match written {
            Ok(_) => tracing::warn!(
                reader,
                name,
                left_out,
                "another process has cut the node view short, which is whole again; keep the node's /dev/shm \
                 from root of containers"
            ),
            Err(error) => tracing::error!(%error, reader, name, left_out, "the node view was not written"),
        }
    }
}

impl Drop for ViewFile {
    fn drop(&mut self) {
        if self.is_there() {
            let _ = shm::unlink(self.name.as_str());
        }
    }
}

/// Makes a file of a name that nobody knows before.
fn make() -> Result<(String, OwnedFd), Errno> {
    let flags = shm::OFlags::CREATE | shm::OFlags::EXCL | shm::OFlags::RDWR;
    for _ in 0..MAX_NAMES {
        // Random, as the keys of the standard library's maps are. Who clears away knows it by how it begins.
        let name = format!("/shmem_{:016X}", RandomState::new().build_hasher().finish());
        match shm::open(name.as_str(), flags, Mode::RUSR | Mode::WUSR) {
            Err(Errno::EXIST) => {}
            made => return Ok((name, made?)),
        }
    }
    Err(Errno::EXIST)
}

/// The file of a segment.
fn file_of(name: &str) -> PathBuf {
    Path::new("/dev/shm").join(name.trim_start_matches('/'))
}

/// Puts the view together, but for how long `mgbd` is up and its quotas.
pub(crate) fn node_view(
    hello: &Hello,
    broker: &Broker,
    monitor: &Monitor,
    clients: &BTreeMap<ClientId, Client>,
    offenders: u64,
    now: Duration,
) -> NodeView {
    let (ledger, gpus) = (broker.ledger(), monitor.gpus());
    let times = monitor.gpu_times(now);
    let seen = |id, gpu, task: TaskView| {
        let time = times.get(&(id, gpu)).copied().unwrap_or_default();
        TaskView {
            held_bytes: clients.get(&id).map_or(0, |client| client.resident(gpu).0),
            busy_ms: time.total.busy_ns / 1_000_000,
            share: time.share,
            share_due: time.due,
            ..task
        }
    };
    let gpu_view = |at: usize| {
        let (charges, seen) = (ledger.charges(at), &gpus[at]);
        let (busy, load) = monitor.gpu_work(at, now);
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
            fails: fails(broker.ailments(at)),
            lost: seen.is_lost,
            idle: broker.idle_views(at),
            evicted_bytes: ledger.evicted_of(at),
            busy_ms: busy.as_millis() as u64,
            load: Some(load),
        }
    };
    let (tasks, queue) = (broker.task_views(seen, now), broker.wait_views(now));
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
        reclaims: monitor.reclaims().views(),
        counts: Counts {
            offenders,
            ..broker.counts()
        },
    }
}
