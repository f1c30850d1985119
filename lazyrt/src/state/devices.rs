//! The program's devices. Each has a lazy task of its own, and perhaps a GPU that its handles tie it to: a
//! program that spreads its work over devices gets tasks that are spread over GPUs.
//!
//! A device variable has one value per device, and one address on a GPU. So the lazy tasks of two devices
//! never share a GPU, as the devices themselves do not. Static tasks that touch variables are marked, and
//! run where the device's variables have their values.

use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};

use mgb_probe::wire::MAX_GPUS;

use super::extent::Key;
use super::store::{ProcessState, lock};
use crate::launch_view::{Device, LaunchView};
use crate::task::Task;
use crate::thread;
use crate::thread::current_device as current;

/// What launches see of each device's lazy task.
static LAZY: [AtomicPtr<LaunchView>; MAX_GPUS] = [const { AtomicPtr::new(std::ptr::null_mut()) }; MAX_GPUS];

/// Whether the program has chosen a device other than its first, ever.
static SEVERAL: AtomicBool = AtomicBool::new(false);

/// The program chooses a device.
pub fn note_choice(ordinal: i32) {
    if ordinal != 0 {
        SEVERAL.store(true, Ordering::Release);
    }
}

/// Whether the program may use several devices.
pub fn may_be_several() -> bool {
    SEVERAL.load(Ordering::Acquire)
}

/// What launches see of the current device's lazy task, if there is one.
#[inline]
pub fn lazy_shared() -> Option<&'static LaunchView> {
    lazy_shared_of(current())
}

/// What launches see of a device's lazy task, if there is one.
#[inline]
pub fn lazy_shared_of(device: Device) -> Option<&'static LaunchView> {
    let lazy = LAZY.get(device)?.load(Ordering::Acquire);
    // SAFETY: null, or a leaked Shared.
    unsafe { lazy.as_ref() }
}

/// The program's devices that are tied to a GPU, one bit each; read without the lock.
static ANCHORED: AtomicU64 = AtomicU64::new(0);

/// Ties a device of the program to the GPU of its lazy task.
pub fn tie(device: Device, gpu: u32) {
    lock().tie(device, gpu);
    ANCHORED.fetch_or(1 << device, Ordering::Release);
}

/// Whether the device's handles leave a task on this GPU where it is.
pub fn lets_be_on(gpu: u32) -> bool {
    let device = current();
    !is_tied(device) || lock().anchor(device) == Some(gpu)
}

/// Whether handles of the runtime tie any device of the program to a GPU.
pub fn is_anchored() -> bool {
    ANCHORED.load(Ordering::Acquire) != 0
}

/// Whether handles of the runtime tie this device to a GPU.
pub fn is_tied(device: Device) -> bool {
    ANCHORED.load(Ordering::Acquire) & (1 << device) != 0
}

/// The device's handles are gone.
pub fn let_go(state: &mut ProcessState, device: Device) {
    state.untie(device);
    ANCHORED.fetch_and(!(1 << device), Ordering::Release);
}

impl ProcessState {
    /// The lazy task of the current device.
    pub fn lazy_task(&mut self) -> Key {
        self.lazy_task_of(current())
    }

    /// The lazy task of a device.
    pub fn lazy_task_of(&mut self, device: Device) -> Key {
        if let Some(key) = self.devices.0[device].lazy {
            return key;
        }
        let key = self.new_task(None, None, true);
        if let Some(task) = self.tasks.get_mut(&key) {
            task.device = device;
            LAZY[device].store(std::ptr::from_ref(task.shared).cast_mut(), Ordering::Release);
        }
        self.devices.0[device].lazy = Some(key);
        key
    }

    fn lazy(&self, device: Device) -> Option<&Task> {
        self.tasks.get(&self.devices.0[device].lazy?)
    }

    /// The GPU of a device's lazy task, if it is bound and has objects.
    pub fn lazy_gpu(&self, device: Device) -> Option<u32> {
        let task = self.lazy(device)?;
        (!task.extents.is_empty() && task.id.is_some()).then_some(task.gpu?)
    }

    /// Whether this is a lazy task.
    pub fn is_lazy(&self, key: Key) -> bool {
        self.tasks
            .get(&key)
            .is_some_and(|task| self.devices.0[task.device].lazy == Some(key))
    }

    /// Forgets a device's lazy task: the next op makes a new one.
    pub fn drop_lazy(&mut self, device: Device) {
        LAZY[device].store(std::ptr::null_mut(), Ordering::Release);
        self.devices.0[device].lazy = None;
    }

