//! Error codes. `cudaError_t` and `CUresult` have the same number wherever both have the error.

use core::fmt;

/// `cudaError_t` and `CUresult` of CUDA 13.0: zero is success.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Code(pub u32);

/// Constants are named after `cudaError…`, without the prefix; where the runtime's name says less than the
/// driver's, after `CUDA_ERROR_…`.
#[allow(missing_docs)]
impl Code {
    pub const SUCCESS: Code = Code(0);
    pub const INVALID_VALUE: Code = Code(1);
    pub const MEMORY_ALLOCATION: Code = Code(2);
    pub const INITIALIZATION: Code = Code(3);
    pub const CUDART_UNLOADING: Code = Code(4);
    pub const INVALID_PITCH_VALUE: Code = Code(12);
    pub const INVALID_SYMBOL: Code = Code(13);
    pub const INVALID_TEXTURE: Code = Code(18);
    pub const INVALID_CHANNEL_DESCRIPTOR: Code = Code(20);
    pub const INVALID_MEMCPY_DIRECTION: Code = Code(21);
    pub const INVALID_FILTER_SETTING: Code = Code(26);
    pub const DEVICES_UNAVAILABLE: Code = Code(46);
    pub const MISSING_CONFIGURATION: Code = Code(52);
    pub const INVALID_DEVICE_FUNCTION: Code = Code(98);
    pub const NO_DEVICE: Code = Code(100);
    pub const INVALID_DEVICE: Code = Code(101);
    pub const INVALID_CONTEXT: Code = Code(201);
    pub const ECC_UNCORRECTABLE: Code = Code(214);
    pub const PEER_ACCESS_UNSUPPORTED: Code = Code(217);
    pub const CONTAINED: Code = Code(226);
    pub const OPERATING_SYSTEM: Code = Code(304);
    pub const INVALID_HANDLE: Code = Code(400);
    pub const ILLEGAL_STATE: Code = Code(401);
    pub const NOT_FOUND: Code = Code(500);
    pub const NOT_READY: Code = Code(600);
    pub const ILLEGAL_ADDRESS: Code = Code(700);
    pub const LAUNCH_TIMEOUT: Code = Code(702);
    pub const PEER_ACCESS_ALREADY_ENABLED: Code = Code(704);
    pub const PEER_ACCESS_NOT_ENABLED: Code = Code(705);
    pub const ASSERT: Code = Code(710);
    pub const HOST_MEMORY_ALREADY_REGISTERED: Code = Code(712);
    pub const HOST_MEMORY_NOT_REGISTERED: Code = Code(713);
    pub const HARDWARE_STACK_ERROR: Code = Code(714);
    pub const ILLEGAL_INSTRUCTION: Code = Code(715);
    pub const LAUNCH_FAILURE: Code = Code(719);
    pub const COOPERATIVE_LAUNCH_TOO_LARGE: Code = Code(720);
    pub const TENSOR_MEMORY_LEAK: Code = Code(721);
    pub const NOT_SUPPORTED: Code = Code(801);
    pub const MPS_RPC_FAILURE: Code = Code(806);
    pub const MPS_SERVER_NOT_READY: Code = Code(807);
    pub const MPS_CLIENT_TERMINATED: Code = Code(810);
    pub const CDP_NOT_SUPPORTED: Code = Code(811);
    pub const STREAM_CAPTURE_UNSUPPORTED: Code = Code(900);
    pub const STREAM_CAPTURE_INVALIDATED: Code = Code(901);
    pub const STREAM_CAPTURE_MERGE: Code = Code(902);
    pub const STREAM_CAPTURE_UNMATCHED: Code = Code(903);
    pub const STREAM_CAPTURE_UNJOINED: Code = Code(904);
    pub const STREAM_CAPTURE_ISOLATION: Code = Code(905);
    pub const STREAM_CAPTURE_IMPLICIT: Code = Code(906);
    pub const CAPTURED_EVENT: Code = Code(907);
    pub const STREAM_CAPTURE_WRONG_THREAD: Code = Code(908);
    pub const GRAPH_EXEC_UPDATE_FAILURE: Code = Code(910);
    pub const EXTERNAL_DEVICE: Code = Code(911);
    pub const UNKNOWN: Code = Code(999);
}

impl Code {
    /// Whether it is `cudaSuccess`.
    pub fn is_success(self) -> bool {
        self == Code::SUCCESS
    }

    /// Whether a stream that captures was used in a way that its capture forbids.
    pub fn is_capture_error(self) -> bool {
        (Code::STREAM_CAPTURE_UNSUPPORTED.0..=Code::STREAM_CAPTURE_WRONG_THREAD.0).contains(&self.0)
    }

    /// Whether the process can no longer use the GPU after this error, until a reset where one is possible:
    /// all errors after which CUDA's header says that the process must be relaunched, an uncorrectable memory
    /// error, and an MPS server that died.
    pub fn is_sticky(self) -> bool {
        self.is_of_process()
            || matches!(
                self,
                Code::ECC_UNCORRECTABLE | Code::MPS_RPC_FAILURE | Code::MPS_CLIENT_TERMINATED
            )
    }

    /// Whether CUDA's header says that the process must be relaunched after this error, as after a fault of a
    /// kernel: no device of the process works any more, and no reset helps.
    pub fn is_of_process(self) -> bool {
        matches!(
            self,
            Code::CONTAINED
                | Code::ILLEGAL_ADDRESS
                | Code::LAUNCH_TIMEOUT
                | Code::ASSERT
                | Code::TENSOR_MEMORY_LEAK
                | Code::EXTERNAL_DEVICE
        ) || (Code::HARDWARE_STACK_ERROR.0..=Code::LAUNCH_FAILURE.0).contains(&self.0)
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CUDA error {}", self.0)
    }
}

impl core::error::Error for Code {}
