//! GPUs' health by NVML: its events, remapped rows and counts of ECC errors.
//!
//! On an H100 (measured) events need no privilege, a kernel's bad address comes as Xid 31, and while a thread
//! waits for events others ask for memory as fast as before: 5 µs in the median, 91 µs at most of 30,000.

use std::time::Instant;

use nvml_wrapper::bitmasks::event::EventTypes;
use nvml_wrapper::enum_wrappers::device::{EccCounter, MemoryError};
use nvml_wrapper::enums::event::XidError;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::struct_wrappers::event::EventData;
use nvml_wrapper::{Device, EventSet, Nvml};

use super::health::{ASK_INTERVAL, Ailment, HealthSource, News, States};

/// NVML's code for success.
const SUCCESS: u32 = 0;
/// NVML's code for what this GPU does not have.
const NOT_SUPPORTED: u32 = 3;

/// The GPUs in the node's order, and their events.
pub(super) struct NvmlHealth {
    nvml: &'static Nvml,
    devices: Vec<Device<'static>>,
    events: Option<EventSet<'static>>,
    /// Whether the events of each GPU are in the set.
    registered: Vec<EventRegistration>,
    /// The log has it that there are no events, or that the driver fails to wait for them.
    told: bool,
    /// When the driver last failed to wait for an event.
    failed: Option<Instant>,
    /// What was said last, by GPU.
    said: Vec<Option<States>>,
    asked: Option<Instant>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EventRegistration {
    /// Not yet, or not while the driver cannot reach it.
    Not,
    Yes,
    /// The driver has no events of this GPU.
    Never,
}

impl NvmlHealth {
    /// Asks the driver nothing: whoever waits for [`HealthSource::next`] does.
    pub(super) fn new(nvml: &'static Nvml, devices: &[Device<'static>]) -> NvmlHealth {
        let again = |device: &Device<'static>| {
            // SAFETY: a handle of `nvml`, which stays loaded until the process ends.
            unsafe { Device::new(device.handle(), nvml) }
        };
        NvmlHealth {
            nvml,
            devices: devices.iter().map(again).collect(),
            events: None,
            registered: vec![EventRegistration::Not; devices.len()],
            told: false,
            failed: None,
            said: vec![None; devices.len()],
            asked: None,
        }
    }

    /// Has the set have the events of all GPUs that have any and that the driver reaches.
    fn register(&mut self) {
        if self.events.is_none() {
            match self.nvml.create_event_set() {
                Ok(set) => self.events = Some(set),
                Err(error) => {
                    return self.tell(&error, "the driver has no events: no GPU is drained for an Xid");
                }
            }
        }
        for gpu in 0..self.devices.len() {
            if self.registered[gpu] == EventRegistration::Not {
                self.registered[gpu] = self.register_one(gpu);
                if self.registered[gpu] == EventRegistration::Never {
                    tracing::info!(
                        gpu,
                        "the driver has no events of this GPU: it is not drained for an Xid"
                    );
                }
            }
        }
    }

    fn register_one(&self, gpu: usize) -> EventRegistration {
        let wanted = EventTypes::CRITICAL_XID_ERROR | EventTypes::DOUBLE_BIT_ECC_ERROR;
        let types = match self.devices[gpu].supported_event_types() {
            Ok(types) if !(types & wanted).is_empty() => types & wanted,
            Ok(_) | Err(NvmlError::NotSupported) => return EventRegistration::Never,
            Err(_) => return EventRegistration::Not,
        };
        let (Some(set), Ok(register)) = (&self.events, &self.nvml.lib().nvmlDeviceRegisterEvents) else {
            return EventRegistration::Never;
        };
        // SAFETY: handles of this library, which both live on. `Device::register_events` would free the set
        // where one GPU is refused.
        match unsafe { register(self.devices[gpu].handle(), types.bits(), set.handle()) } {
            SUCCESS => EventRegistration::Yes,
            NOT_SUPPORTED => EventRegistration::Never,
            _ => EventRegistration::Not,
        }
    }

    /// One line of the log, until the driver gives an event.
    fn tell(&mut self, error: &NvmlError, what: &str) {
        if !std::mem::replace(&mut self.told, true) {
            tracing::warn!(%error, "{what}");
        }
    }

    /// Whether rows wait to be remapped, and whether that has failed.
    fn remapped_rows(&self, device: &Device<'_>) -> Option<(bool, bool)> {
        let ask = self.nvml.lib().nvmlDeviceGetRemappedRows.as_ref().ok()?;
        let (mut corrected, mut uncorrected, mut pending, mut failed) = (0, 0, 0, 0);
        // SAFETY: a handle of this library, and numbers to write.
        let code = unsafe {
            ask(
                device.handle(),
                &raw mut corrected,
                &raw mut uncorrected,
                &raw mut pending,
                &raw mut failed,
            )
        };
        (code == SUCCESS).then_some((pending != 0, failed != 0))
    }

    /// What the driver says; what it does not say stays as it was. `None`: it has never said anything.
    fn states(&self, gpu: usize) -> Option<States> {
        let (device, before) = (&self.devices[gpu], self.said[gpu]);
        let rows = self.remapped_rows(device);
        let count = device.total_ecc_errors(MemoryError::Uncorrected, EccCounter::Volatile);
        if rows.is_none() && count.is_err() {
            return before;
        }
        let mut states = before.unwrap_or_default();
        if let Some((pending, failed)) = rows {
            (states.rows_pending, states.rows_failed) = (pending, failed);
        }
        if let Ok(count) = count {
            states.uncorrectable = count;
        }
        Some(states)
    }

    /// States that are not as they were.
    fn changed_states(&mut self) -> Vec<(usize, News)> {
        let mut news = Vec::new();
        for gpu in 0..self.devices.len() {
            let states = self.states(gpu);
            if self.said[gpu] != states {
                self.said[gpu] = states;
                news.extend(states.map(|states| (gpu, News::States(states))));
            }
        }
        news
    }

    /// The next event, if one comes in time.
    fn event(&mut self) -> Option<(usize, News)> {
        let waited = match &self.events {
            Some(events) if self.registered.contains(&EventRegistration::Yes) => {
                events.wait(ASK_INTERVAL.as_millis() as u32)
            }
            _ => {
                std::thread::sleep(ASK_INTERVAL);
                return None;
            }
        };
        match waited {
            Ok(event) => {
                self.told = false;
                self.told_by(&event)
            }
            Err(NvmlError::Timeout) => None,
            Err(error) => {
                self.begin_again(&error);
                None
            }
        }
    }

    fn told_by(&self, event: &EventData<'_>) -> Option<(usize, News)> {
        // SAFETY: only compared.
        let is_its = |device: &Device<'_>| unsafe { device.handle() == event.device.handle() };
        let gpu = self.devices.iter().position(is_its)?;
        let ailment = if event.event_type.contains(EventTypes::DOUBLE_BIT_ECC_ERROR) {
            Ailment::DoubleBit
        } else {
            match event.event_data {
                Some(XidError::Value(number)) => Ailment::Xid(number),
                Some(XidError::Unknown) | None => return None,
            }
        };
        Some((gpu, News::Event(ailment)))
    }

    /// The driver does not wait for events, mostly since it has lost one of the set's GPUs. The others'
    /// events are to come on: another set has those of all that it reaches.
    fn begin_again(&mut self, error: &NvmlError) {
        if !matches!(error, NvmlError::GpuLost) {
            self.tell(error, "the driver fails to wait for events: it is asked again");
        }
        let fails_again = self.failed.is_some_and(|failed| failed.elapsed() < ASK_INTERVAL);
        if fails_again {
            std::thread::sleep(ASK_INTERVAL);
        }
        self.failed = Some(Instant::now());
        self.events = None;
        for registered in &mut self.registered {
            if *registered == EventRegistration::Yes {
                *registered = EventRegistration::Not;
            }
        }
        self.register();
    }
}

impl HealthSource for NvmlHealth {
    fn next(&mut self) -> Vec<(usize, News)> {
        if self.asked.is_none_or(|asked| asked.elapsed() >= ASK_INTERVAL) {
            self.register();
            let news = self.changed_states();
            self.asked = Some(Instant::now());
            if !news.is_empty() {
                return news;
            }
        }
        self.event().into_iter().collect()
    }
}
