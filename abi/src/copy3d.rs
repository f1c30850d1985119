//! Copies of boxes between pitched memory and arrays.

use core::ffi::c_void;

use crate::location::MemLocation;

/// `cudaExtent`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct CudaExtent {
    pub width: usize,
    pub height: usize,
    pub depth: usize,
}

/// `cudaPitchedPtr`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct PitchedPtr {
    /// The address of the first byte.
    pub ptr: *mut c_void,
    /// Bytes from row to row.
    pub pitch: usize,
    /// Bytes of a row that are used.
    pub xsize: usize,
    /// Rows of a plane.
    pub ysize: usize,
}

impl PitchedPtr {
    /// A pointer to no memory.
    pub const NULL: PitchedPtr = PitchedPtr {
        ptr: core::ptr::null_mut(),
        pitch: 0,
        xsize: 0,
        ysize: 0,
    };
}

/// `cudaPos`: an offset into an object, in elements of an array or in bytes, rows and planes of pitched
/// memory.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
#[allow(missing_docs)]
pub struct Pos {
    pub x: usize,
    pub y: usize,
    pub z: usize,
}

/// One side of a copy, three members of [`Memcpy3DParms`]: an array or pitched memory, never both.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CopySide {
    /// `srcArray` or `dstArray`: `cudaArray_t`.
    pub array: *mut c_void,
    /// `srcPos` or `dstPos`.
    pub pos: Pos,
    /// `srcPtr` or `dstPtr`.
    pub ptr: PitchedPtr,
}

impl CopySide {
    /// Pitched memory from its first byte.
    pub fn pitched(ptr: PitchedPtr) -> CopySide {
        CopySide {
            array: core::ptr::null_mut(),
            pos: Pos::default(),
            ptr,
        }
    }

    /// An array from a position.
    pub fn array(array: *mut c_void, pos: Pos) -> CopySide {
        CopySide {
            array,
            pos,
            ptr: PitchedPtr::NULL,
        }
    }
}

/// `cudaMemcpy3DParms`. The extent's width counts elements where an array takes part, else bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Memcpy3DParms {
    /// What is copied from.
    pub src: CopySide,
    /// What is copied to.
    pub dst: CopySide,
    /// How much is copied.
    pub extent: CudaExtent,
    /// `cudaMemcpyKind`.
    pub kind: u32,
}

/// `cudaMemcpy3DPeerParms`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Memcpy3DPeerParms {
    /// What is copied from.
    pub src: CopySide,
    /// Ordinal of its device.
    pub src_device: i32,
    /// What is copied to.
    pub dst: CopySide,
    /// Ordinal of its device.
    pub dst_device: i32,
    /// How much is copied.
    pub extent: CudaExtent,
}

/// `cudaMemcpy3DOperand`: a pointer or an array, by its `kind`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Memcpy3DOperand {
    /// `cudaMemcpy3DOperandType`.
    pub kind: u32,
    /// The address, or the array's handle.
    pub object: usize,
    /// Of a pointer the elements of a row, or zero for those of the extent; of an array `x` of the position.
    pub row_length: usize,
    /// Of a pointer the rows of a layer, or zero for those of the extent; of an array `y` of the position.
    pub layer_height: usize,
    /// Of a pointer where it may lie; of an array `z` of the position, as [`Memcpy3DOperand::z`] reads it.
    pub location_hint: MemLocation,
}

impl Memcpy3DOperand {
    /// Of an array the third number of the position, which shares its bytes with the hint.
    pub fn z(&self) -> usize {
        let MemLocation { kind, id } = self.location_hint;
        (u64::from(kind as u32) | u64::from(id as u32) << 32) as usize
    }
}

/// `cudaMemcpy3DBatchOp`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Memcpy3DBatchOp {
    /// What is copied from.
    pub src: Memcpy3DOperand,
    /// What is copied to.
    pub dst: Memcpy3DOperand,
    /// How much, in elements.
    pub extent: CudaExtent,
    /// `cudaMemcpySrcAccessOrder`.
    pub src_access_order: u32,
    /// `cudaMemcpyFlags`: a hint.
    pub flags: u32,
}

