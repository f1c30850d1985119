//! The driver functions that lazyrt uses, found in libcuda at run time.
//!
//! cudarc gives the types. Its own loader panics where the library or a function is missing and looks for
//! `libcuda.so` first, which need not be the library that the program's runtime uses; so the functions are
//! looked up here, and what is missing is named.

use std::ffi::{CStr, c_int, c_uint, c_void};

use cudarc::driver::sys::{
    CUmemAccess_flags, CUmemAllocationType, CUmemGenericAllocationHandle, CUmemLocation, CUmemLocationType,
};
pub use cudarc::driver::sys::{CUmemAccessDesc, CUmemAllocationProp, CUresult, CUuuid};
use mgb_core::backoff::Patience;
use mgb_core::transfer::Calls;

use crate::notice;

/// A device address of the driver.
pub type Address = u64;

macro_rules! driver {
    ($($field:ident = $symbol:literal: fn($($ty:ty),*);)*) => {
        /// The functions.
        pub struct Driver {
            $($field: unsafe extern "C" fn($($ty),*) -> CUresult,)*
            /// What copies for a swap take.
            pub copies: Calls,
        }

        impl Driver {
            /// # Safety
            /// `library` is a handle of `dlopen` for a CUDA driver library.
            unsafe fn find(library: *mut c_void) -> Result<Driver, String> {
                Ok(Driver { $($field: {
                    // SAFETY: the name is a C string, the handle is the caller's.
                    let found = unsafe { libc::dlsym(library, concat!($symbol, "\0").as_ptr().cast()) };
                    if found.is_null() {
                        return Err(lacks($symbol));
                    }
                    // SAFETY: the type is that of the driver's header.
                    unsafe { std::mem::transmute::<*mut c_void, unsafe extern "C" fn($($ty),*) -> CUresult>(found) }
                },)*
                // SAFETY: functions of the driver, or null.
                copies: unsafe { Calls::find(|name| libc::dlsym(library, name.as_ptr()).cast_const()) }
                    .map_err(|name| lacks(&name.to_string_lossy()))?,
                })
            }
        }
    };
}

driver! {
    init = "cuInit": fn(c_uint);
    device_count = "cuDeviceGetCount": fn(*mut c_int);
    device_memory = "cuDeviceTotalMem_v2": fn(*mut usize, c_int);
    device_uuid = "cuDeviceGetUuid_v2": fn(*mut CUuuid, c_int);
    unreserve = "cuMemAddressFree": fn(Address, usize);
    reserve = "cuMemAddressReserve": fn(*mut Address, usize, usize, Address, u64);
    create = "cuMemCreate": fn(*mut CUmemGenericAllocationHandle, usize, *const CUmemAllocationProp, u64);
    release = "cuMemRelease": fn(CUmemGenericAllocationHandle);
    map = "cuMemMap": fn(Address, usize, usize, CUmemGenericAllocationHandle, u64);
    unmap = "cuMemUnmap": fn(Address, usize);
    set_access = "cuMemSetAccess": fn(Address, usize, *const CUmemAccessDesc, usize);
    context_device = "cuCtxGetDevice": fn(*mut c_int);
    pointer_attribute = "cuPointerGetAttribute": fn(*mut c_void, c_int, Address);
}

fn lacks(symbol: &str) -> String {
    format!("libcuda.so.1 has no {symbol}, which MGB needs; use a driver for CUDA 13")
}

/// `CU_POINTER_ATTRIBUTE_MEMORY_TYPE`.
const MEMORY_TYPE: c_int = 2;
/// `CU_MEMORYTYPE_HOST`.
const MEMORY_TYPE_HOST: c_uint = 1;

/// A failed call of the driver: the function and the driver's error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The call.
    pub what: &'static str,
    /// Its result.
    pub result: CUresult,
}

impl Failure {
    /// Whether the process is on its way out and the driver is shut down: all memory is gone.
    pub fn is_shut_down(&self) -> bool {
        self.result == CUresult::CUDA_ERROR_DEINITIALIZED
    }

    /// Whether the GPU has no memory left.
    pub fn is_out_of_memory(&self) -> bool {
        self.result == CUresult::CUDA_ERROR_OUT_OF_MEMORY
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} failed: {:?}", self.what, self.result)
    }
}

