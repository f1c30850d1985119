//! One visible device: its primary context, its heap, its streams, and the error it may be stuck in.

use std::collections::HashMap;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use parking_lot::{Mutex, MutexGuard};

use super::fault;
use crate::config::device::DeviceConfig;
use crate::config::profile::Profile;
use crate::config::spec::Spec;
use crate::driver_front::{self, Front};
use crate::error::{Error, Result};
use crate::memory::heap::Heap;
use crate::state::SharedState;
use crate::stream::set::Streams;

/// What is to be done when a device's context has ended.
static CONTEXT_ENDED: OnceLock<fn(usize)> = OnceLock::new();

/// Registers what a module above this one does when the context of the device with this number has ended. The
/// first registration stays.
pub fn when_a_context_ends(call: fn(usize)) {
    let _ = CONTEXT_ENDED.set(call);
}

/// A device, as this process uses it.
pub struct Gpu {
    /// The number that this process knows it by.
    pub ordinal: usize,
    /// Its number on the node.
    pub index: usize,
    /// The configuration of the device.
    pub spec: Spec,
    /// The streams of the device.
    pub streams: Streams,
    state: &'static SharedState,
    context: Mutex<PrimaryContext>,
    /// Held by the thread that has a front make or end the context.
    entering: Mutex<()>,
    heap: Mutex<Heap>,
    /// Blocks of module variables, by image.
    variables: Mutex<HashMap<usize, usize>>,
    error: AtomicU32,
}

/// The primary context: there while the runtime uses it or the driver API retains it.
#[derive(Debug, Default)]
struct PrimaryContext {
    active: bool,
    /// Which of the process it is, counted from 1; the last one's number where there is none.
    number: u64,
    runtime: bool,
    retained: u32,
    /// One of the retained ones is the runtime's, by a front.
    by_front: bool,
}

impl Gpu {
    /// A device without a context.
    pub fn new(ordinal: usize, index: usize, state: &'static SharedState) -> Gpu {
        Gpu {
            ordinal,
            index,
            spec: state.devices()[index],
            streams: Streams::new(ordinal),
            state,
            context: Mutex::default(),
            entering: Mutex::default(),
            heap: Mutex::new(Heap::new(index)),
            variables: Mutex::default(),
            error: AtomicU32::new(0),
        }
    }

    /// Its primary context as a `CUcontext`: the address of the device.
    pub fn context_handle(&self) -> usize {
        std::ptr::from_ref(self) as usize
    }

    /// The device, without what this process has on it.
    pub fn device(&self) -> DeviceConfig {
        DeviceConfig {
            index: self.index,
            spec: self.spec,
        }
    }

