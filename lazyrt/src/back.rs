//! Memory behind a bound task's objects, and what was recorded for them.

use crate::code::{Code, Own, fail};
use crate::driver::Failure;
use crate::ops::opaque;
use crate::records::Record;
use crate::state::{Backing, Freed, Key, Returned, State};
use crate::{device, driver, handles, mode, native};

/// `cudaMemcpyHostToDevice`.
const HOST_TO_DEVICE: u32 = 1;

/// Puts memory behind every extent of the task that has none, and swapped bytes back into it. The task has
/// room for all of it, and its GPU is current on this thread.
pub fn all(state: &mut State, key: Key, gpu: u32, ordinal: i32) -> Result<(), Failure> {
    let Ok(driver) = driver::get() else { return Ok(()) };
    let State {
        extents,
        tasks,
        spares,
        ..
    } = state;
    let Some(task) = tasks.get_mut(&key) else {
        return Ok(());
    };
    while let Some(&address) = task.unbacked.first() {
        let Some(extent) = extents.get_mut(&address) else {
            task.unbacked.remove(&address);
            continue;
        };
        let memory = match std::mem::replace(&mut extent.backing, Backing::None) {
            Backing::Spare(there, memory) if there == gpu => {
                spares.settle();
                memory
            }
            before => {
                if let Backing::Spare(_, memory) = before {
                    spares.settle();
                    driver.release(address, extent.length, memory)?;
                } else {
                    extent.backing = before;
                }
                driver.back(address, extent.length, ordinal)?
            }
        };
        if let Some(client) = mode::client() {
            client.published().mapped(gpu, extent.length);
        }
        extent.lent = 0;
        let before = std::mem::replace(&mut extent.backing, Backing::Device(memory));
        task.set_backed(address, extent.length);
        if let Backing::Host(bytes) = before {
            driver.to_device(address, &bytes)?;
        }
    }
    Ok(())
}

/// Lets another GPU use all of the task's memory.
pub fn lend(state: &mut State, key: Key, gpu: u32, ordinal: i32) -> Result<(), Failure> {
    let Ok(driver) = driver::get() else { return Ok(()) };
    let State { extents, tasks, .. } = state;
    let Some(task) = tasks.get_mut(&key) else {
        return Ok(());
    };
    let _unheard = device::Unheard::begin();
    for address in &task.extents {
        if let Some(extent) = extents.get_mut(address)
            && extent.lent & (1 << gpu) == 0
            && matches!(extent.backing, Backing::Device(_))
        {
            driver.lend(*address, extent.length, ordinal)?;
            extent.lent |= 1 << gpu;
        }
    }
    task.borrowers |= 1 << gpu;
    task.shared.note_lent(gpu);
    Ok(())
}

/// Does what was recorded, in order. The task is bound and backed, its GPU current on this thread.
pub fn replay(state: &mut State, key: Key) -> Result<(), Own> {
    let Some(task) = state.tasks.get_mut(&key) else {
        return Ok(());
    };
    if task.records.is_empty() {
        return Ok(());
    }
    let (gpu, records) = (task.shared.place().0, task.records.take());
    // Where the program has streams, one of them may be capturing: no other than lazyrt's own is touched then.
    let stream = if opaque::is_anchored() || handles::any_stream() {
        device::own_stream(gpu)?
    } else {
        std::ptr::null_mut()
    };
    let mut failed = Code::SUCCESS;
    for record in &records {
        // SAFETY: the addresses were checked when the op was recorded, and records of freed objects are
        // forgotten; the host bytes are the record's own, and there until all is done.
        let code = unsafe {
            match record {
                Record::Copy { to, bytes } => native::cudaMemcpyAsync(
                    *to as *mut _,
                    bytes.as_ptr().cast(),
                    bytes.len(),
                    HOST_TO_DEVICE,
                    stream,
                ),
                Record::Set { to, value, bytes } => {
                    native::cudaMemsetAsync(*to as *mut _, i32::from(*value), *bytes as usize, stream)
                }
                Record::Symbol {
                    symbol,
                    offset,
                    bytes,
                } => native::cudaMemcpyToSymbolAsync(
                    *symbol as *const _,
                    bytes.as_ptr().cast(),
                    bytes.len(),
                    *offset,
                    HOST_TO_DEVICE,
                    stream,
                ),
            }
        };
        if !code.is_success() {
            failed = code;
        }
    }
    // Streams that do not wait for this one must find the bytes there.
    // SAFETY: a stream that is there.
    let code = unsafe { native::cudaStreamSynchronize(stream) };
    match (failed, code) {
        (Code::SUCCESS, Code::SUCCESS) => Ok(()),
        (Code::SUCCESS, code) | (code, _) => fail(code),
    }
}

/// Does what is left to do for a freed object: memory first, then its addresses, then its room. The caller
/// holds no lock.
pub fn finish_free(freed: Freed) {
    if let Some((address, length, _, memory)) = freed.memory {
        if let Ok(driver) = driver::get()
            && let Err(failure) = driver.release(address, length, memory)
        {
            crate::notice::once("release", format_args!("failed to free device memory: {failure}"));
        }
        crate::state::lock().recycle(address, length);
    }
    give_back(freed.returned);
}

/// Frees the memory that freed objects left. The caller holds no lock.
pub fn release_spares() {
    let spares = crate::state::lock().spares.take_all();
    for memory in spares {
        finish_free(Freed {
            memory: Some(memory),
            returned: None,
        });
    }
}

/// Gives room back to mgbd. The caller holds no lock.
pub fn give_back(returned: impl IntoIterator<Item = Returned>) {
    if let Some(client) = mode::client() {
        for Returned { id, bytes } in returned {
            client.give_back(id, bytes);
        }
    }
}
