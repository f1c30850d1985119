//! Kept objects: whether an object of a task may be used after the task has begun again.
//!
//! A task that begins in each iteration of a loop has the objects of that iteration alone. So its begin may
//! stand in a loop only if no address of an older object can be used behind it. Two analyses show that, over all
//! that may carry such an address: which carriers may still be read (liveness, from the ends), and which may hold
//! the address of an object that is there (from the entry). Where no carrier is both, no op that comes later
//! can touch what is there now. If there is such a place on every way from the begin back to it, the begin may stay.
//!
//! An allocation overwrites its variable even where it fails: CUDA leaves null there then, and so does lazyrt.
mod bits;
mod carriers;

use std::collections::HashSet;

use inkwell::llvm_sys::LLVMOpcode;

use crate::host::collect::Collected;
use crate::host::ir::cfg::{Cfg, Loop, Point};
use crate::host::objects::Objects;
use crate::host::objects::launches::KernelLaunch;
use bits::Bits;
use carriers::{CarrierEvent, Carriers};

/// Where in a function addresses of a task's objects are carried on.
pub struct KeptAddresses<'a> {
    cfg: &'a Cfg,
    /// By block: whether any is at each place, in front of the instruction with this number.
    carried: Vec<Vec<bool>>,
}

impl<'a> KeptAddresses<'a> {
    /// For the task with these ops.
    pub fn new(
        collected: &Collected,
        cfg: &'a Cfg,
        launches: &[KernelLaunch],
        objects: &Objects,
        ops: &[usize],
    ) -> Self {
        let carriers = Carriers::new(collected, cfg, launches, objects, ops);
        let (live, full) = (live_at_ends(cfg, &carriers), full_at_starts(cfg, &carriers));
        let carried = (0..cfg.len())
            .map(|block| carried(cfg, &carriers, block, &live[block], &full[block]))
            .collect();
        Self { cfg, carried }
    }

    /// Whether an object from before a begin may be used after it, on a way back to the begin that does not leave
    /// the loop.
    pub fn outlives(&self, begin: Point, one: &Loop) -> bool {
        let cfg = self.cfg;
        // Whether all of these places carry something.
        let all = |block: usize, from: usize, to: usize| self.carried[block][from..=to].iter().all(|&is| is);
        let last = |block: usize| self.carried[block].len() - 1;
        if !all(begin.block, begin.at, last(begin.block)) {
            return false;
        }
        let inside = |block: &usize| one.body.contains(block);
        let mut seen = HashSet::new();
        let mut queue: Vec<usize> = cfg.successors(begin.block).into_iter().filter(inside).collect();
        while let Some(block) = queue.pop() {
            if block == begin.block {
                if all(block, 0, begin.at) {
                    return true;
                }
            } else if seen.insert(block) && all(block, 0, last(block)) {
                queue.extend(cfg.successors(block).into_iter().filter(inside));
            }
        }
        false
    }
}

/// The carriers that may be read behind the end of each block.
fn live_at_ends(cfg: &Cfg, carriers: &Carriers) -> Vec<Bits> {
    let none = || Bits::none(carriers.len());
    let (mut starts, mut ends) = (vec![none(); cfg.len()], vec![none(); cfg.len()]);
    let mut queue: Vec<usize> = (0..cfg.len()).collect();
    while let Some(block) = queue.pop() {
        let mut live = none();
        cfg.successors(block)
            .iter()
            .for_each(|&next| live.add(&starts[next]));
        carriers.used_behind[block]
            .iter()
            .for_each(|&one| live.insert(one));
        ends[block] = live.clone();
        for (_, event) in carriers.events[block].iter().rev() {
            backwards(&mut live, *event);
        }
        if starts[block] != live {
            starts[block] = live;
            queue.extend(cfg.predecessors(block));
        }
    }
    ends
}

fn backwards(live: &mut Bits, event: CarrierEvent) {
    match event {
        CarrierEvent::Read(one) => live.insert(one),
        CarrierEvent::Overwrite(one) => live.remove(one),
        CarrierEvent::Fill(_) | CarrierEvent::Empty(_) => {}
    }
}

/// The carriers that may hold the address of an object at the start of each block.
fn full_at_starts(cfg: &Cfg, carriers: &Carriers) -> Vec<Bits> {
    let none = || Bits::none(carriers.len());
    let (mut starts, mut ends) = (vec![none(); cfg.len()], vec![none(); cfg.len()]);
    let mut queue: Vec<usize> = (0..cfg.len()).rev().collect();
    while let Some(block) = queue.pop() {
        let mut full = none();
        if block == 0 {
            carriers.full_at_first.iter().for_each(|&one| full.insert(one));
        }
        for before in cfg.predecessors(block) {
            let mut coming = ends[before].clone();
            let empty = carriers
                .null_on
                .iter()
                .filter(|(from, to, _)| (*from, *to) == (before, block));
            empty.for_each(|&(_, _, cell)| coming.remove(cell));
            full.add(&coming);
        }
        starts[block] = full.clone();
        for (_, event) in &carriers.events[block] {
            forwards(&mut full, *event);
        }
        if ends[block] != full {
            ends[block] = full;
            queue.extend(cfg.successors(block));
        }
    }
    starts
}

fn forwards(full: &mut Bits, event: CarrierEvent) {
    match event {
        CarrierEvent::Fill(one) => full.insert(one),
        CarrierEvent::Empty(one) => full.remove(one),
        CarrierEvent::Read(_) | CarrierEvent::Overwrite(_) => {}
    }
}

/// Whether a carrier is read later and full, at each place of a block.
fn carried(cfg: &Cfg, carriers: &Carriers, block: usize, live: &Bits, full: &Bits) -> Vec<bool> {
    let places = cfg.block(block).instructions().count() + 1;
    let events = &carriers.events[block];
    let mut live_before = vec![live.clone()];
    for (_, event) in events.iter().rev() {
        let mut live = live_before[live_before.len() - 1].clone();
        backwards(&mut live, *event);
        live_before.push(live);
    }
    live_before.reverse();
    // What phis carry into the block is theirs once all of them have been passed.
    let phis = cfg
        .block(block)
        .instructions()
        .take_while(|one| one.is(LLVMOpcode::LLVMPHI));
    let first = phis.count();
    let (mut full, mut next) = (full.clone(), 0);
    let mut carried = vec![true; first];
    for place in first..places {
        while let Some((_, event)) = events.get(next).filter(|(at, _)| *at < place) {
            forwards(&mut full, *event);
            next += 1;
        }
        carried.push(live_before[next].meets(&full));
    }
    carried
}
