//! Memory of graphs. Its addresses are there with a graph's nodes; the driver takes the memory when an executable
//! graph is launched or uploaded for the first time, keeps it when that has ended, and lets other graphs use it
//! that do not run at the same time.
//!
//! Each executable graph counts with the sum of its nodes: that is the most that it can take. Measured with driver
//! 580: memory comes in steps of 32 MiB; a node gets what an earlier one has freed only if it is no larger
//! (100 MiB, freed, then 200 MiB take 352); graphs that ran one after the other share theirs; destroying one
//! frees nothing; allocations outside of graphs get what is unused.

use std::collections::HashMap;
use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, Ordering};

use mgb_abi::graph::MemAllocNodeParams;
use mgb_abi::location::LOCATION_DEVICE;
use mgb_core::captures;
use mgb_probe::need::GRANULE;
use parking_lot::Mutex;

use crate::calls::{Code, Stream, driver};
use crate::sources::{self, GROWTH_STEP, Source, Want};
use crate::{driver_memory, room, session};

/// Bytes that an executable graph takes at most, by device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Footprint(Vec<(c_int, Bytes)>);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Bytes {
    /// Of nodes of a step or more, each in whole steps.
    large: u64,
    /// Of smaller ones, which share steps.
    small: u64,
}

impl Footprint {
    /// A node that allocates.
    pub fn add(&mut self, device: c_int, bytes: u64) {
        let bytes = bytes.min(room::MAX_CHARGED_BYTES);
        let at = self.0.iter().position(|(other, _)| *other == device);
        let at = at.unwrap_or_else(|| {
            self.0.push((device, Bytes::default()));
            self.0.len() - 1
        });
        let sum = &mut self.0[at].1;
        if bytes < GROWTH_STEP {
            sum.small = sum.small.saturating_add(bytes.next_multiple_of(GRANULE));
        } else {
            sum.large = sum.large.saturating_add(bytes.next_multiple_of(GROWTH_STEP));
        }
    }

