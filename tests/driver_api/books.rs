//! Two accounts of what this process has on each GPU: the software GPU's own books, and what mgbd has charged.

use std::collections::BTreeMap;
use std::ffi::{c_char, c_int, c_uint, c_void};
use std::path::Path;

use mgb_probe::Client;
use mgb_tests::prefix::softgpu_libraries;

use crate::driver::{functions, load};

/// `nvmlProcessInfo_t`.
#[derive(Clone, Copy, Default)]
#[repr(C)]
pub struct ProcessInfo {
    pid: c_uint,
    used: u64,
    instances: [c_uint; 2],
}

functions! { Nvml:
    nvmlInit_v2();
    nvmlDeviceGetCount_v2(count: *mut c_uint);
    nvmlDeviceGetHandleByIndex_v2(index: c_uint, device: *mut usize);
    nvmlDeviceGetUUID(device: usize, to: *mut c_char, bytes: c_uint);
    nvmlDeviceGetComputeRunningProcesses_v3(device: usize, count: *mut c_uint, to: *mut ProcessInfo);
}

/// Bytes by the GPU's UUID.
pub type BytesByGpu = BTreeMap<String, u64>;

/// The accounts of NVML and of the model.
pub struct Books {
    nvml: Nvml,
    gpus: Vec<(String, usize)>,
    /// Natively nobody charges anything.
    mgbd: Option<Client>,
    /// What a context takes by itself.
    context: u64,
}

impl Books {
    /// Opens them; `context`: what the software GPU's contexts take.
    ///
    /// # Panics
    /// Where they cannot be read.
    pub fn open(context: u64) -> Books {
        // The same library as the driver's, and so the same account of this process.
        let file = softgpu_libraries().join("libnvidia-ml.so.1");
        let nvml = Nvml::of(load(file.to_str().expect("a path in UTF-8")));
        assert_eq!(nvml.nvmlInit_v2(), 0);
        let mut count = 0;
        assert_eq!(nvml.nvmlDeviceGetCount_v2(&mut count), 0);
        let gpus = (0..count).map(|index| {
            let (mut device, mut name) = (0, [0 as c_char; 96]);
            let code: [c_int; 2] = [
                nvml.nvmlDeviceGetHandleByIndex_v2(index, &mut device),
                nvml.nvmlDeviceGetUUID(device, name.as_mut_ptr(), name.len() as c_uint),
            ];
            assert_eq!(code, [0, 0]);
            let text: Vec<u8> = name
                .iter()
                .take_while(|byte| **byte != 0)
                .map(|byte| *byte as u8)
                .collect();
            (String::from_utf8(text).expect("a UUID is text"), device)
        });
        let gpus = gpus.collect();
        Books {
            nvml,
            gpus,
            mgbd: mgbd(),
            context,
        }
    }

    /// Whether there is an mgbd that charges.
    pub fn are_two(&self) -> bool {
        self.mgbd.is_some()
    }

    /// What the software GPU says that this process has, without its contexts. A GPU where it has none is left out.
    pub fn held(&self) -> BytesByGpu {
        let own = |(name, device): &(String, usize)| {
            let mut all = [ProcessInfo::default(); 64];
            let mut count = all.len() as c_uint;
            let code =
                self.nvml
                    .nvmlDeviceGetComputeRunningProcesses_v3(*device, &mut count, all.as_mut_ptr());
            assert_eq!(code, 0, "the software GPU's processes");
            let own = all[..count as usize]
                .iter()
                .find(|info| info.pid == std::process::id())?;
            Some((name.clone(), own.used.saturating_sub(self.context)))
        };
        self.gpus.iter().filter_map(own).collect()
    }

    /// What mgbd knows of this process, for people.
    pub fn described(&self) -> String {
        let view = self
            .mgbd
            .as_ref()
            .and_then(|client| client.status().ok())
            .unwrap_or_default();
        let tasks: Vec<_> = view
            .tasks
            .into_iter()
            .filter(|task| task.pid == std::process::id())
            .collect();
        format!("{tasks:?}")
    }

    /// What mgbd has charged this process. `asks`: not as it was last shown, but as it is.
    pub fn charged(&self, asks: bool) -> BytesByGpu {
        let Some(client) = &self.mgbd else {
            return BytesByGpu::new();
        };
        if asks {
            drop(mgbd());
        }
        let view = client.status().expect("mgbd shows the node");
        let name = |gpu: u32| {
            let there = view.gpus.iter().find(|view| view.gpu.index == gpu);
            there.map(|view| view.gpu.uuid.clone()).unwrap_or_default()
        };
        let mut all = BytesByGpu::new();
        for task in view.tasks.iter().filter(|task| task.pid == std::process::id()) {
            *all.entry(name(task.gpu)).or_default() += task.reserved_bytes;
        }
        all
    }
}

/// A connection that only looks, where there is an mgbd and MGB is not off.
fn mgbd() -> Option<Client> {
    let off = std::env::var("MGB").is_ok_and(|mode| mode == "off");
    let socket = std::env::var_os("MGB_SOCKET").filter(|_| !off)?;
    Some(Client::observe(Path::new(&socket)).expect("mgbd is there"))
}
