//! What the loop of the service and the threads that answer commands share.

use std::fs::File;
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::AtomicUsize;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use crate::attempt::AttemptFolder;
use crate::id::JobId;
use crate::jobs::Jobs;
use crate::record::JobRecord;

/// What the threads of the service share.
pub struct Shared {
    state: Mutex<QueueState>,
    /// Notified after every change.
    pub changed: Condvar,
    wake: UnixStream,
    /// How many commands are being answered.
    pub clients: AtomicUsize,
    /// The folder of the queue.
    pub folder: PathBuf,
    /// Held for as long as a thread has the store open, which may be longer than the service runs.
    _lock: File,
}

/// What is guarded.
pub struct QueueState {
    /// The jobs.
    pub jobs: Jobs,
    /// Why none is started, although there are some.
    pub trouble: Option<String>,
    /// Whether the service is to end.
    pub is_stopping: bool,
}

impl Shared {
    /// For these jobs; a byte written to `wake` wakes the loop. `lock` keeps other services out.
    pub fn new(jobs: Jobs, wake: UnixStream, folder: PathBuf, lock: File) -> Self {
        Self {
            state: Mutex::new(QueueState {
                jobs,
                trouble: None,
                is_stopping: false,
            }),
            changed: Condvar::new(),
            wake,
            clients: AtomicUsize::new(0),
            folder,
            _lock: lock,
        }
    }

    /// The state, for this thread alone.
    pub fn lock(&self) -> MutexGuard<'_, QueueState> {
        // A thread that has panicked has changed nothing half: what is on disk counts.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has the loop look at the jobs, and waiting commands as well.
    pub fn stir(&self) {
        self.changed.notify_all();
        // Full: it will look anyway.
        let _ = (&self.wake).write(&[0]);
    }

    /// The folder of all attempts of a job.
    pub fn folder_of(&self, id: JobId) -> PathBuf {
        self.folder.join("jobs").join(id.to_string())
    }

    /// The folder of a job's last attempt.
    pub fn attempt(&self, job: &JobRecord) -> AttemptFolder {
        let number = job.attempts.len().to_string();
        AttemptFolder::at(self.folder_of(job.id).join(number))
    }
}
