//! Holds sizes, offsets and constants to CUDA's own headers: a C compiler checks what this crate says.

use std::fmt::Write;
use std::io::Write as _;
use std::mem::offset_of;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use mgb_abi::{array, copy, copy3d, device, error, graph, host, ipc, launch, location, managed};
use mgb_abi::{pointer, pool, properties, stream, vmm};

#[path = "headers/textures.rs"]
mod textures;

/// Static assertions in C.
#[derive(Default)]
struct Checks(String);

impl Checks {
    fn holds(&mut self, claim: &str) {
        writeln!(self.0, "_Static_assert({claim}, \"{claim}\");").unwrap();
    }

    fn equal(&mut self, c: &str, value: impl Into<i128>) {
        self.holds(&format!("(long long)({c}) == {}LL", value.into()));
    }

    fn size(&mut self, c: &str, bytes: usize) {
        self.equal(&format!("sizeof({c})"), bytes as u64);
    }

    fn offset(&mut self, c: &str, member: &str, bytes: usize) {
        self.equal(&format!("__builtin_offsetof({c}, {member})"), bytes as u64);
    }
}

/// Sizes of structures, and offsets of members whose order is easily mistaken.
fn structures(c: &mut Checks) {
    c.size("dim3", size_of::<launch::Dim3>());
    c.size("cudaLaunchConfig_t", size_of::<launch::LaunchConfig>());
    c.offset(
        "cudaLaunchConfig_t",
        "stream",
        offset_of!(launch::LaunchConfig, stream),
    );
    c.offset(
        "cudaLaunchConfig_t",
        "numAttrs",
        offset_of!(launch::LaunchConfig, count),
    );
    c.size("cudaLaunchAttribute", size_of::<launch::LaunchAttribute>());
    c.offset(
        "cudaLaunchAttribute",
        "val",
        offset_of!(launch::LaunchAttribute, value),
    );
    c.size("struct cudaFuncAttributes", size_of::<launch::FuncAttributes>());
    c.size("struct cudaMemLocation", size_of::<location::MemLocation>());
    c.size("struct cudaMemPoolProps", size_of::<pool::MemPoolProps>());
    c.offset(
        "struct cudaMemPoolProps",
        "maxSize",
        offset_of!(pool::MemPoolProps, max_size),
    );
    c.size("struct cudaMemAccessDesc", size_of::<pool::MemAccessDesc>());
    c.size("CUmemAllocationProp", size_of::<vmm::MemAllocationProp>());
    c.offset(
        "CUmemAllocationProp",
        "location",
        offset_of!(vmm::MemAllocationProp, location),
    );
    c.size("struct cudaMemcpyAttributes", size_of::<copy::MemcpyAttributes>());
    c.size("struct cudaMemcpy3DParms", size_of::<copy3d::Memcpy3DParms>());
    c.offset(
        "struct cudaMemcpy3DParms",
        "dstArray",
        offset_of!(copy3d::Memcpy3DParms, dst),
    );
    c.offset(
        "struct cudaMemcpy3DParms",
        "kind",
        offset_of!(copy3d::Memcpy3DParms, kind),
    );
    c.size(
        "struct cudaMemcpy3DPeerParms",
        size_of::<copy3d::Memcpy3DPeerParms>(),
    );
    c.offset(
        "struct cudaMemcpy3DPeerParms",
        "dstArray",
        offset_of!(copy3d::Memcpy3DPeerParms, dst),
    );
    c.size("struct cudaMemcpy3DOperand", size_of::<copy3d::Memcpy3DOperand>());
    c.size("struct cudaMemcpy3DBatchOp", size_of::<copy3d::Memcpy3DBatchOp>());
    c.size(
        "struct cudaPointerAttributes",
        size_of::<pointer::PointerAttributes>(),
    );
    c.size(
        "struct cudaChannelFormatDesc",
        size_of::<array::ChannelFormatDesc>(),
    );
    c.size(
        "struct cudaArrayMemoryRequirements",
        size_of::<array::ArrayMemoryRequirements>(),
    );
    structures_of_the_driver(c);
    textures::structures(c);
    c.size("struct cudaGraphNodeParams", size_of::<graph::GraphNodeParams>());
    c.offset(
        "struct cudaGraphNodeParams",
        "kernel",
        offset_of!(graph::GraphNodeParams, body),
    );
    c.size(
        "struct cudaKernelNodeParams",
        size_of::<graph::KernelNodeParams>(),
    );
    c.size("struct cudaMemsetParams", size_of::<graph::MemsetParams>());
    c.size("struct cudaHostNodeParams", size_of::<graph::HostNodeParams>());
    c.size(
        "struct cudaMemAllocNodeParams",
        size_of::<graph::MemAllocNodeParams>(),
    );
    c.offset(
        "struct cudaMemAllocNodeParams",
        "dptr",
        offset_of!(graph::MemAllocNodeParams, dptr),
    );
    c.size(
        "cudaGraphInstantiateParams",
        size_of::<graph::GraphInstantiateParams>(),
    );
    c.size(
        "cudaGraphExecUpdateResultInfo",
        size_of::<graph::GraphExecUpdateResultInfo>(),
    );
    c.size("struct cudaDeviceProp", size_of::<properties::DeviceProp>());
    c.offset(
        "struct cudaDeviceProp",
        "mpsEnabled",
        offset_of!(properties::DeviceProp, mps_enabled),
    );
    c.size("cudaIpcMemHandle_t", ipc::HANDLE_BYTES);
    c.size("cudaIpcEventHandle_t", ipc::HANDLE_BYTES);
}

