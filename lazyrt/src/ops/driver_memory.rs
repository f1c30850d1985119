//! Memory that the driver takes for itself at a kernel's first launch or a variable's first use: code, device
//! variables, stacks, queues.
//!
//! No need counts it, so a GPU that programs have filled may have no room for it, and a call that allocates
//! nothing fails with "out of memory". Nothing of such a call has been done: it is made again once mgbd has
//! granted room, which waits for others, or has them swap. What the driver has taken then, mgbd sees by the GPU's
//! free memory.

use mgb_core::notice;
use mgb_probe::need::GRANULE;

use crate::code::{Answer, Code, Own};
use crate::non_arena_memory::NonArenaKind;
use crate::state::{self, Key};
use crate::task_binding::{self, Asked};
use crate::{device, mapping, native, session};

/// The room that is asked for, try by try, in bytes: what a small module takes, up to a library's workspaces.
const ROOM: [u64; 4] = [GRANULE, 8 * GRANULE, 64 * GRANULE, 512 * GRANULE];

/// Makes a call again that failed natively for lack of memory, with room for what the driver takes beside the
/// task; its answer. The caller is outside the gate and holds no lock.
#[cold]
pub fn again(key: impl Fn() -> Key, mut call: impl FnMut() -> Answer) -> Answer {
    // Granules that this program keeps mapped are the driver's first.
    mapping::release_spares();
    for bytes in ROOM {
        let key = key();
        let room = match reserve(key, bytes) {
            Ok(Some(room)) => room,
            // No GPU has so much beside the task, or mgbd has refused and has said so.
            Ok(None) | Err(_) => break,
        };
        // SAFETY: no pointers. The error was this call's, and is being dealt with.
        unsafe { native::cudaGetLastError() };
        let answer = call();
        room.give_back();
        if answer != Ok(Code::MEMORY_ALLOCATION) {
            return answer;
        }
    }
    notice::once(
        "driver-memory",
        format_args!(
            "the driver has no memory for a call that allocates none (a kernel's code, its stacks, device \
             variables), and other programs leave it no room; run fewer at once"
        ),
    );
    Ok(Code::MEMORY_ALLOCATION)
}

/// Room that a task holds for the driver.
struct DriverRoom {
    key: Key,
    bytes: u64,
}

/// Charges the task, and waits for room for that; none where its GPU could never hold it.
fn reserve(key: Key, bytes: u64) -> Result<Option<DriverRoom>, Own> {
    let asked = Asked::default();
    let (gpu, _) = task_binding::prepare(key, asked)?.placement();
    {
        let mut state = state::lock();
        let key = state.resolve(key);
        let capacity = session::gpu(gpu).map_or(u64::MAX, device::capacity);
        let task = state.task_at(key);
        if task.is_none_or(|task| task.committed().saturating_add(bytes) > capacity) {
            return Ok(None);
        }
        state.charge(key, NonArenaKind::Pool, bytes);
    }
    match task_binding::prepare(key, asked) {
        Ok(_) => Ok(Some(DriverRoom { key, bytes })),
        Err(error) => {
            let returned = state::lock().withdraw(key, NonArenaKind::Pool, bytes);
            mapping::give_back(returned);
            Err(error)
        }
    }
}

impl DriverRoom {
    fn give_back(self) {
        let returned = state::lock().discharge(self.key, NonArenaKind::Pool, self.bytes);
        mapping::give_back(returned);
    }
}
