//! The worker threads: as many as the process may use cores, up to `MOST`, shared by all launches.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::OnceLock;

use parking_lot::{Condvar, Mutex};

use super::fiber::Stacks;
use super::grid::{Counts, Failure, Grid, Outcome, Plan};
use super::output::Output;
use super::thread::Thread;
use super::{fibers, plain, threads};

/// Most workers. Each may have 1024 stacks with guard pages, two mappings each, and Linux grants a
/// process 65,530 mappings.
const MOST: usize = 24;

/// Alignment of shared memory.
const SHARED_ALIGN: usize = 128;

struct Pool {
    workers: usize,
    grids: Mutex<VecDeque<Arc<Grid>>>,
    work: Condvar,
}

static POOL: OnceLock<Pool> = OnceLock::new();

fn pool() -> &'static Pool {
    POOL.get_or_init(|| {
        let workers = std::thread::available_parallelism()
            .map_or(1, usize::from)
            .min(MOST);
        for _ in 0..workers {
            threads::spawn("softgpu-worker", work);
        }
        Pool {
            workers,
            grids: Mutex::default(),
            work: Condvar::new(),
        }
    })
}

/// Runs a launch to its end.
pub fn run(plan: Plan) -> Outcome {
    let pool = pool();
    let grid = Arc::new(Grid::new(plan, pool.workers));
    pool.grids.lock().push_back(grid.clone());
    pool.work.notify_all();
    grid.wait()
}

fn work() {
    let pool = pool();
    let mut bench = Bench::default();
    loop {
        let (grid, blocks) = {
            let mut grids = pool.grids.lock();
            loop {
                let Some(grid) = grids.front().cloned() else {
                    pool.work.wait(&mut grids);
                    continue;
                };
                match grid.take() {
                    Some(blocks) => break (grid, blocks),
                    None => grids.pop_front(),
                };
            }
        };
        bench.run(&grid, blocks);
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