fn structures_of_the_driver(c: &mut Checks) {
    c.size("CUDA_ARRAY_DESCRIPTOR", size_of::<array::ArrayDescriptor>());
    c.size("CUDA_ARRAY3D_DESCRIPTOR", size_of::<array::Array3DDescriptor>());
    let flags = offset_of!(array::Array3DDescriptor, flags);
    c.offset("CUDA_ARRAY3D_DESCRIPTOR", "Flags", flags);
    c.size("CUDA_MEMCPY2D", size_of::<copy3d::DriverCopy2D>());
    let dst = offset_of!(copy3d::DriverCopy2D, dst);
    let array = offset_of!(copy3d::DriverSide2D, array);
    c.offset("CUDA_MEMCPY2D", "dstArray", dst + array);
    let pitch = offset_of!(copy3d::DriverSide2D, pitch);
    c.offset("CUDA_MEMCPY2D", "dstPitch", dst + pitch);
    for name in ["CUDA_MEMCPY3D", "CUDA_MEMCPY3D_PEER"] {
        c.size(name, size_of::<copy3d::DriverCopy3D>());
        let dst = offset_of!(copy3d::DriverCopy3D, dst);
        let of = |member: usize| dst + member;
        let memory_type = offset_of!(copy3d::DriverSide3D, memory_type);
        c.offset(name, "dstMemoryType", of(memory_type));
        c.offset(name, "dstArray", of(offset_of!(copy3d::DriverSide3D, array)));
        c.offset(name, "dstHeight", of(offset_of!(copy3d::DriverSide3D, height)));
    }
    let context = offset_of!(copy3d::DriverSide3D, context);
    c.offset("CUDA_MEMCPY3D_PEER", "srcContext", context);
    c.size("CUlaunchConfig", size_of::<launch::DriverLaunchConfig>());
    let stream = offset_of!(launch::DriverLaunchConfig, stream);
    c.offset("CUlaunchConfig", "hStream", stream);
    c.size("CUlaunchAttribute", size_of::<launch::LaunchAttribute>());
    c.size(
        "CUDA_KERNEL_NODE_PARAMS",
        size_of::<graph::DriverKernelNodeParams>(),
    );
    c.size("CUmemPoolProps", size_of::<pool::MemPoolProps>());
    c.size("CUmemAccessDesc", size_of::<pool::MemAccessDesc>());
    c.size("CUmemLocation", size_of::<location::MemLocation>());
    c.size("CUipcMemHandle", ipc::HANDLE_BYTES);
    c.size("CUipcEventHandle", ipc::HANDLE_BYTES);
}

