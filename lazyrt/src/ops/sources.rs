//! What memory in stream order comes from: pools, and what graphs have on each GPU. The runtime takes it
//! from the GPU in large steps and keeps it until the program waits or trims; what a source holds is
//! charged to the lazy task of its device. A call that is served from what a source holds needs no
//! request to mgbd.
//!
//! What a call makes a source take is known only afterwards: before the call there is room for its size, and
//! after it for what was really taken.

use std::sync::atomic::{AtomicBool, Ordering};

use mgb_abi::graph::GRAPH_MEM_RESERVED_CURRENT;
use mgb_abi::pool::{POOL_RESERVED_CURRENT, POOL_USED_CURRENT};
use mgb_probe::need::GRANULE;

use super::non_arena::charge_to;
use super::passthrough;
use crate::code::{Answer, Code, Own};
use crate::native::{self, Pool};
use crate::non_arena_memory::{NonArenaKind, Source};
use crate::state::{self, Key, ProcessState};
use crate::{contexts, device, mapping, session};

/// What sources take from the GPU at a time.
const GROWTH_STEP: u64 = 32 << 20;

/// Whether the program has used any source.
static USED_ANY: AtomicBool = AtomicBool::new(false);

impl Source {
    /// Bytes that it holds, and those of them that are allocated.
    pub fn levels(self) -> Option<(u64, u64)> {
        let read = |attribute| {
            let mut value = 0u64;
            let to = (&raw mut value).cast();
            // SAFETY: a pool that was valid when it was used, or a GPU of the process; writes
            // one word.
            let code = unsafe {
                match self {
                    Source::Pool(pool) => native::cudaMemPoolGetAttribute(pool as Pool, attribute, to),
                    Source::Graphs(ordinal) => native::cudaDeviceGetGraphMemAttribute(ordinal, attribute, to),
                }
            };
            code.is_success().then_some(value)
        };
        match self {
            Source::Pool(_) => Some((read(POOL_RESERVED_CURRENT)?, read(POOL_USED_CURRENT)?)),
            // The runtime has no figure for how much of it is in use.
            Source::Graphs(_) => read(GRAPH_MEM_RESERVED_CURRENT).map(|held| (held, held)),
        }
    }

    /// The task that is charged for a new one.
    fn owner(self, state: &mut ProcessState) -> Key {
        let device = match self {
            Source::Pool(_) => None,
            Source::Graphs(ordinal) => device::at(ordinal).and_then(|gpu| state.device_on(gpu)),
        };
        match device {
            Some(device) => state.lazy_task_of(device),
            None => state.lazy_task(),
        }
    }

    /// Gives unused memory back to the GPU.
    fn trim(self) {
        // SAFETY: a pool that was valid when it was used, or a GPU of the process; takes numbers
        // only.
        unsafe {
            match self {
                Source::Pool(pool) => native::cudaMemPoolTrimTo(pool as Pool, 0),
                Source::Graphs(ordinal) => native::cudaDeviceGraphMemTrim(ordinal),
            };
        }
    }
}

/// Runs a call that makes a source take `bytes` bytes, with room for them. The current device's lazy task
/// is charged if the source is new. `undo` takes back what the call did if there is no room for what it
/// really took; it returns whether it could.
pub fn charged(source: Source, bytes: u64, call: impl Fn() -> Code, undo: impl FnOnce() -> bool) -> Answer {
    let Some((held, used)) = source.levels() else {
        // No such pool: the runtime returns the error.
        return passthrough::run(call);
    };
    USED_ANY.store(true, Ordering::Release);
    let key = {
        let mut state = state::lock();
        let owner = source.owner(&mut state);
        let known = state.source(source, owner);
        known.users += 1;
        known.uses += 1;
        state.owner_of_source(source).unwrap_or(owner)
    };
    let fits = held - used.min(held) >= bytes;
    let answer = first(key, source, bytes, held, fits).and_then(|()| {
        let code = passthrough::run(&call)?;
        if code != Code::MEMORY_ALLOCATION || !contexts::any() {
            return Ok(code);
        }
        // It takes more than its size, or nothing that the source holds fits: once more, with room for that.
        // SAFETY: no pointers. The error was this call's, and is being dealt with.
        unsafe { native::cudaGetLastError() };
        let held = source.levels().map_or(0, |(held, _)| held);
        raise(
            key,
            source,
            held.saturating_add(bytes.saturating_add(GROWTH_STEP)),
        )?;
        passthrough::run(&call)
    });
    let after = match answer {
        Ok(Code::SUCCESS) => raise(key, source, source.levels().map_or(0, |(held, _)| held)),
        _ => Ok(()),
    };
    if let Some(known) = state::lock().known_source(source) {
        known.users -= 1;
    }
    match after {
        Ok(()) if answer == Ok(Code::SUCCESS) => publish(source),
        // It has what others may have been promised: at least that is known.
        Err(_) if !undo() => publish(source),
        Ok(()) => settle(source),
        Err(error) => {
            settle(source);
            return Err(error);
        }
    }
    answer
}

