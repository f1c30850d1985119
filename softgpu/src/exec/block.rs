//! A block whose threads wait for each other.

use super::block_threads::Team;
use super::coroutines::Coroutines;
use super::fiber::Stacks;
use super::fibers::Fibers;
use super::grid::{Code, Counts, Failure, Grid};
use super::step::Step;
use super::thread::Waiting;

/// A block that runs; what it has allocated serves the next one.
#[derive(Default)]
pub struct Block {
    // Fibers run threads of the team: they go before it.
    fibers: Fibers,
    coroutines: Coroutines,
    team: Team,
}

impl Block {
    /// Puts a block's threads at their start. Call [`Block::end`] whatever this returns.
    pub fn begin(&mut self, stacks: &mut Stacks, grid: &Grid, number: u64) -> Result<(), Failure> {
        let team = &mut self.team;
        match grid.plan.code {
            Code::Rows(entry) | Code::Fibers(entry) => {
                team.gather(grid, number, Waiting::OnStacks)?;
                self.fibers.begin(team, stacks, grid, entry)
            }
            Code::Coroutines { begin, frame } => {
                team.gather(grid, number, Waiting::InFrames)?;
                self.coroutines.begin(team, stacks, grid, begin, frame)
            }
        }
    }

    /// Runs the threads until all have ended, or all that are left wait for what other blocks do.
    pub fn run(&mut self, grid: &Grid) -> Result<Step, Failure> {
        match grid.plan.code {
            Code::Rows(_) | Code::Fibers(_) => self.fibers.run(&mut self.team, grid),
            Code::Coroutines { .. } => self.coroutines.run(&mut self.team, grid),
        }
    }

    /// Takes the block apart, whether its threads have ended or not; what they did is the grid's.
    pub fn end(&mut self, stacks: &mut Stacks, grid: &Grid, failed: bool) -> Counts {
        match grid.plan.code {
            Code::Rows(_) | Code::Fibers(_) => self.fibers.end(&mut self.team, stacks),
            Code::Coroutines { .. } => self.coroutines.end(failed, stacks),
        }
        self.team.part(grid)
    }
}