fn errors(c: &mut Checks) {
    use error::Code;
    for (name, code) in [
        ("cudaErrorInvalidValue", Code::INVALID_VALUE),
        ("cudaErrorMemoryAllocation", Code::MEMORY_ALLOCATION),
        ("cudaErrorInitializationError", Code::INITIALIZATION),
        ("cudaErrorInvalidPitchValue", Code::INVALID_PITCH_VALUE),
        ("cudaErrorInvalidMemcpyDirection", Code::INVALID_MEMCPY_DIRECTION),
        ("cudaErrorDevicesUnavailable", Code::DEVICES_UNAVAILABLE),
        ("cudaErrorMissingConfiguration", Code::MISSING_CONFIGURATION),
        ("cudaErrorInvalidDeviceFunction", Code::INVALID_DEVICE_FUNCTION),
        ("CUDA_ERROR_INVALID_CONTEXT", Code::INVALID_CONTEXT),
        ("cudaErrorECCUncorrectable", Code::ECC_UNCORRECTABLE),
        ("cudaErrorMpsRpcFailure", Code::MPS_RPC_FAILURE),
        ("cudaErrorContained", Code::CONTAINED),
        ("cudaErrorTensorMemoryLeak", Code::TENSOR_MEMORY_LEAK),
        ("cudaErrorExternalDevice", Code::EXTERNAL_DEVICE),
        ("cudaErrorInvalidResourceHandle", Code::INVALID_HANDLE),
        ("cudaErrorIllegalState", Code::ILLEGAL_STATE),
        ("cudaErrorNotReady", Code::NOT_READY),
        ("cudaErrorIllegalAddress", Code::ILLEGAL_ADDRESS),
        ("cudaErrorLaunchTimeout", Code::LAUNCH_TIMEOUT),
        ("cudaErrorAssert", Code::ASSERT),
        (
            "cudaErrorHostMemoryAlreadyRegistered",
            Code::HOST_MEMORY_ALREADY_REGISTERED,
        ),
        (
            "cudaErrorHostMemoryNotRegistered",
            Code::HOST_MEMORY_NOT_REGISTERED,
        ),
        ("cudaErrorHardwareStackError", Code::HARDWARE_STACK_ERROR),
        ("cudaErrorLaunchFailure", Code::LAUNCH_FAILURE),
        (
            "cudaErrorCooperativeLaunchTooLarge",
            Code::COOPERATIVE_LAUNCH_TOO_LARGE,
        ),
        ("cudaErrorMpsServerNotReady", Code::MPS_SERVER_NOT_READY),
        ("cudaErrorMpsClientTerminated", Code::MPS_CLIENT_TERMINATED),
        (
            "cudaErrorStreamCaptureUnsupported",
            Code::STREAM_CAPTURE_UNSUPPORTED,
        ),
        (
            "cudaErrorStreamCaptureWrongThread",
            Code::STREAM_CAPTURE_WRONG_THREAD,
        ),
        ("cudaErrorGraphExecUpdateFailure", Code::GRAPH_EXEC_UPDATE_FAILURE),
        ("cudaErrorUnknown", Code::UNKNOWN),
    ] {
        c.equal(name, code.0);
    }
}

