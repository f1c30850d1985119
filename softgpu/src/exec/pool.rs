//! The worker threads: as many as the process may use cores, up to `MAX_WORKERS`, shared by all launches.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::OnceLock;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use super::block::RunningBlock;
use super::fiber::Stacks;
use super::grid::{Grid, GridCode, InstructionCounts, KernelFailure, LaunchOutcome, LaunchPlan};
use super::no_barrier_blocks::{self, ThreadRow};
use super::step::GridStep;
use super::threads;
use crate::per_thread::PerThread;

/// Most workers. Each may have 1024 stacks with guard pages, two mappings each, and Linux grants a
/// process 65,530 mappings.
const MAX_WORKERS: usize = 24;

/// Turns of waiting blocks in which none went on, before a worker rests a little.
const RESTLESS: usize = 64;

/// How long it rests.
const REST: Duration = Duration::from_micros(20);

struct WorkerPool {
    workers: usize,
    grids: Mutex<VecDeque<Arc<Grid>>>,
    work: Condvar,
}

static POOL: OnceLock<WorkerPool> = OnceLock::new();

fn pool() -> &'static WorkerPool {
    POOL.get_or_init(|| {
        let workers = std::thread::available_parallelism()
            .map_or(1, usize::from)
            .min(MAX_WORKERS);
        for _ in 0..workers {
            threads::spawn("softgpu-worker", work);
        }
        WorkerPool {
            workers,
            grids: Mutex::default(),
            work: Condvar::new(),
        }
    })
}

/// Of threads that run single blocks themselves.
static OWN: PerThread<Bench> = PerThread::new();

/// Runs a launch to its end.
pub fn run(plan: LaunchPlan) -> LaunchOutcome {
    let pool = pool();
    let grid = Arc::new(Grid::new(plan, pool.workers));
    // To wake a worker, and to be woken by it, takes longer than a small block.
    if let Some(block) = grid.only_block() {
        OWN.with(|bench| bench.finish(&grid, block));
        return grid.wait();
    }
    pool.grids.lock().push_back(grid.clone());
    pool.work.notify_all();
    grid.wait()
}

fn work() {
    let mut bench = Bench::default();
    loop {
        if let Some((grid, blocks)) = next(bench.waiting.is_empty()) {
            bench.begin(&grid, blocks);
        }
        bench.resume_one();
    }
}

/// The next blocks of a grid; without `wait`, none if there are none now.
fn next(wait: bool) -> Option<(Arc<Grid>, std::ops::Range<u64>)> {
    let pool = pool();
    let mut grids = pool.grids.lock();
    loop {
        grids.retain(|grid| !grid.exhausted());
        let taken = grids
            .iter()
            .filter(|grid| !grid.full())
            .find_map(|grid| Some((grid.clone(), grid.take()?)));
        if taken.is_some() || !wait {
            return taken;
        }
        pool.work.wait(&mut grids);
    }
}

/// A piece of a grid that waits for others.
enum GridPiece {
    Block(Box<RunningBlock>),
    Thread(ThreadRow),
}

/// What a worker keeps from block to block.
#[derive(Default)]
struct Bench {
    stacks: Stacks,
    /// A block's vectors, for the next block.
    idle: Option<Box<RunningBlock>>,
    waiting: VecDeque<(Arc<Grid>, GridPiece)>,
    /// Turns since one of those went on.
    fruitless: usize,
}

impl Bench {
    /// Runs blocks to their end.
    fn finish(&mut self, grid: &Arc<Grid>, blocks: std::ops::Range<u64>) {
        self.begin(grid, blocks);
        while !self.waiting.is_empty() {
            self.resume_one();
        }
    }

