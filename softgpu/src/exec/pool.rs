//! The worker threads: as many as the process may use cores, shared by all launches.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use super::fiber::Stacks;
use super::grid::{Counts, Failure, Grid, Outcome, Plan};
use super::output::Output;
use super::thread::Thread;
use super::{fibers, plain, threads};

/// Alignment of shared memory.
const SHARED_ALIGN: usize = 128;

struct Pool {
    workers: usize,
    queue: Mutex<Queue>,
    work: Condvar,
}

#[derive(Default)]
struct Queue {
    grids: VecDeque<Arc<Grid>>,
    busy: usize,
}

static POOL: OnceLock<Pool> = OnceLock::new();

fn pool() -> &'static Pool {
    POOL.get_or_init(|| {
        let workers = std::thread::available_parallelism().map_or(1, usize::from);
        for _ in 0..workers {
            threads::spawn("softgpu-worker", work);
        }
        Pool {
            workers,
            queue: Mutex::default(),
            work: Condvar::new(),
        }
    })
}

/// Runs a launch to its end.
pub fn run(plan: Plan) -> Outcome {
    let pool = pool();
    let grid = Arc::new(Grid::new(plan, pool.workers));
    pool.queue.lock().grids.push_back(grid.clone());
    pool.work.notify_all();
    grid.wait()
}

/// Waits, but not long, until no worker runs a block: at the process's exit.
pub fn drain() {
    let Some(pool) = POOL.get() else { return };
    let until = Instant::now() + Duration::from_millis(500);
    while pool.queue.lock().busy > 0 && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn work() {
    let pool = pool();
    let mut bench = Bench::default();
    loop {
        let (grid, blocks) = {
            let mut queue = pool.queue.lock();
            loop {
                let Some(grid) = queue.grids.front().cloned() else {
                    pool.work.wait(&mut queue);
                    continue;
                };
                match grid.take() {
                    Some(blocks) => {
                        queue.busy += 1;
                        break (grid, blocks);
                    }
                    None => queue.grids.pop_front(),
                };
            }
        };
        bench.run(&grid, blocks);
        pool.queue.lock().busy -= 1;
    }
}

/// What a worker keeps from block to block.
#[derive(Default)]
pub struct Bench {
    /// Stacks that are not in use.
    pub stacks: Stacks,
    /// The threads of the present block, with fibers.
    pub threads: Vec<Thread>,
    shared: Vec<u128>,
}

impl Bench {
    /// The addresses of static and dynamic shared memory for a block.
    pub fn shared(&mut self, plan: &Plan) -> (*mut u8, *mut u8) {
        let fixed = plan.static_shared.next_multiple_of(SHARED_ALIGN);
        let bytes = fixed + plan.dynamic_shared + SHARED_ALIGN;
        if self.shared.len() * 16 < bytes {
            self.shared = vec![0; bytes.div_ceil(16)];
        }
        let base = self.shared.as_mut_ptr().cast::<u8>();
        let base = base.wrapping_add(base.align_offset(SHARED_ALIGN));
        (base, base.wrapping_add(fixed))
    }

    fn run(&mut self, grid: &Grid, blocks: std::ops::Range<u64>) {
        let taken = blocks.end - blocks.start;
        let mut counts = Counts::default();
        let mut output = Output::default();
        let mut failure: Option<Failure> = None;
        if !grid.cancelled() {
            self.stacks.fit(grid.plan.local_bytes);
            let run = if grid.plan.fibers { fibers::run } else { plain::run };
            failure = run(self, grid, blocks, &mut counts, &mut output).err();
        }
        grid.finish(taken, counts, output, failure);
    }
}