/// Makes room for `bytes` bytes before a call, which [`settle_all`] takes back where they are not used.
pub fn room(source: Source, bytes: u64) -> Result<(), Own> {
    let Some((held, _)) = source.levels() else {
        return Ok(());
    };
    USED_ANY.store(true, Ordering::Release);
    let key = {
        let mut state = state::lock();
        let owner = source.owner(&mut state);
        state.source(source, owner);
        state.owner_of_source(source).unwrap_or(owner)
    };
    first(key, source, bytes, held, false)
}

/// Room for the allocation before the call. Where the source holds enough that is free, it needs none.
fn first(key: Key, source: Source, bytes: u64, held: u64, fits: bool) -> Result<(), Own> {
    if fits {
        return raise(key, source, held);
    }
    let more = bytes.checked_next_multiple_of(GRANULE).unwrap_or(u64::MAX);
    let raised = raise(key, source, held.saturating_add(more));
    if raised.is_ok() {
        return raised;
    }
    // What the source keeps unused may be enough, as it may be in the runtime.
    wait_for_all()?;
    source.trim();
    settle_used(source);
    let held = source.levels().map_or(0, |(held, _)| held);
    raise(key, source, held.saturating_add(more))
}

fn wait_for_all() -> Result<(), Own> {
    for (gpu, ordinal) in device::with_context() {
        device::settle(gpu, ordinal)?;
    }
    match state::lazy_shared() {
        Some(shared) => device::select(shared.placement().0, shared.placement().1),
        None => Ok(()),
    }
}

/// Charges the source `bytes` bytes, if it is charged less.
fn raise(key: Key, source: Source, bytes: u64) -> Result<(), Own> {
    let lacks = {
        let mut state = state::lock();
        let known = state.source(source, key);
        bytes.saturating_sub(known.bytes)
    };
    if lacks == 0 {
        return Ok(());
    }
    charge_to(key, NonArenaKind::Pool, lacks)?;
    let mut state = state::lock();
    let known = state.source(source, key);
    known.bytes = known.bytes.saturating_add(lacks);
    Ok(())
}

/// Lowers the charge of every source to what it holds: after the program has waited, or given something back.
pub fn settle_all() {
    if USED_ANY.load(Ordering::Acquire) {
        let sources = state::lock().sources();
        sources.into_iter().for_each(settle);
    }
}

fn settle(source: Source) {
    lower(source, 0);
}

/// As [`settle`], by the thread that is about to allocate from the source itself.
fn settle_used(source: Source) {
    lower(source, 1);
}

fn lower(source: Source, own: u32) {
    let uses = match state::lock().known_source(source) {
        Some(known) if known.users <= own => known.uses,
        _ => return,
    };
    // The levels of a destroyed pool cannot be read; what was allocated from it is still charged.
    let Some((held, _)) = source.levels() else {
        return;
    };
    let returned = {
        let mut state = state::lock();
        match state.known_source(source) {
            // No thread allocated from it in between.
            Some(known) if known.users <= own && known.uses == uses => {}
            _ => return,
        }
        let bytes = held.next_multiple_of(GRANULE);
        let known = state.known_source(source).map_or(0, |known| known.bytes);
        if bytes >= known {
            None
        } else {
            state.set_source(source, bytes)
        }
    };
    publish_level(source, held);
    mapping::give_back(returned.and_then(|(_, returned)| returned));
}

/// Tells mgbd what the source holds.
fn publish(source: Source) {
    if let Some((held, _)) = source.levels() {
        publish_level(source, held);
    }
}

pub fn publish_level(source: Source, held: u64) {
    let mut state = state::lock();
    let gpu = state
        .owner_of_source(source)
        .and_then(|owner| state.task(owner)?.gpu);
    let Some(known) = state.known_source(source) else {
        return;
    };
    let before = std::mem::replace(&mut known.held, held);
    if let Some(gpu) = gpu {
        if held >= before {
            session::mapped(gpu, held - before);
        } else {
            session::unmapping(gpu, before - held);
        }
    }
}