    /// All nodes of another one as well.
    pub fn join(&mut self, other: &Footprint) {
        for (device, bytes) in &other.0 {
            self.add(*device, bytes.large);
            if bytes.small > 0 {
                self.add(*device, bytes.small);
            }
        }
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn wants(&self) -> Vec<Want> {
        let want = |&(device, Bytes { large, small }): &(c_int, Bytes)| Want {
            source: Source::Graphs(device),
            device,
            bytes: large.saturating_add(small.next_multiple_of(GROWTH_STEP)),
            is_limited: false,
        };
        self.0.iter().map(want).collect()
    }
}

/// An executable graph that allocates.
#[derive(Clone, Debug)]
struct Instance {
    footprint: Footprint,
    /// Where it had its memory last: the stream, and how often graphs had lost memory by then.
    had: Option<(Stream, u64)>,
}

/// What programs have added to graphs node by node, for a driver that does not list the nodes of a graph.
static ADDED: Mutex<Option<HashMap<usize, Footprint>>> = Mutex::new(None);
static ADDED_ANY: AtomicBool = AtomicBool::new(false);

static INSTANCES: Mutex<Option<HashMap<usize, Instance>>> = Mutex::new(None);
/// Whether there was ever one.
static ANY: AtomicBool = AtomicBool::new(false);

fn with<T>(instance: usize, change: impl FnOnce(&mut Instance) -> T) -> Option<T> {
    let mut all = INSTANCES.lock();
    all.get_or_insert_default().get_mut(&instance).map(change)
}

/// A node that allocates was added to a graph.
///
/// # Safety
/// `node` can be read.
pub unsafe fn added(graph: usize, node: *const MemAllocNodeParams) {
    // SAFETY: contract of this function.
    let node = unsafe { node.read() };
    if node.pool_props.location.kind == LOCATION_DEVICE {
        ADDED_ANY.store(true, Ordering::Release);
        let mut all = ADDED.lock();
        let sum = all.get_or_insert_default().entry(graph).or_default();
        sum.add(node.pool_props.location.id, node.byte_size as u64);
    }
}

/// What was added to a graph node by node.
pub fn added_to(graph: usize) -> Footprint {
    if !ADDED_ANY.load(Ordering::Acquire) {
        return Footprint::default();
    }
    let all = ADDED.lock();
    all.as_ref()
        .and_then(|all| all.get(&graph))
        .cloned()
        .unwrap_or_default()
}

/// A graph is gone.
pub fn graph_gone(graph: usize) {
    if ADDED_ANY.load(Ordering::Acquire)
        && let Some(all) = ADDED.lock().as_mut()
    {
        all.remove(&graph);
    }
}

/// An executable graph was made, or changed into one of other nodes.
pub fn note(instance: usize, footprint: Footprint) {
    if footprint.is_empty() {
        forget(instance);
        return;
    }
    ANY.store(true, Ordering::Release);
    let made = Instance { footprint, had: None };
    INSTANCES.lock().get_or_insert_default().insert(instance, made);
}

/// Nodes of another graph came into an executable one.
pub fn note_more(instance: usize, footprint: &Footprint) {
    if footprint.is_empty() {
        return;
    }
    let joined = with(instance, |known| {
        known.footprint.join(footprint);
        known.had = None;
    });
    if joined.is_none() {
        note(instance, footprint.clone());
    }
}

/// An executable graph is gone. What it had stays for others.
pub fn forget(instance: usize) {
    if ANY.load(Ordering::Acquire)
        && let Some(all) = INSTANCES.lock().as_mut()
    {
        all.remove(&instance);
    }
}

/// Launches or uploads an executable graph in a stream, by `call`.
pub fn run(instance: usize, stream: Stream, call: impl Fn() -> Code) -> Code {
    if !ANY.load(Ordering::Acquire) || session::get().is_none() {
        return driver_memory::give(call);
    }
    let Some(known) = with(instance, |known| known.clone()) else {
        return driver_memory::give(call);
    };
    // In a capture it becomes a part of the graph.
    if captures::any() && driver().is_capturing(stream) {
        return call();
    }
    let wants = known.footprint.wants();
    // The driver may have taken it for something else, as the figures show.
    wants.iter().for_each(|want| sources::notice_loss(want.source));
    let lost = sources::graphs_lost();
    if known.had == Some((stream, lost)) {
        return driver_memory::give(call);
    }
    // A launch cannot be undone.
    let code = sources::take(&wants, call, || false);
    if code == Code::SUCCESS {
        with(instance, |known| known.had = Some((stream, lost)));
    }
    code
}

/// Makes an executable graph of these nodes that is uploaded at once, by `call`.
pub fn upload(footprint: &Footprint, call: impl Fn() -> Code) -> Code {
    if footprint.is_empty() {
        return driver_memory::give(call);
    }
    sources::take(&footprint.wants(), call, || false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_count_in_the_drivers_steps() {
        let mut footprint = Footprint::default();
        assert!(footprint.is_empty() && footprint.wants().is_empty());
        let mib = |of: &Footprint| -> Vec<(c_int, u64)> {
            let wants = of.wants().into_iter();
            wants.map(|want| (want.device, want.bytes >> 20)).collect()
        };
        // As measured: 1 KiB takes 32 MiB, ten of them no more; 100 MiB take 128.
        for _ in 0..10 {
            footprint.add(0, 1024);
        }
        assert_eq!(mib(&footprint), [(0, 32)]);
        footprint.add(0, 100 << 20);
        footprint.add(1, 33 << 20);
        assert_eq!(mib(&footprint), [(0, 160), (1, 64)]);
        let mut both = footprint.clone();
        both.join(&footprint);
        assert_eq!(mib(&both), [(0, 320), (1, 128)]);
        footprint.add(0, u64::MAX);
        footprint.add(0, u64::MAX);
        assert!(mib(&footprint)[0].1 >= 2 << 30);
    }
}
