//! What a client sends on the socket: its first message, and the files that `mgbd` keeps for it.

use std::hint::black_box;

/// Version of the channel, the handshake and the node view together. An `mgbd` is replaced by the next build
/// while programs of the last one run, so a change adds to what there is: see [`OLDEST`].
pub const VERSION: u32 = if cfg!(mgb_next_protocol) { 16 } else { 15 };
/// The first version in which requests can be withdrawn.
pub const WITHDRAWS: u32 = 13;
/// The first version in which is told when a program is expected to end.
pub const EXPECTS: u32 = 14;
/// The first version in which a program that runs can become a latency program.
pub const CHANGES_CLASS: u32 = 15;
/// The oldest version that this build can speak as well, as a client and as `mgbd`. A change that breaks the
/// layout or the meaning of anything raises it to [`VERSION`], and parts programs from an `mgbd` that is
/// replaced.
pub const OLDEST: u32 = 11;
/// The section in which a library that speaks to `mgbd` has its [`VERSION`], for who only reads its file.
pub const SECTION: &str = ".mgb.protocol";
/// What stands in [`SECTION`].
#[unsafe(link_section = ".mgb.protocol")]
static NOTED: u32 = VERSION;
/// First bytes of [`Opening`] and `Channel`: "MGBchan1" in memory.
pub const MAGIC: u64 = u64::from_le_bytes(*b"MGBchan1");
/// Size of the memfd.
pub const CHANNEL_BYTES: usize = 32 << 10;
/// Longest handshake answer, in bytes.
pub const MAX_ANSWER: usize = 128 << 10;

/// A client's first message on the socket, with two descriptors: the memfd and
/// the eventfd, in that order. [`KEEP`] may follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opening {
    /// The number by which an opening is known: [`MAGIC`].
    pub magic: u64,
    /// [`VERSION`] of the client.
    pub version: u32,
    /// [`CHANNEL_BYTES`] of the client.
    pub channel_bytes: u32,
    /// What the client can do; `CAP_*`.
    pub caps: u64,
    /// The job that the process belongs to, as `MGB_JOB` says; 0: none. Clients with the same number are one
    /// job, whoever they are.
    pub job: u64,
    /// [`OLDEST`] of the client.
    pub oldest: u32,
}

/// The client only looks (`mgb status`), or speaks for a person (`mgb suspend`): it never begins a task.
pub const CAP_OBSERVER: u64 = 1;

impl Opening {
    /// Bytes on the socket.
    pub const BYTES: usize = 40;

    /// The message of this version.
    pub fn new(caps: u64, job: u64) -> Opening {
        Opening {
            magic: MAGIC,
            // Read from where it is noted, or the linker would leave that out.
            version: *black_box(&NOTED),
            channel_bytes: CHANNEL_BYTES as u32,
            caps,
            job,
            oldest: OLDEST,
        }
    }

    /// The version that both sides speak; `None`: there is none.
    pub fn common(&self) -> Option<u32> {
        (self.version >= OLDEST && self.oldest <= VERSION).then(|| self.version.min(VERSION))
    }

    /// As it travels.
    pub fn encode(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..8].copy_from_slice(&self.magic.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.version.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.channel_bytes.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.caps.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.job.to_le_bytes());
        bytes[32..36].copy_from_slice(&self.oldest.to_le_bytes());
        bytes
    }

    /// The message in `bytes`, if they are one of any version: later versions
    /// may be longer, those before 12 end with `job` and speak one version, and those before 8 end with
    /// `caps`.
    pub fn decode(bytes: &[u8]) -> Option<Opening> {
        let word = |at: usize| Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
        let (magic, second, caps) = (word(0)?, word(8)?, word(16)?);
        (magic == MAGIC).then_some(Opening {
            magic,
            version: second as u32,
            channel_bytes: (second >> 32) as u32,
            caps,
            job: word(24).unwrap_or(0),
            oldest: word(32).map_or(second as u32, |word| word as u32),
        })
    }
}

/// A message on the socket, with at most [`MOST_KEPT`] descriptors: the files by
/// which the driver knows the process. `mgbd` keeps them open beyond the
/// process's end, until what the process gave its GPUs is done by
/// [`super::GpuWords::is_busy`]. Another such message replaces what is kept.
pub const KEEP: &[u8; 8] = b"MGBkeep1";
/// Most descriptors in a [`KEEP`].
pub const MOST_KEPT: usize = 192;