    /// Runs blocks; those that wait for others are set aside.
    fn begin(&mut self, grid: &Arc<Grid>, blocks: std::ops::Range<u64>) {
        self.stacks.fit(grid.plan.local_bytes);
        if let GridCode::Rows(_) = grid.plan.code {
            return self.begin_rows(grid, blocks);
        }
        // What has ended is noted together: others note theirs at the same time.
        let (mut ended, mut counts) = (0, InstructionCounts::default());
        for number in blocks {
            if grid.cancelled() {
                ended += 1;
                continue;
            }
            let mut block = self.idle.take().unwrap_or_default();
            let result = block
                .begin(&mut self.stacks, grid, number)
                .and_then(|()| block.run(grid));
            if result == Ok(GridStep::Over) {
                counts.join(block.end(&mut self.stacks, grid, false));
                ended += 1;
                self.idle = Some(block);
            } else {
                // The others must not wait to be noted: blocks of this grid may wait for them.
                grid.finish(std::mem::take(&mut ended), std::mem::take(&mut counts), None);
                self.settle(grid, block, result);
            }
        }
        if ended > 0 {
            grid.finish(ended, counts, None);
        }
    }

    /// Sets a block aside, or takes it apart.
    fn settle(
        &mut self,
        grid: &Arc<Grid>,
        mut block: Box<RunningBlock>,
        result: Result<GridStep, KernelFailure>,
    ) {
        if result == Ok(GridStep::Waits) {
            return self.park(grid, GridPiece::Block(block));
        }
        let counts = block.end(&mut self.stacks, grid, result.is_err());
        self.idle = Some(block);
        grid.finish(1, counts, result.err());
    }

    fn begin_rows(&mut self, grid: &Arc<Grid>, mut rest: std::ops::Range<u64>) {
        while !rest.is_empty() {
            let mut covers = std::mem::replace(&mut rest, 0..0);
            let begun = match grid.cancelled() {
                true => Err(None),
                false => ThreadRow::of_blocks(&mut self.stacks, grid, covers.clone()).map_err(Some),
            };
            let mut row = match begun {
                Ok(row) => row,
                Err(failure) => {
                    return grid.finish(covers.end - covers.start, InstructionCounts::default(), failure);
                }
            };
            loop {
                match row.run(&mut self.stacks, grid) {
                    Ok(no_barrier_blocks::RowOutcome::Over) => {
                        self.close(grid, row, covers, None);
                        break;
                    }
                    Err(failure) => {
                        self.close(grid, row, covers, Some(failure));
                        break;
                    }
                    Ok(no_barrier_blocks::RowOutcome::Split { ended, next, after }) => {
                        let block = after.start - 1;
                        grid.finish(block - covers.start, InstructionCounts::default(), None);
                        covers = block..after.start;
                        if !after.is_empty() {
                            rest = after;
                        }
                        match ended {
                            true => self.close(grid, row, covers.clone(), None),
                            false => self.park(grid, GridPiece::Thread(row)),
                        }
                        match next {
                            Some(next) => row = next,
                            None => break,
                        }
                    }
                }
            }
        }
    }

    /// Takes a row apart; its blocks are done once no other row has threads of them.
    fn close(
        &mut self,
        grid: &Grid,
        row: ThreadRow,
        covers: std::ops::Range<u64>,
        failure: Option<KernelFailure>,
    ) {
        let (counts, others) = row.end(&mut self.stacks, grid);
        let done = if others == 0 { covers.end - covers.start } else { 0 };
        grid.finish(done, counts, failure);
    }

    fn park(&mut self, grid: &Arc<Grid>, piece: GridPiece) {
        grid.park();
        self.waiting.push_back((grid.clone(), piece));
    }

    /// Gives the piece that has waited longest a turn.
    fn resume_one(&mut self) {
        let Some((grid, piece)) = self.waiting.pop_front() else {
            return;
        };
        grid.unpark();
        let before = self.waiting.len();
        let stopped = grid.cancelled();
        match piece {
            GridPiece::Block(mut block) => {
                let result = if stopped {
                    Ok(GridStep::Over)
                } else {
                    block.run(&grid)
                };
                self.settle(&grid, block, result);
            }
            GridPiece::Thread(mut row) => match if stopped {
                Ok(GridStep::Over)
            } else {
                row.again(&grid)
            } {
                Ok(GridStep::Waits) => self.park(&grid, GridPiece::Thread(row)),
                // Of the one block that it has a thread of.
                result => self.close(&grid, row, 0..1, result.err()),
            },
        }
        if self.waiting.len() > before {
            self.fruitless += 1;
            if self.fruitless.is_multiple_of(RESTLESS * self.waiting.len()) {
                std::thread::sleep(REST);
            }
        } else {
            self.fruitless = 0;
            pool().work.notify_all();
        }
    }
}