fn constants(c: &mut Checks) {
    for (name, value) in [
        ("cudaMemcpyDefault", copy::DEFAULT),
        ("cudaMemcpyDeviceToDevice", copy::DEVICE_TO_DEVICE),
        (
            "cudaMemcpySrcAccessOrderDuringApiCall",
            copy::SRC_ACCESS_DURING_API_CALL,
        ),
        ("cudaMemcpyOperandTypeArray", copy3d::OPERAND_ARRAY),
        ("CU_AD_FORMAT_UNSIGNED_INT8", array::FORMAT_UNSIGNED_INT8),
        ("CU_AD_FORMAT_UNSIGNED_INT16", array::FORMAT_UNSIGNED_INT16),
        ("CU_AD_FORMAT_UNSIGNED_INT32", array::FORMAT_UNSIGNED_INT32),
        ("CU_AD_FORMAT_SIGNED_INT8", array::FORMAT_SIGNED_INT8),
        ("CU_AD_FORMAT_SIGNED_INT16", array::FORMAT_SIGNED_INT16),
        ("CU_AD_FORMAT_SIGNED_INT32", array::FORMAT_SIGNED_INT32),
        ("CU_AD_FORMAT_HALF", array::FORMAT_HALF),
        ("CU_AD_FORMAT_FLOAT", array::FORMAT_FLOAT),
        ("CUDA_ARRAY3D_LAYERED", array::ARRAY_LAYERED),
        ("CUDA_ARRAY3D_TEXTURE_GATHER", array::ARRAY_TEXTURE_GATHER),
        ("CU_MEMORYTYPE_HOST", copy3d::MEMORYTYPE_HOST),
        ("CU_MEMORYTYPE_DEVICE", copy3d::MEMORYTYPE_DEVICE),
        ("CU_MEMORYTYPE_ARRAY", copy3d::MEMORYTYPE_ARRAY),
        ("CU_MEMORYTYPE_UNIFIED", copy3d::MEMORYTYPE_UNIFIED),
        ("CU_LAUNCH_ATTRIBUTE_COOPERATIVE", launch::ATTRIBUTE_COOPERATIVE),
        (
            "CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION",
            launch::ATTRIBUTE_CLUSTER_DIMENSION,
        ),
        ("CU_MEM_ATTACH_HOST", managed::ATTACH_HOST),
        ("CU_MEMPOOL_ATTR_RELEASE_THRESHOLD", pool::POOL_RELEASE_THRESHOLD),
        ("CU_MEMPOOL_ATTR_USED_MEM_HIGH", pool::POOL_USED_HIGH),
        ("cudaLimitMallocHeapSize", device::LIMIT_MALLOC_HEAP_SIZE),
        (
            "cudaLimitMaxL2FetchGranularity",
            device::LIMIT_MAX_L2_FETCH_GRANULARITY,
        ),
        ("cudaDeviceMapHost", device::DEVICE_MAP_HOST),
        ("cudaDeviceMask", device::DEVICE_MASK),
        ("cudaDeviceScheduleMask", device::DEVICE_SCHEDULE_MASK),
        ("cudaDevAttrClockRate", device::ATTRIBUTE_CLOCK_RATE),
        ("cudaDevAttrGpuOverlap", device::ATTRIBUTE_GPU_OVERLAP),
        (
            "cudaDevAttrKernelExecTimeout",
            device::ATTRIBUTE_KERNEL_EXEC_TIMEOUT,
        ),
        ("cudaDevAttrComputeMode", device::ATTRIBUTE_COMPUTE_MODE),
        ("cudaDevAttrMemoryClockRate", device::ATTRIBUTE_MEMORY_CLOCK_RATE),
        (
            "cudaDevAttrMaxTexture1DLinearWidth",
            device::ATTRIBUTE_MAX_TEXTURE_1D_LINEAR_WIDTH,
        ),
        (
            "cudaDevAttrSingleToDoublePrecisionPerfRatio",
            device::ATTRIBUTE_SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO,
        ),
        (
            "cudaDevAttrMaxSharedMemoryPerBlockOptin",
            device::ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN,
        ),
        ("cudaGraphNodeTypeWaitEvent", graph::NODE_WAIT_EVENT),
        ("cudaGraphNodeTypeMemFree", graph::NODE_MEM_FREE),
        ("cudaGraphNodeTypeConditional", graph::NODE_CONDITIONAL),
        ("cudaGraphMemAttrReservedMemHigh", graph::GRAPH_MEM_RESERVED_HIGH),
        ("cudaHostAllocWriteCombined", host::HOST_ALLOC_WRITE_COMBINED),
        ("cudaHostRegisterReadOnly", host::HOST_REGISTER_READ_ONLY),
        ("cudaIpcMemLazyEnablePeerAccess", ipc::LAZY_ENABLE_PEER_ACCESS),
        (
            "cudaLaunchAttributeClusterDimension",
            launch::ATTRIBUTE_CLUSTER_DIMENSION,
        ),
        (
            "cudaLaunchAttributeProgrammaticEvent",
            launch::ATTRIBUTE_PROGRAMMATIC_EVENT,
        ),
        ("cudaLaunchAttributePriority", launch::ATTRIBUTE_PRIORITY),
        (
            "cudaLaunchAttributeMemSyncDomain",
            launch::ATTRIBUTE_MEM_SYNC_DOMAIN,
        ),
        (
            "cudaLaunchAttributeLaunchCompletionEvent",
            launch::ATTRIBUTE_LAUNCH_COMPLETION_EVENT,
        ),
        (
            "cudaFuncAttributePreferredSharedMemoryCarveout",
            launch::FUNC_PREFERRED_SHARED_MEMORY_CARVEOUT,
        ),
        ("cudaFuncCachePreferEqual", launch::FUNC_CACHE_PREFER_EQUAL),
        ("cudaMemAdviseUnsetAccessedBy", managed::ADVISE_UNSET_ACCESSED_BY),
        (
            "cudaMemRangeAttributeLastPrefetchLocationId",
            managed::RANGE_LAST_PREFETCH_LOCATION_ID,
        ),
        ("cudaMemAttachHost", managed::ATTACH_HOST),
        ("cudaMemPoolAttrReleaseThreshold", pool::POOL_RELEASE_THRESHOLD),
        ("cudaMemPoolAttrUsedMemHigh", pool::POOL_USED_HIGH),
        ("cudaStreamNonBlocking", stream::STREAM_NON_BLOCKING),
        ("cudaStreamCaptureModeRelaxed", stream::CAPTURE_MODE_RELAXED),
        ("cudaEventInterprocess", stream::EVENT_INTERPROCESS),
        ("cudaEventRecordExternal", stream::EVENT_EXTERNAL),
    ] {
        c.equal(name, value);
    }
    for (name, value) in [
        (
            "cudaMemLocationTypeHostNumaCurrent",
            location::LOCATION_HOST_NUMA_CURRENT,
        ),
        ("cudaCpuDeviceId", location::CPU_DEVICE_ID),
        ("cudaInvalidDeviceId", location::INVALID_DEVICE_ID),
        ("cudaMemAllocationTypePinned", pool::ALLOCATION_PINNED),
        ("cudaMemAccessFlagsProtReadWrite", pool::ACCESS_READ_WRITE),
        ("cudaMemoryTypeManaged", pointer::MEMORY_MANAGED),
        (
            "cudaStreamCaptureStatusInvalidated",
            stream::CAPTURE_STATUS_INVALIDATED,
        ),
    ] {
        c.equal(name, value);
    }
}

