//! `alg2`: Algorithm 2 of the MGB paper. Memory is a hard limit, and so is
//! compute: a task begins on the first GPU on which all blocks of its largest
//! launch find a place at once on the multiprocessors, by blocks, warps, registers
//! and shared memory. Of a grid larger than the GPU, as many blocks as that holds.
//!
//! Where everybody who runs on a GPU waits for something, compute keeps nobody
//! out: what they wait for may be the end of the one who would be kept out.

use super::queue::Choose;
use super::{GpuState, View, Waiter};
use crate::gpu_set::GpuSet;
use crate::sms::{SmShape, Sms, TaskLaunch};

/// Launches whose answers are remembered within a round: tasks that wait have few different ones.
const REMEMBERED: usize = 64;

/// On which GPUs a launch finds its place.
#[derive(Clone, Copy, Default)]
struct LaunchFit {
    launch: TaskLaunch,
    known: GpuSet,
    fits: GpuSet,
}

/// Chooses the first GPU on which all blocks of the task find a place.
pub(super) struct Alg2 {
    sms: Vec<Sms>,
    answers: [LaunchFit; REMEMBERED],
}

impl Alg2 {
    pub(super) fn new(view: &View<'_>) -> Alg2 {
        Alg2 {
            sms: view.sms.to_vec(),
            answers: [LaunchFit::default(); REMEMBERED],
        }
    }

    fn fits(&mut self, launch: &TaskLaunch, at: usize) -> bool {
        let answer = &mut self.answers[place_of(launch)];
        if answer.launch != *launch {
            *answer = LaunchFit {
                launch: *launch,
                ..LaunchFit::default()
            };
        }
        if !answer.known.contains(at) {
            answer.known.insert(at);
            let sms = &self.sms[at];
            if sms.fits(&SmShape::of(launch, sms.kind())) {
                answer.fits.insert(at);
            } else {
                answer.fits.remove(at);
            }
        }
        answer.fits.contains(at)
    }
}

fn place_of(launch: &TaskLaunch) -> usize {
    let word = u64::from(launch.blocks) << 32
        ^ u64::from(launch.threads) << 20
        ^ u64::from(launch.registers) << 44
        ^ u64::from(launch.shared);
    (word.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 58) as usize
}

impl Choose for Alg2 {
    fn choose(&mut self, waiter: &Waiter, fitting: GpuSet, gpus: &[GpuState]) -> Option<usize> {
        fitting
            .iter()
            .find(|&at| self.fits(&waiter.launch, at))
            .or_else(|| fitting.iter().find(|&at| gpus[at].resting))
    }

    fn placed(&mut self, waiter: &Waiter, gpu: usize) {
        let sms = &mut self.sms[gpu];
        let shape = SmShape::of(&waiter.launch, sms.kind());
        let spread = sms.spread(&shape);
        sms.charge(&shape, &spread);
        for answer in &mut self.answers {
            answer.known.remove(gpu);
        }
    }

    /// Where the most of it would find a place now.
    fn nearest(&mut self, waiter: &Waiter, fitting: GpuSet, _gpus: &[GpuState]) -> usize {
        let lacks = |&at: &usize| {
            let sms = &self.sms[at];
            let shape = SmShape::of(&waiter.launch, sms.kind());
            // In parts of what it wants there, since GPUs may differ.
            let found = u64::from(sms.room(&shape).min(shape.blocks));
            u32::MAX - (found * u64::from(u32::MAX) / u64::from(shape.blocks)) as u32
        };
        fitting.iter().min_by_key(lacks).unwrap_or(0)
    }
}