    /// The GPU that handles of the runtime tie a device to.
    pub fn anchor(&self, device: Device) -> Option<u32> {
        self.devices.0[device].anchor
    }

    /// Handles of the runtime tie the device to the GPU, unless others did so before.
    pub fn tie(&mut self, device: Device, gpu: u32) {
        self.devices.0[device].anchor.get_or_insert(gpu);
    }

    /// The device is reset: its handles are gone, and its variables have their first values everywhere.
    pub fn untie(&mut self, device: Device) {
        self.devices.0[device].anchor = None;
        self.devices.0[device].variables = None;
    }

    /// The GPU on which the device's variables have their values: what touches them has run there, or may
    /// have.
    pub fn variables_gpu(&self, device: Device) -> Option<u32> {
        let known = self.devices.0[device];
        // It is not known what the lazy task touches.
        known
            .variables
            .or_else(|| self.lazy(device).and_then(|task| task.gpu))
    }

    /// This thread begins to choose the GPU of a device; false while another thread chooses for any device,
    /// since no two devices may choose the same one.
    pub fn choose(&mut self, device: Device) -> bool {
        let free = !self.is_choosing() && !self.lazy_is_choosing(device);
        if free {
            self.devices.0[device].choosing = Some(thread::with(|thread| thread.number()));
        }
        free
    }

    /// This thread's choice for the device is made, or failed. False: it was choosing nothing.
    pub fn chose(&mut self, device: Device) -> bool {
        let own = thread::with(|thread| thread.number());
        let choosing = &mut self.devices.0[device].choosing;
        choosing.take_if(|thread| *thread == own).is_some()
    }

    /// The device's variables have their values on this GPU, unless they had them on another before.
    pub fn put_variables(&mut self, device: Device, gpu: u32) {
        self.devices.0[device].variables.get_or_insert(gpu);
    }

    /// Whether some thread is asking for the GPU of a device.
    pub fn is_choosing(&self) -> bool {
        self.devices.0.iter().any(|known| known.choosing.is_some())
    }

    fn lazy_is_choosing(&self, device: Device) -> bool {
        let own = self.lazy(device);
        own.is_some_and(|task| task.busy && task.gpu.is_none()) || self.others_are_choosing(device)
    }

    /// Whether the device's lazy task has recorded operations that are still to be replayed.
    pub fn has_lazy_records(&self, device: Device) -> bool {
        self.lazy(device).is_some_and(|task| !task.records.is_empty())
    }

    /// The GPUs of other devices' tasks, variables and handles, one bit each.
    pub fn gpus_of_others(&self, device: Device) -> u64 {
        let others = (0..MAX_GPUS).filter(|&other| other != device);
        // What has run somewhere stays there, bound or not.
        let kept = others.flat_map(|other| [self.anchor(other), self.variables_gpu(other)]);
        let tasks = self.tasks.values().filter(|task| task.device != device);
        let bound = tasks.map(Task::occupied);
        let bit = |gpu: u32| 1u64.checked_shl(gpu).unwrap_or(0);
        kept.chain(bound).flatten().fold(0, |mask, gpu| mask | bit(gpu))
    }

    /// The GPU of a device of which several are used, or whose handles are the runtime's own: all its tasks
    /// run there.
    pub fn home(&self, device: Device) -> Option<u32> {
        let anchored = self.anchor(device);
        anchored.or_else(|| self.variables_gpu(device)).or_else(|| {
            let mut own = self.tasks.values().filter(|task| task.device == device);
            own.find_map(Task::occupied)
        })
    }

    /// Whether some thread is asking for the GPU of another device's lazy task.
    pub fn others_are_choosing(&self, device: Device) -> bool {
        let mut others = (0..MAX_GPUS).filter(|&other| other != device);
        others.any(|other| {
            self.lazy(other)
                .is_some_and(|task| task.busy && task.gpu.is_none())
        })
    }

    /// A GPU that a running task of the device is bound to.
    pub fn bound_gpu(&self, device: Device) -> Option<u32> {
        let running = self
            .tasks
            .values()
            .filter(|task| task.device == device && !task.ended && task.id.is_some());
        running.filter_map(|task| task.gpu).next_back()
    }

    /// The device whose lazy task is on the GPU, or is tied to it.
    pub fn device_on(&self, gpu: u32) -> Option<Device> {
        (0..MAX_GPUS).find(|&device| {
            self.anchor(device) == Some(gpu) || self.lazy(device).is_some_and(|task| task.gpu == Some(gpu))
        })
    }
}