    /// The model that it claims to be.
    pub fn profile(&self) -> &'static Profile {
        self.spec.profile
    }

    /// Makes the context for the runtime, if there is none, and charges the device for it.
    ///
    /// # Errors
    /// Those of [`Gpu::have_context`]; the error that the context is stuck in.
    pub fn enter(&self) -> Result {
        self.have_context()?;
        self.check()
    }

    /// As [`Gpu::enter`], whatever the process is stuck in if the context is there.
    ///
    /// # Errors
    /// `MEMORY_ALLOCATION` if it does not fit; `DEVICES_UNAVAILABLE` where it would be a new one after a
    /// fault: the driver's error is the fault's, the runtime has this one for it.
    pub fn have_context(&self) -> Result {
        self.make_context().map_err(|error| match error {
            error if error.is_of_process() => Error::DEVICES_UNAVAILABLE,
            error => error,
        })
    }

    fn make_context(&self) -> Result {
        if let Some(front) = driver_front::front() {
            self.enter_by(front)?;
        }
        let mut context = self.context.lock();
        self.activate(&mut context)?;
        context.runtime = true;
        Ok(())
    }

    /// Sees to a context for memory of a pool. One that the program has retained is good enough, and ends
    /// when the program releases it.
    ///
    /// # Errors
    /// Those of [`Gpu::enter`].
    pub fn enter_for_pool(&self) -> Result {
        if self.is_active() {
            self.check()
        } else {
            self.enter()
        }
    }

    /// Has a front make the context for the runtime, unless the runtime uses it already.
    fn enter_by(&self, front: &Front) -> Result {
        if self.context.lock().runtime {
            return Ok(());
        }
        let _alone = self.entering.lock();
        if self.context.lock().runtime {
            return Ok(());
        }
        self.leave_by(front);
        let mut handle = 0;
        front.cuDevicePrimaryCtxRetain(&mut handle, self.ordinal as i32)?;
        let mut context = self.context.lock();
        context.by_front = true;
        context.runtime = true;
        Ok(())
    }

    /// Has a front release what the runtime retained by it.
    fn leave_by(&self, front: &Front) {
        let is_retained = std::mem::take(&mut self.context.lock().by_front);
        if is_retained {
            // A program that released more than it had retained has done it already.
            let _ = front.cuDevicePrimaryCtxRelease(self.ordinal as i32);
        }
    }

    /// `cudaDeviceReset` by a front: what the runtime retained goes with the context.
    ///
    /// # Errors
    /// The front's.
    pub fn reset_by(&self, front: &Front) -> Result {
        let _alone = self.entering.lock();
        front.cuDevicePrimaryCtxReset(self.ordinal as i32)?;
        self.leave_by(front);
        Ok(())
    }

    /// `cuDevicePrimaryCtxRetain`.
    pub fn retain(&self) -> Result {
        let mut context = self.context.lock();
        self.activate(&mut context)?;
        context.retained += 1;
        Ok(())
    }

    /// `cuDevicePrimaryCtxRelease`: the last one waits for the work and ends the context, unless the runtime
    /// uses it.
    pub fn release(&self) -> Result {
        let is_last = {
            let context = self.context.lock();
            context.retained == 1 && !context.runtime
        };
        if is_last {
            // Work that fails later would break the next context.
            self.streams.finish();
        }
        let mut context = self.context.lock();
        context.retained = context.retained.checked_sub(1).ok_or(Error::INVALID_CONTEXT)?;
        if context.retained == 0 && !context.runtime {
            self.deactivate(&mut context);
        }
        Ok(())
    }

    /// `cudaDeviceReset`: waits for the work, then ends the context with all it holds.
    pub fn reset(&self) {
        self.streams.finish();
        let mut context = self.context.lock();
        self.deactivate(&mut context);
        context.runtime = false;
    }

    /// Whether there is a context.
    pub fn is_active(&self) -> bool {
        self.context.lock().active
    }

    /// The context's number, which no other of the process has. `None`: there is no context.
    pub fn context_number(&self) -> Option<u64> {
        let context = self.context.lock();
        context.active.then_some(context.number)
    }

    fn activate(&self, context: &mut PrimaryContext) -> Result {
        if !context.active {
            fault::check()?;
            self.state.charge(self.index, self.spec.context, true)?;
            static LAST: AtomicU64 = AtomicU64::new(0);
            context.number = LAST.fetch_add(1, Ordering::Relaxed) + 1;
            context.active = true;
        }
        Ok(())
    }

    fn deactivate(&self, context: &mut PrimaryContext) {
        if context.active {
            context.active = false;
            self.streams.clear();
            self.variables.lock().clear();
            crate::texture::objects::forget(self.ordinal);
            crate::memory::array::forget(self.ordinal);
            crate::memory::pool::clear(self.ordinal);
            crate::memory::share::forget(self.ordinal);
            self.heap.lock().clear(self.state);
            if let Some(ended) = CONTEXT_ENDED.get() {
                ended(self.ordinal);
            }
            self.state.uncharge(self.index, self.spec.context, true);
            self.error.store(0, Ordering::Relaxed);
        }
    }

    /// The heap, locked.
    pub fn heap(&self) -> MutexGuard<'_, Heap> {
        self.heap.lock()
    }

    /// The blocks of module variables, locked.
    pub fn variables(&self) -> MutexGuard<'_, HashMap<usize, usize>> {
        self.variables.lock()
    }

    /// Bytes free and in all.
    pub fn memory(&self) -> (u64, u64) {
        (
            self.spec.memory.saturating_sub(self.state.used(self.index)),
            self.spec.memory,
        )
    }

    /// The error that the context is stuck in: its own, or the process's.
    ///
    /// # Errors
    /// That one.
    pub fn check(&self) -> Result {
        self.check_own()?;
        fault::check()
    }

    /// The error that the device itself is stuck in.
    ///
    /// # Errors
    /// That one.
    pub fn check_own(&self) -> Result {
        if let Err(error) = crate::fail::check(self.index) {
            self.fail(error);
        }
        match self.error.load(Ordering::Relaxed) {
            0 => Ok(()),
            code => Err(Error(code)),
        }
    }

    /// Sticks in `error`, unless it is stuck in another: every later call returns it until the
    /// context ends. After a fault of a kernel the process is stuck.
    pub fn fail(&self, error: Error) {
        if error.is_of_process() {
            fault::note(error);
            return;
        }
        let _ = self
            .error
            .compare_exchange(0, error.0, Ordering::Relaxed, Ordering::Relaxed);
    }
}
