//! The handshake: what a client and `mgbd` say to each other on the socket
//! before they speak through memory only.

use serde::{Deserialize, Serialize};

use crate::class::Class;

/// The multiprocessors of a GPU, and what each of them holds at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Multiprocessors {
    /// How many there are.
    pub count: u32,
    /// Blocks that each holds.
    pub blocks: u32,
    /// Warps that each holds.
    pub warps: u32,
    /// Registers of each.
    pub registers: u32,
    /// Parts of each with registers of their own.
    pub partitions: u32,
    /// Bytes of shared memory of each.
    pub shared_bytes: u32,
    /// Bytes of it that the system takes for each block.
    pub shared_reserved: u32,
    /// Bytes of the unit in which it is given to blocks.
    pub shared_unit: u32,
}

impl Multiprocessors {
    /// Warps that all of them hold at once.
    pub fn all_warps(&self) -> u64 {
        u64::from(self.count) * u64::from(self.warps)
    }
}

/// One GPU of the node, as clients know it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gpu {
    /// Position in [`Hello::gpus`]; what grants name.
    pub index: u32,
    /// Position among all GPUs of the node, as NVML numbers them.
    pub node_index: u32,
    /// `GPU-...`; the name that holds under MPS and device masks.
    pub uuid: String,
    /// The product name of the GPU, as NVML has it.
    pub name: String,
    /// Bytes of device memory.
    pub total_bytes: u64,
    /// Bytes that tasks and their contexts may take together.
    pub usable_bytes: u64,
    /// Bytes that each process's context takes.
    pub context_bytes: u64,
    /// Warps the GPU can hold at once.
    pub max_warps: u64,
    /// What it computes with.
    pub multiprocessors: Multiprocessors,
}

/// What MPS is told of a client before its driver is initialised; it cannot be changed later.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MpsClient {
    /// Its priority: 0 is normal, 1 is below that. `None`: as the environment says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<u32>,
    /// The percentage of a GPU's multiprocessors that it has at most. `None`: all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub percentage: Option<u32>,
}

/// What `mgbd` answers to a client's first message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// Protocol version; the same as the client's, or there is no hello.
    pub version: u32,
    /// Name of the policy in force.
    pub policy: String,
    /// Name of the order in which the queue is served.
    pub queue: String,
    /// Folder to put into `CUDA_MPS_PIPE_DIRECTORY` before `cuInit`.
    pub mps_pipe: Option<String>,
    /// How the client is to join MPS, where there is one.
    #[serde(default)]
    pub mps_client: MpsClient,
    /// The class that the client has with mgbd; `None` from an mgbd that knows no classes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<Class>,
    /// Why there is no MPS, where there is none.
    pub mps_note: Option<String>,
    /// The GPUs that grants may name.
    pub gpus: Vec<Gpu>,
    /// Process id of `mgbd`.
    pub mgbd_pid: u32,
    /// Process id of the client as mgbd sees it, by which the node view shows what it has: another one than its
    /// own in a PID namespace. `None` from an mgbd that does not say.
    #[serde(default)]
    pub client_pid: Option<u32>,
    /// Two of these that have changed places in the client's job, by their positions: what clients look at that
    /// know no numberings.
    #[serde(default)]
    pub exchanged: Option<[u32; 2]>,
    /// What the first numbers stand for in the client's job ([`crate::Client::begin_first`]); none before it has
    /// a GPU.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub numbering: Vec<u32>,
    /// The GPUs that the client's user may use, one bit each by position; `None` from an mgbd that keeps none for
    /// others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usable: Option<u64>,
    /// POSIX shared-memory name of the node view, readable by everybody.
    pub view: Option<String>,
}

/// The answer as it travels: a hello, or why there is none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HelloAnswer {
    /// The client is welcome.
    Hello(Box<Hello>),
    /// The client is not, and the connection is closed.
    Refused {
        /// Version that this `mgbd` speaks.
        version: u32,
        /// Why `mgbd` refuses, in words for the user.
        reason: String,
    },
}
