//! A block whose threads wait for each other.

use super::block_threads::Team;
use super::coroutines::Coroutines;
use super::fiber::Stacks;
use super::fibers::Fibers;
use super::grid::{Grid, GridCode, InstructionCounts, KernelFailure};
use super::step::GridStep;
use super::thread::WaitMode;

/// A block that runs; what it has allocated serves the next one.
#[derive(Default)]
pub struct RunningBlock {
    // Fibers run threads of the team: they go before it.
    fibers: Fibers,
    coroutines: Coroutines,
    team: Team,
}

impl RunningBlock {
    /// Puts a block's threads at their start. Call [`RunningBlock::end`] whatever this returns.
    pub fn begin(&mut self, stacks: &mut Stacks, grid: &Grid, number: u64) -> Result<(), KernelFailure> {
        let team = &mut self.team;
        match grid.plan.code {
            GridCode::Rows(entry) | GridCode::Fibers(entry) => {
                team.gather(grid, number, WaitMode::OnStacks)?;
                self.fibers.begin(team, stacks, grid, entry)
            }
            GridCode::Coroutines { begin, frame } => {
                team.gather(grid, number, WaitMode::InFrames)?;
                self.coroutines.begin(team, stacks, grid, begin, frame)
            }
        }
    }

    /// Runs the threads until all have ended, or all that are left wait for what other blocks do.
    pub fn run(&mut self, grid: &Grid) -> Result<GridStep, KernelFailure> {
        match grid.plan.code {
            GridCode::Rows(_) | GridCode::Fibers(_) => self.fibers.run(&mut self.team, grid),
            GridCode::Coroutines { .. } => self.coroutines.run(&mut self.team, grid),
        }
    }

    /// Takes the block apart, whether its threads have ended or not; what they did is the grid's.
    pub fn end(&mut self, stacks: &mut Stacks, grid: &Grid, failed: bool) -> InstructionCounts {
        match grid.plan.code {
            GridCode::Rows(_) | GridCode::Fibers(_) => self.fibers.end(&mut self.team, stacks),
            GridCode::Coroutines { .. } => self.coroutines.end(failed, stacks),
        }
        self.team.part(grid)
    }
}
