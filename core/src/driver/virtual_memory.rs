//! Addresses, physical memory, and one behind the other.

use std::ffi::c_int;

use mgb_abi::error::Code;
use mgb_abi::location::MemLocation;
use mgb_abi::pool::{ACCESS_READ_WRITE, ALLOCATION_PINNED, MemAccessDesc};
use mgb_abi::vmm::MemAllocationProp;

use super::table::{Driver, call, written};

/// CUDA's `CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR`: memory that other processes can have.
pub const POSIX_FILE: c_int = 1;

/// The byte `gpuDirectRDMACapable` of `CUmemAllocationProp`'s flags.
const RDMA_CAPABLE: usize = 1;

impl Driver {
    /// Reserves addresses, at the wanted ones if they are free.
    pub fn reserve(&self, bytes: u64, wanted: u64) -> Result<u64, Code> {
        let mut address = 0;
        let code = call!(self.cuMemAddressReserve(&mut address, bytes as usize, 0, wanted, 0,));
        written(address, code)
    }

    /// Gives reserved addresses back, where nothing is mapped.
    pub fn unreserve(&self, address: u64, bytes: u64) -> Code {
        call!(self.cuMemAddressFree(address, bytes as usize))
    }

    /// Physical memory of a device; `handle_types`: how other processes may get it; `for_cards`: network cards
    /// can reach it.
    pub fn create(&self, device: c_int, bytes: u64, handle_types: i32, for_cards: bool) -> Result<u64, Code> {
        let mut alloc_flags = [0; 8];
        alloc_flags[RDMA_CAPABLE] = u8::from(for_cards);
        let prop = MemAllocationProp {
            alloc_type: ALLOCATION_PINNED,
            handle_types,
            location: MemLocation::device(device),
            win32_handle_metadata: std::ptr::null_mut(),
            alloc_flags,
        };
        let mut handle = 0;
        let code = call!(self.cuMemCreate(&mut handle, bytes as usize, &prop, 0,));
        written(handle, code)
    }

    /// Physical memory with these properties.
    pub fn create_as(&self, prop: &MemAllocationProp, bytes: u64) -> Result<u64, Code> {
        let mut handle = 0;
        let code = call!(self.cuMemCreate(&mut handle, bytes as usize, prop, 0,));
        written(handle, code)
    }

    /// One more handle of what is mapped at the address.
    pub fn retain(&self, address: u64) -> Result<u64, Code> {
        let mut handle = 0;
        let code = call!(self.cuMemRetainAllocationHandle(&mut handle, address));
        written(handle, code)
    }

    /// A descriptor by which another process gets the memory, if it was made for that.
    pub fn export(&self, handle: u64) -> Result<c_int, Code> {
        let mut file = -1;
        let code = call!(self.cuMemExportToShareableHandle(&mut file, handle, POSIX_FILE, 0,));
        written(file, code)
    }

    /// Memory of another process, by its descriptor, which stays open.
    pub fn import(&self, file: c_int) -> Result<u64, Code> {
        let mut handle = 0;
        let code = call!(self.cuMemImportFromShareableHandle(&mut handle, file as usize, POSIX_FILE,));
        written(handle, code)
    }

    /// Gives a handle back: its memory is freed once it is mapped nowhere.
    pub fn release(&self, handle: u64) -> Code {
        call!(self.cuMemRelease(handle))
    }

    /// Maps memory at reserved addresses.
    pub fn map(&self, address: u64, bytes: u64, handle: u64) -> Code {
        call!(self.cuMemMap(address, bytes as usize, 0, handle, 0))
    }

    /// Maps memory from an offset on at reserved addresses.
    pub fn map_at(&self, address: u64, bytes: u64, offset: u64, handle: u64) -> Code {
        call!(self.cuMemMap(address, bytes as usize, offset as usize, handle, 0,))
    }

    /// Takes the memory from the addresses. No work may use it any more.
    pub fn unmap(&self, address: u64, bytes: u64) -> Code {
        call!(self.cuMemUnmap(address, bytes as usize))
    }

    /// Sets who may use mapped memory.
    pub fn set_access(&self, address: u64, bytes: u64, access: &[MemAccessDesc]) -> Code {
        call!(self.cuMemSetAccess(address, bytes as usize, access.as_ptr(), access.len(),))
    }

    /// Lets a device read and write mapped memory.
    pub fn allow(&self, address: u64, bytes: u64, device: c_int) -> Code {
        let access = MemAccessDesc {
            location: MemLocation::device(device),
            flags: ACCESS_READ_WRITE,
        };
        call!(self.cuMemSetAccess(address, bytes as usize, &access, 1,))
    }
}