/// The folder with CUDA's headers.
fn include() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let found = Command::new(root.join("tools/cuda.sh"))
        .arg("find")
        .output()
        .unwrap();
    let cuda = String::from_utf8(found.stdout).unwrap();
    assert!(
        found.status.success() && !cuda.trim().is_empty(),
        "no CUDA: run make setup"
    );
    Path::new(cuda.trim()).join("include")
}

/// The errors of the header whose comments say that the process must be relaunched.
fn sticky_errors() -> Vec<(String, u32)> {
    let text = std::fs::read_to_string(include().join("driver_types.h")).unwrap();
    let (_, errors) = text
        .split_once("cudaError\n{")
        .expect("the header has the enumeration");
    let (errors, _) = errors.split_once("\n};").unwrap();
    let mut found = Vec::new();
    for entry in errors.split("/**").skip(1) {
        let (comment, constant) = entry.split_once("*/").unwrap();
        let (name, number) = constant.trim().split_once('=').unwrap();
        let words: Vec<&str> = comment.split_whitespace().filter(|word| *word != "*").collect();
        if words.join(" ").contains("the process must be terminated") {
            let number: String = number.chars().filter(char::is_ascii_digit).collect();
            found.push((name.trim().to_owned(), number.parse().unwrap()));
        }
    }
    found
}

#[test]
fn errors_that_end_a_process_are_those_of_the_header() {
    let sticky = sticky_errors();
    assert!(
        sticky.contains(&("cudaErrorIllegalAddress".to_owned(), 700)) && sticky.len() > 10,
        "{sticky:?}"
    );
    // An uncorrectable memory error and the end of an MPS server: the header leaves them open.
    let more = [error::Code::ECC_UNCORRECTABLE, error::Code::MPS_RPC_FAILURE];
    for number in 0..1000 {
        let code = error::Code(number);
        let expected = more.contains(&code) || sticky.iter().any(|(_, known)| *known == number);
        assert_eq!(code.is_sticky(), expected, "{code}");
    }
}

#[test]
fn structures_and_constants_are_those_of_the_headers() {
    let mut checks = Checks::default();
    structures(&mut checks);
    errors(&mut checks);
    constants(&mut checks);
    let source = format!("#include <cuda.h>\n#include <cuda_runtime_api.h>\n{}", checks.0);
    let mut compiler = Command::new("cc")
        .args(["-x", "c", "-fsyntax-only", "-", "-I"])
        .arg(include())
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = compiler.stdin.take().unwrap();
    input.write_all(source.as_bytes()).unwrap();
    drop(input);
    let output = compiler.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "the headers say otherwise:\n{text}");
}