fn check(what: &'static str, result: CUresult) -> Result<(), Failure> {
    if result == CUresult::CUDA_SUCCESS {
        Ok(())
    } else {
        Err(Failure { what, result })
    }
}

/// Loads the driver and initialises it. The error says what is missing.
pub fn initialise() -> Result<Driver, String> {
    // SAFETY: a C string; loading the driver runs only its own constructors.
    let library = unsafe { libc::dlopen(c"libcuda.so.1".as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    if library.is_null() {
        // SAFETY: dlerror returns null or a C string that holds until the thread's next dl call.
        let why = unsafe {
            let text = libc::dlerror();
            if text.is_null() {
                String::new()
            } else {
                CStr::from_ptr(text).to_string_lossy().into_owned()
            }
        };
        return Err(format!(
            "failed to load the CUDA driver: {why}; install NVIDIA's driver, or start the program with `mgb run`, \
             which puts the software GPU in its place"
        ));
    }
    // SAFETY: the handle was just opened and is never closed.
    let driver = unsafe { Driver::find(library)? };
    let mut patience = Patience::begin();
    let result = loop {
        // SAFETY: the driver's own initialisation.
        let result = unsafe { (driver.init)(0) };
        if result == CUresult::CUDA_SUCCESS || !patience.again(result as u32, notice::unavailable) {
            break result;
        }
    };
    if result != CUresult::CUDA_SUCCESS {
        return Err(format!(
            "cuInit failed: {result:?}; is there a GPU that this process may use?"
        ));
    }
    Ok(driver)
}

impl Driver {
    /// Whether this thread's current context is one of that device.
    pub fn has_context(&self, ordinal: i32) -> bool {
        let mut device = -1;
        // SAFETY: writes one device, which is its ordinal.
        let result = unsafe { (self.context_device)(&mut device) };
        result == CUresult::CUDA_SUCCESS && device == ordinal
    }

    /// Bytes of a device's memory, as the driver counts it.
    pub fn total_bytes(&self, ordinal: i32) -> Result<u64, Failure> {
        let mut bytes = 0;
        // SAFETY: writes one word. Devices and ordinals are the same numbers.
        check("cuDeviceTotalMem", unsafe {
            (self.device_memory)(&mut bytes, ordinal)
        })?;
        Ok(bytes as u64)
    }

    /// Whether the address is host memory: pinned, or unknown to the driver. Managed memory is not.
    pub fn is_host(&self, address: Address) -> bool {
        let mut kind: c_uint = 0;
        // SAFETY: the attribute is one word; the driver does not read the memory at `address`.
        let result = unsafe { (self.pointer_attribute)((&raw mut kind).cast(), MEMORY_TYPE, address) };
        result != CUresult::CUDA_SUCCESS || kind == MEMORY_TYPE_HOST
    }

    /// The UUIDs of the GPUs that this process sees, by ordinal, as `GPU-...`.
    pub fn uuids(&self) -> Result<Vec<String>, Failure> {
        let mut count = 0;
        // SAFETY: writes one int.
        check("cuDeviceGetCount", unsafe { (self.device_count)(&mut count) })?;
        (0..count)
            .map(|ordinal| {
                let mut uuid = CUuuid { bytes: [0; 16] };
                // SAFETY: writes 16 bytes. Devices and ordinals are the same numbers.
                check("cuDeviceGetUuid", unsafe {
                    (self.device_uuid)(&mut uuid, ordinal)
                })?;
                Ok(uuid_text(uuid.bytes.map(|byte| byte as u8)))
            })
            .collect()
    }

    /// Reserves addresses, at `hint` if that is not 0.
    pub fn reserve(&self, bytes: u64, hint: Address) -> Result<Address, Failure> {
        let mut address = 0;
        // SAFETY: writes one address.
        check("cuMemAddressReserve", unsafe {
            (self.reserve)(&mut address, bytes as usize, 0, hint, 0)
        })?;
        Ok(address)
    }

    /// Puts new memory of the device behind a range of reserved addresses, and lets the device use it.
    pub fn back(&self, address: Address, bytes: u64, ordinal: i32) -> Result<Memory, Failure> {
        // SAFETY: zero is a value of every field: no exported handles, no flags, null.
        let mut property: CUmemAllocationProp = unsafe { std::mem::zeroed() };
        property.type_ = CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED;
        property.location = location(ordinal);
        let mut handle = 0;
        // SAFETY: writes one handle, reads one property.
        check("cuMemCreate", unsafe {
            (self.create)(&mut handle, bytes as usize, &property, 0)
        })?;
        let memory = Memory { handle };
        if let Err(failure) = self.place(address, bytes, &memory, ordinal) {
            // SAFETY: made above, mapped nowhere.
            unsafe { (self.release)(handle) };
            return Err(failure);
        }
        Ok(memory)
    }

    /// Lets a device use a range that is backed as one.
    pub fn lend(&self, address: Address, bytes: u64, ordinal: i32) -> Result<(), Failure> {
        let access = CUmemAccessDesc {
            location: location(ordinal),
            flags: CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
        };
        // SAFETY: the range is mapped; reads one description.
        check("cuMemSetAccess", unsafe {
            (self.set_access)(address, bytes as usize, &access, 1)
        })
    }

    /// Gives reserved addresses back, behind which there is nothing.
    pub fn give_up(&self, address: Address, bytes: u64) {
        // SAFETY: reserved by `reserve`, as one, and used by nobody.
        unsafe { (self.unreserve)(address, bytes as usize) };
    }

    /// Puts memory that is behind the second address, `after`, behind the first in the place of `before`,
    /// which is freed; the devices are those of the old memory and of the new, which may use it. What is
    /// behind the first address then; after an error that is what was there before, and `after` is freed.
    pub fn exchange(
        &self,
        (address, there): (Address, Address),
        bytes: u64,
        before: Memory,
        after: Memory,
        (old, new): (i32, i32),
    ) -> Result<Memory, (Failure, Memory)> {
        // SAFETY: both ranges are mapped as one each, and used by nobody.
        let gone = check("cuMemUnmap", unsafe { (self.unmap)(address, bytes as usize) });
        if let Err(failure) = gone {
            let _ = self.release(there, bytes, after);
            return Err((failure, before));
        }
        let placed = self.place(address, bytes, &after, new);
        // SAFETY: as above. If the memory stays behind those addresses as well, they are lost, and nothing
        // else.
        let _ = check("cuMemUnmap", unsafe { (self.unmap)(there, bytes as usize) });
        match placed {
            Ok(()) => {
                // SAFETY: made by `back`; mapped nowhere.
                unsafe { (self.release)(before.handle) };
                Ok(after)
            }
            Err(failure) => {
                // SAFETY: made by `back`; freed once nothing maps it.
                unsafe { (self.release)(after.handle) };
                let _ = self.place(address, bytes, &before, old);
                Err((failure, before))
            }
        }
    }

    /// Puts memory behind addresses where there is none, and lets the device use it.
    fn place(&self, address: Address, bytes: u64, memory: &Memory, ordinal: i32) -> Result<(), Failure> {
        // SAFETY: the range is reserved and unmapped, the memory as long as it.
        check("cuMemMap", unsafe {
            (self.map)(address, bytes as usize, 0, memory.handle, 0)
        })?;
        let lent = self.lend(address, bytes, ordinal);
        if lent.is_err() {
            // SAFETY: mapped above.
            unsafe { (self.unmap)(address, bytes as usize) };
        }
        lent
    }

    /// Takes the memory from behind the addresses, and frees it.
    pub fn release(&self, address: Address, bytes: u64, memory: Memory) -> Result<(), Failure> {
        // SAFETY: the range was mapped by `back`, which made `memory`.
        let unmapped = check("cuMemUnmap", unsafe { (self.unmap)(address, bytes as usize) });
        // SAFETY: made by `back`; consumed here.
        let released = check("cuMemRelease", unsafe { (self.release)(memory.handle) });
        unmapped.and(released)
    }
}

/// Physical memory behind a range of addresses. Only [`Driver::release`] frees it.
#[derive(Debug)]
#[must_use]
pub struct Memory {
    handle: CUmemGenericAllocationHandle,
}

fn location(ordinal: i32) -> CUmemLocation {
    CUmemLocation {
        type_: CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE,
        id: ordinal,
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
