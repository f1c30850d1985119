//! Threads for what may wait for somebody. The jobs of each line (a user's, mostly) have a few of them, so
//! that whoever keeps a thread waiting keeps nobody else's.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

/// Jobs of a line that are under way at once.
const MAX_OF_LINE: usize = 2;
/// Threads of a pool.
const MAX_THREADS: usize = 512;
/// How long a thread without a job stays.
const IDLE_TIMEOUT: Duration = Duration::from_secs(10);
/// A job that is under way for so long waits for somebody.
const STUCK_TIMEOUT: Duration = Duration::from_secs(1);

pub(crate) type PoolJob = Box<dyn FnOnce() + Send>;
/// Starts a thread with this body.
type Starts = Box<dyn Fn(PoolJob) + Send + Sync>;

/// The threads and their jobs.
pub(crate) struct ThreadPool {
    shared: Arc<PoolShared>,
    starts: Starts,
    max_waiting: usize,
}

struct PoolShared {
    state: Mutex<PoolState>,
    wakes: Condvar,
}

#[derive(Default)]
struct PoolState {
    lines: BTreeMap<u64, JobQueue>,
    threads: usize,
    idle: usize,
    /// The first line that is looked at: each has its turn.
    next: u64,
    is_over: bool,
}

#[derive(Default)]
struct JobQueue {
    waiting: VecDeque<PoolJob>,
    /// When each job under way began.
    under_way: Vec<Instant>,
}

impl JobQueue {
    fn ready(&self) -> usize {
        let free = MAX_OF_LINE.saturating_sub(self.under_way.len());
        self.waiting.len().min(free)
    }

    fn stuck(&self) -> usize {
        let waits = |began: &&Instant| began.elapsed() >= STUCK_TIMEOUT;
        self.under_way.iter().filter(waits).count()
    }
}

impl PoolState {
    fn take(&mut self) -> Option<(u64, Instant, PoolJob)> {
        let is_ready = |(_, line): &(&u64, &JobQueue)| line.ready() > 0;
        let later = self.lines.range(self.next..).find(is_ready);
        let number = *later.or_else(|| self.lines.iter().find(is_ready))?.0;
        self.next = number.wrapping_add(1);
        let line = self.lines.get_mut(&number)?;
        let (job, began) = (line.waiting.pop_front()?, Instant::now());
        line.under_way.push(began);
        Some((number, began, job))
    }

    fn ended(&mut self, number: u64, began: Instant) {
        let Some(line) = self.lines.get_mut(&number) else {
            return;
        };
        if let Some(at) = line.under_way.iter().position(|other| *other == began) {
            line.under_way.swap_remove(at);
        }
        if line.under_way.is_empty() && line.waiting.is_empty() {
            self.lines.remove(&number);
        }
    }
}

impl ThreadPool {
    /// One whose threads are started by `starts`, and in each of whose lines so many jobs may wait.
    pub(crate) fn new(max_waiting: usize, starts: impl Fn(PoolJob) + Send + Sync + 'static) -> ThreadPool {
        let shared = PoolShared {
            state: Mutex::default(),
            wakes: Condvar::new(),
        };
        ThreadPool {
            shared: Arc::new(shared),
            starts: Box::new(starts),
            max_waiting,
        }
    }

    /// Has a job of the line done, some time. False: too many of the line wait already.
    pub(crate) fn put(&self, number: u64, job: impl FnOnce() + Send + 'static) -> bool {
        let mut state = self.shared.state.lock();
        let line = state.lines.entry(number).or_default();
        if line.waiting.len() >= self.max_waiting {
            return false;
        }
        line.waiting.push_back(Box::new(job));
        let ready: usize = state.lines.values().map(JobQueue::ready).sum();
        if ready > state.idle && state.threads < MAX_THREADS {
            let place = PoolThread::take(&mut state, &self.shared);
            drop(state);
            (self.starts)(Box::new(move || place.work()));
        } else {
            self.shared.wakes.notify_one();
        }
        true
    }

