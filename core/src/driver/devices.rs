//! The driver itself, and the devices that it shows the process.

use std::ffi::{c_int, c_uint};

use mgb_abi::error::Code;

use super::table::{Driver, call, written};

/// `CU_POINTER_ATTRIBUTE_MEMORY_TYPE`.
const MEMORY_TYPE: c_int = 2;
/// `CU_MEMORYTYPE_HOST`.
const MEMORY_TYPE_HOST: c_uint = 1;

impl Driver {
    /// Initialises the driver.
    pub fn initialise(&self) -> Code {
        call!(self.cuInit(0))
    }

    /// Whether this thread's current context is one of that device.
    pub fn has_context(&self, ordinal: i32) -> bool {
        // A device is its ordinal.
        self.device() == Ok(ordinal)
    }

    /// A number that the driver knows of a device.
    pub fn device_attribute(&self, device: c_int, attribute: c_int) -> Option<c_int> {
        let mut value = 0;
        let code = call!(self.cuDeviceGetAttribute(&mut value, attribute, device));
        written(value, code).ok()
    }

    /// Bytes of a device's memory, as the driver counts it.
    ///
    /// # Errors
    /// The driver's.
    pub fn total_bytes(&self, ordinal: i32) -> Result<u64, Code> {
        let mut bytes = 0;
        let code = call!(self.cuDeviceTotalMem_v2(&mut bytes, ordinal));
        written(bytes as u64, code)
    }

    /// Whether the address is host memory: pinned, or unknown to the driver. Managed memory is not.
    pub fn is_host(&self, address: u64) -> bool {
        let mut kind: c_uint = 0;
        let code = call!(self.cuPointerGetAttribute((&raw mut kind).cast(), MEMORY_TYPE, address));
        !code.is_success() || kind == MEMORY_TYPE_HOST
    }

    /// The UUIDs of the GPUs that this process sees, by ordinal, as `GPU-...`.
    ///
    /// # Errors
    /// The driver's.
    pub fn uuids(&self) -> Result<Vec<String>, Code> {
        let mut count = 0;
        let code = call!(self.cuDeviceGetCount(&mut count));
        (0..written(count, code)?)
            .map(|ordinal| {
                let mut uuid = [0; 16];
                let code = call!(self.cuDeviceGetUuid_v2(&mut uuid, ordinal));
                written(uuid_text(uuid), code)
            })
            .collect()
    }
}

fn uuid_text(bytes: [u8; 16]) -> String {
    let mut text = "GPU-".to_owned();
    for (at, byte) in bytes.iter().enumerate() {
        if matches!(at, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        text.push_str(&format!("{byte:02x}"));
    }
    text
}

#[cfg(test)]
mod tests {
    #[test]
    fn uuids_read_as_nvml_writes_them() {
        let bytes = std::array::from_fn(|at| at as u8 * 17);
        assert_eq!(
            super::uuid_text(bytes),
            "GPU-00112233-4455-6677-8899-aabbccddeeff"
        );
    }
}