/// One side of a `CUDA_MEMCPY2D`, seven of its members.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct DriverSide2D {
    /// `srcXInBytes` or `dstXInBytes`.
    pub x_in_bytes: usize,
    /// Rows into the memory.
    pub y: usize,
    /// `CUmemorytype`: which of the next three counts.
    pub memory_type: u32,
    /// Of the host.
    pub host: *mut c_void,
    /// Of a device, or of either.
    pub device: usize,
    /// `CUarray`.
    pub array: usize,
    /// Bytes from row to row; of no meaning for an array.
    pub pitch: usize,
}

/// `CUDA_MEMCPY2D`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct DriverCopy2D {
    /// What is copied from.
    pub src: DriverSide2D,
    /// What is copied to.
    pub dst: DriverSide2D,
    /// Bytes of a row.
    pub width_in_bytes: usize,
    /// Rows that are copied.
    pub height: usize,
}

/// One side of a `CUDA_MEMCPY3D` or of a `CUDA_MEMCPY3D_PEER`, eleven of its members.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct DriverSide3D {
    /// `srcXInBytes` or `dstXInBytes`.
    pub x_in_bytes: usize,
    /// Rows into a plane.
    pub y: usize,
    /// Planes into the memory.
    pub z: usize,
    /// `srcLOD` or `dstLOD`: zero.
    pub lod: usize,
    /// `CUmemorytype`: which of the next three counts.
    pub memory_type: u32,
    /// Of the host.
    pub host: *mut c_void,
    /// Of a device, or of either.
    pub device: usize,
    /// `CUarray`.
    pub array: usize,
    /// `CUcontext` where the structure is that of peers, else null.
    pub context: usize,
    /// Bytes from row to row; of no meaning for an array.
    pub pitch: usize,
    /// Rows from plane to plane; of no meaning for an array.
    pub height: usize,
}

/// `CUDA_MEMCPY3D`, and `CUDA_MEMCPY3D_PEER`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct DriverCopy3D {
    /// What is copied from.
    pub src: DriverSide3D,
    /// What is copied to.
    pub dst: DriverSide3D,
    /// Bytes of a row.
    pub width_in_bytes: usize,
    /// Rows of a plane.
    pub height: usize,
    /// Planes that are copied.
    pub depth: usize,
}

/// `CU_MEMORYTYPE_HOST`,
pub const MEMORYTYPE_HOST: u32 = 1;
/// `CU_MEMORYTYPE_DEVICE`,
pub const MEMORYTYPE_DEVICE: u32 = 2;
/// `CU_MEMORYTYPE_ARRAY`,
pub const MEMORYTYPE_ARRAY: u32 = 3;
/// `CU_MEMORYTYPE_UNIFIED`: whatever the address says.
pub const MEMORYTYPE_UNIFIED: u32 = 4;

/// `cudaMemcpyOperandTypePointer`.
pub const OPERAND_POINTER: u32 = 1;
/// `cudaMemcpyOperandTypeArray`.
pub const OPERAND_ARRAY: u32 = 2;

const _: () = {
    use core::mem::offset_of;
    assert!(size_of::<Memcpy3DParms>() == 160 && offset_of!(Memcpy3DParms, extent) == 128);
    assert!(size_of::<Memcpy3DPeerParms>() == 168 && offset_of!(Memcpy3DPeerParms, dst) == 72);
    assert!(size_of::<Memcpy3DOperand>() == 40);
    assert!(size_of::<Memcpy3DBatchOp>() == 112);
    assert!(size_of::<DriverCopy2D>() == 128 && offset_of!(DriverCopy2D, dst) == 56);
    assert!(size_of::<DriverCopy3D>() == 200 && offset_of!(DriverCopy3D, dst) == 88);
};