    /// Whether all that may be under way of the line waits for somebody, or all that may be under way at all.
    pub(crate) fn is_stuck(&self, number: u64) -> bool {
        let state = self.shared.state.lock();
        let stuck = state.lines.get(&number).map(JobQueue::stuck);
        let all = || state.lines.values().map(JobQueue::stuck).sum::<usize>();
        stuck.is_some_and(|stuck| stuck >= MAX_OF_LINE)
            || state.threads >= MAX_THREADS && all() >= state.threads
    }

    /// Lines of which something waits for somebody.
    pub(crate) fn stuck_lines(&self) -> Vec<u64> {
        let state = self.shared.state.lock();
        let stuck = state.lines.iter().filter(|(_, line)| line.stuck() > 0);
        stuck.map(|(number, _)| *number).collect()
    }
}

impl Drop for ThreadPool {
    fn drop(&mut self) {
        self.shared.state.lock().is_over = true;
        self.shared.wakes.notify_all();
    }
}

/// A thread's place in the pool, which is free again when it is dropped.
struct PoolThread(Arc<PoolShared>);

impl PoolThread {
    fn take(state: &mut PoolState, shared: &Arc<PoolShared>) -> PoolThread {
        state.threads += 1;
        PoolThread(shared.clone())
    }

    fn work(self) {
        while let Some((number, began, job)) = self.wait() {
            job();
            self.0.state.lock().ended(number, began);
        }
    }

    /// The next job; `None`: there is none for a while.
    fn wait(&self) -> Option<(u64, Instant, PoolJob)> {
        let mut state = self.0.state.lock();
        let until = Instant::now() + IDLE_TIMEOUT;
        loop {
            if state.is_over {
                return None;
            }
            if let Some(next) = state.take() {
                return Some(next);
            }
            state.idle += 1;
            let is_late = self.0.wakes.wait_until(&mut state, until).timed_out();
            state.idle -= 1;
            if is_late {
                return state.take();
            }
        }
    }
}

impl Drop for PoolThread {
    fn drop(&mut self) {
        self.0.state.lock().threads -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    const MAX_WAITING: usize = 100;

    fn pool() -> ThreadPool {
        ThreadPool::new(MAX_WAITING, |body| drop(std::thread::spawn(body)))
    }

    #[test]
    fn whose_jobs_wait_keeps_nobody_elses() {
        let pool = pool();
        let (says, said) = mpsc::channel();
        let mut gates = Vec::new();
        for _ in 0..20 {
            let (opens, gate) = mpsc::channel::<()>();
            gates.push(opens);
            let says = says.clone();
            pool.put(7, move || {
                let _ = gate.recv();
                says.send(7).unwrap();
            });
        }
        for uid in 100..200 {
            let says = says.clone();
            assert!(pool.put(uid, move || says.send(uid).unwrap()));
        }
        let mut others: Vec<u64> = (0..100).map(|_| said.recv().unwrap()).collect();
        others.sort_unstable();
        assert!(others.into_iter().eq(100..200));
        drop(gates);
        assert!((0..20).all(|_| said.recv().unwrap() == 7));
    }

    #[test]
    fn the_jobs_of_a_line_are_bounded_and_known_to_be_stuck() {
        let pool = pool();
        let (opens, gate) = mpsc::channel::<()>();
        let gate = Arc::new(Mutex::new(gate));
        let waits = || {
            let gate = gate.clone();
            move || {
                let _ = gate.lock().recv();
            }
        };
        let taken = (0..2 * MAX_WAITING).filter(|_| pool.put(7, waits())).count();
        assert!(
            (MAX_WAITING..=MAX_WAITING + MAX_OF_LINE).contains(&taken),
            "{taken}"
        );
        let start = Instant::now();
        while !pool.is_stuck(7) {
            assert!(start.elapsed() < Duration::from_secs(30));
            std::thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(pool.stuck_lines(), [7]);
        assert!(!pool.is_stuck(8) && pool.put(8, || ()));
        drop(opens);
    }
}
