//! Moving a task to another GPU: its memory goes from GPU to GPU, its addresses stay.
//!
//! As for a swap ([`crate::swap`]) the gate is closed at a moment at which the GPU has done what it was
//! given. The new memory is mapped at addresses of its own while the bytes are copied into it, and then takes
//! the place of the old: until all bytes are there, nothing has changed. Where the one GPU cannot reach the
//! other's memory, the bytes go to the host, and come back on the new GPU with the task's next op.

use mgb_core::driver::Driver;
use mgb_core::memory::{self, Failure, Physical, Range};
use mgb_core::notice;
use mgb_core::quiesce;
use mgb_core::swaps::{Spent, Watch};
use mgb_probe::trace::SwapKind;

use crate::code::{Code, Own};
use crate::state::{self, Backing, Evicting, Key, ProcessState, TakenExtent};
use crate::{device, driver_start, mapping, native, offload, session, swap};

/// Brings the task of that number, which is on the GPU `from`, to the GPU `to`, where mgbd has room for it;
/// the bytes that went with it, at least 1; or 0 if it stays where it is.
pub fn task(number: u64, from: u32, to: u32) -> u64 {
    let choose = |state: &ProcessState| -> Vec<Key> {
        let key = state
            .by_handle(number)
            .filter(|_| !swap::Gathering::is_under_way());
        key.filter(|&key| state.may_move(key, from)).into_iter().collect()
    };
    let Ok(ordinal) = device::ordinal(to) else {
        return 0;
    };
    // Making a context takes long: no thread is to wait for that.
    if choose(&state::lock()).is_empty() || device::select(to, ordinal).is_err() {
        return 0;
    }
    mapping::release_spares();
    let mut watch = Watch::begin(SwapKind::Moved);
    let Some(closed) = swap::close_quietly(&choose, quiesce::SUSPEND_TIMEOUT) else {
        return 0;
    };
    watch.book(Spent::Rest);
    let taken = {
        let mut state = state::lock();
        let key = choose(&state).first().copied();
        key.and_then(|key| Some((key, state.begin_evict(key)?)))
    };
    let moved = taken.map_or(0, |(key, taken)| carry(key, taken, (to, ordinal), watch));
    drop(closed);
    moved
}

/// Carries what was taken out of the task, which is marked as moving.
fn carry(key: Key, taken: Evicting, (to, ordinal): (u32, i32), mut watch: Watch) -> u64 {
    let Evicting {
        id,
        gpu,
        ordinal: old,
        mut parts,
    } = taken;
    let mut arrived = parts.is_empty();
    if !arrived && device::select(gpu, old).is_ok() {
        match over(&mut parts, (gpu, old), (to, ordinal), &mut watch) {
            Ok(()) => arrived = true,
            Err(error) => {
                notice::once("move", format_args!("failed to copy from GPU to GPU: {error}"));
                offload::save_all(&mut parts, gpu, &mut watch);
                arrived = !parts
                    .iter()
                    .any(|part| matches!(part.backing, Backing::Device(_)));
            }
        }
    }
    let bytes: u64 = parts.iter().map(|part| part.length).sum();
    let mut state = state::lock();
    if arrived {
        state.end_relocate(key, parts, to, ordinal);
        if let Some(task) = state.task(key) {
            task.outside.set_capacity(device::capacity_of(to));
            task.swaps.extend(watch.end(to, bytes));
        }
        drop(state);
        // mgbd is notified before any thread continues and asks for more.
        if let Some(client) = session::client() {
            client.moved(id);
        }
    } else {
        let freed = state.end_evict(key, parts);
        drop(state);
        if let Some(client) = session::client().filter(|_| freed > 0) {
            client.swapped(id, freed);
        }
    }
    state::lock().end_move(key);
    if arrived { bytes.max(1) } else { 0 }
}

/// Addresses that new memory has while the bytes come into it.
struct Scratch<'a> {
    driver: &'a Driver,
    gpu: u32,
    start: u64,
    bytes: u64,
    /// The new memory, in the order of the parts, which lie one behind the other.
    memory: Vec<(Range, Physical)>,
}

impl Drop for Scratch<'_> {
    fn drop(&mut self) {
        for (range, memory) in self.memory.drain(..) {
            session::unmapping(self.gpu, range.bytes);
            let _ = memory::release(self.driver, range, memory);
        }
        self.driver.unreserve(self.start, self.bytes);
    }
}

/// Puts new memory of the GPU `to` with the same bytes behind the parts. After an error the GPU `from` can
/// use all of them, as before.
fn over(
    parts: &mut [TakenExtent],
    (from, old): (u32, i32),
    (to, new): (u32, i32),
    watch: &mut Watch,
) -> Result<(), String> {
    let driver = driver_start::get().map_err(str::to_owned)?;
    let _relaxed = device::RelaxedCapture::begin();
    let bytes = parts.iter().map(|part| part.length).sum();
    let text = |failure: Failure| failure.to_string();
    let code = |code: Code| code.to_string();
    let mut scratch = Scratch {
        driver,
        gpu: to,
        start: driver.reserve(bytes, 0).map_err(code)?,
        bytes,
        memory: Vec::new(),
    };
    let stream = device::own_stream(from).map_err(|Own(failed)| code(failed))?;
    let mut next = scratch.start;
    let mut begun = Ok(());
    for part in &*parts {
        let range = Range::new(next, part.length);
        let memory =
            memory::back(driver, range, new, || driver.create(new, range.bytes, 0, false)).map_err(text);
        begun = memory.and_then(|memory| {
            scratch.memory.push((range, memory));
            // It counts before the bytes are in it: else it is memory that nobody granted, as mgbd sees it.
            session::mapped(to, range.bytes);
            memory::lend(driver, range, old).map_err(text)?;
            // SAFETY: both ranges are backed, and this GPU may use them; nobody else does.
            let copied = unsafe {
                native::cudaMemcpyAsync(
                    next as *mut _,
                    part.address as *const _,
                    part.length as usize,
                    mgb_abi::copy::DEVICE_TO_DEVICE,
                    stream,
                )
            };
            if copied.is_success() {
                Ok(())
            } else {
                Err(code(copied))
            }
        });
        next += part.length;
        if begun.is_err() {
            break;
        }
    }
    watch.book(Spent::Map);
    // SAFETY: a stream that is there. It is waited for whatever came of the rest: the copies use the memory.
    let copied = unsafe { native::cudaStreamSynchronize(stream) };
    watch.book(Spent::Copy);
    begun?;
    if !copied.is_success() {
        return Err(code(copied));
    }
    let mut done = 0;
    let mut exchanged = Ok(());
    for (part, (there, memory)) in parts.iter_mut().zip(std::mem::take(&mut scratch.memory)) {
        if exchanged.is_err() {
            session::unmapping(to, there.bytes);
            let _ = memory::release(driver, there, memory);
            continue;
        }
        let Backing::Device(before) = std::mem::replace(&mut part.backing, Backing::Moving) else {
            continue;
        };
        let length = there.bytes;
        let range = Range::new(part.address, length);
        session::unmapping(from, length);
        match memory::exchange(driver, range, there.start, before, memory, (old, new)) {
            Ok(memory) => {
                part.backing = Backing::Device(memory);
                done += 1;
            }
            Err((failure, before)) => {
                session::unmapping(to, length);
                session::mapped(from, length);
                part.backing = Backing::Device(before);
                exchanged = Err(failure.to_string());
            }
        }
    }
    if exchanged.is_err() {
        // What has new memory keeps it, which the old GPU may use; the bytes count as there until they leave.
        for part in &parts[..done] {
            let _ = memory::lend(driver, part.range(), old);
            session::unmapping(to, part.length);
            session::mapped(from, part.length);
        }
    } else {
        memory::lend_margin(driver, new);
    }
    watch.book(Spent::Map);
    exchanged
}
