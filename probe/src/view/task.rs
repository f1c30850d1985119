//! Who has room and who waits, in the node view.

use serde::{Deserialize, Serialize};

use crate::bursts::Bursts;
use crate::class::Class;
use crate::lenient::{Grows, may_be_word, word, words};
use crate::limited::Limited;
use crate::view::lack::Lack;

/// What a task is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskState {
    /// Between begin and end.
    Running,
    /// Waits for more room.
    Growing,
    /// Over, some of its memory still allocated.
    Ended,
    /// On its way to another GPU.
    Moving,
    /// Idle, and its memory is on its way to the host, to make room for others.
    Evicting,
    /// Idle, and its memory is in the host.
    Evicted,
    /// Waits for room for its memory, which is in the host.
    Restoring,
    /// A person has suspended its process, and its memory has still to leave.
    Suspending,
    /// A person has suspended its process, and it has no memory on the GPU.
    Suspended,
    /// Its process died; the driver does not show the room free yet.
    Reclaiming,
    /// What a newer mgbd says in a word that is not known here.
    Unknown,
}

/// A task that holds room.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskView {
    /// The process of the task.
    pub pid: u32,
    /// The user of the task.
    #[serde(default)]
    pub uid: u32,
    /// The process's number for the task.
    pub task: u64,
    /// What people know it by; empty for other users than its own.
    pub label: String,
    /// The index of the GPU that was granted.
    pub gpu: u32,
    /// What the task does, as [`TaskState`] has it.
    #[serde(deserialize_with = "word")]
    pub state: TaskState,
    /// The bytes that are reserved for the task.
    pub reserved_bytes: u64,
    /// Bytes that mgbd expects it to have at most, by its need and earlier runs of its program; 0: it expects
    /// nothing, or has given that up.
    #[serde(default)]
    pub expected_bytes: u64,
    /// Bytes that its process says it has mapped on the GPU, of all its tasks there.
    #[serde(default)]
    pub held_bytes: u64,
    /// The most bytes that it had reserved at once.
    #[serde(default)]
    pub peak_bytes: u64,
    /// Bytes of it that are in host memory.
    #[serde(default)]
    pub evicted_bytes: u64,
    /// The warps that the task is charged.
    pub warps: u64,
    /// Milliseconds since it was granted.
    pub age_ms: u64,
    /// Of those, the ones in which its memory was on a GPU.
    #[serde(default)]
    pub time_ms: u64,
    /// As many as it may have; `None`: any number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub most_time_ms: Option<u64>,
    /// The class of its process.
    #[serde(default, deserialize_with = "word")]
    pub class: Class,
    /// What its process cannot be given any more, of what serves latency programs.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "words")]
    pub lacks: Vec<Lack>,
    /// What is asked of its process's launches on the GPU now; `None`: nothing is.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "may_be_word"
    )]
    pub pace: Option<PacedFor>,
    /// Of a latency program: how long it took from its first launch until it had synchronised, as it says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency: Option<Bursts>,
    /// The percentage of the GPU's multiprocessors that its process has at most, as it was told to MPS.
    /// `None`: all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub multiprocessors_percent: Option<u8>,
    /// Milliseconds for which its process says that launches of its were held, for programs that others wait
    /// for.
    #[serde(default)]
    pub paused_ms: u64,
    /// The part of what its process does alone on its GPU that it was seen to do beside the others there, in
    /// thousandths; `None`: it was not looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub speed: Option<u32>,
    /// Milliseconds until its result is wanted, negative once that has passed; `None`: no time was named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_ms: Option<i64>,
    /// Milliseconds until it is expected to end, by what is known of its kind; `None`: nothing is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ends_ms: Option<u64>,
    /// Milliseconds in which its process has had work on the GPU since it came there, as mgbd has sampled.
    #[serde(default)]
    pub busy_ms: u64,
    /// Of the time in which its GPU had work in the last seconds, the part that was its process's, in
    /// thousandths: where n processes had work at once, 1/n each. `None`: there was no such time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share: Option<u32>,
    /// The part that was due to its process, where for seconds that got less than half of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share_due: Option<u32>,
    /// Its process's job, as `MGB_JOB` says it; `None`: it has none, or is another user's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<String>,
}

impl TaskView {
    /// Whether it has had its memory on a GPU for longer than its user may.
    pub fn is_late(&self) -> bool {
        self.most_time_ms.is_some_and(|most| self.time_ms > most)
    }
}

/// What mgbd asks of a program's launches on a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PacedFor {
    /// They are held: a latency program has work there.
    LatencyWork,
    /// They are held, so that other batch programs get their shares.
    Share,
    /// What is in flight is bounded: a latency program is there, or shares are looked at.
    Bound,
    /// What a newer mgbd says in a word that is not known here.
    Unknown,
}

impl PacedFor {
    /// Whether launches are held, and not only bounded.
    pub fn is_hold(self) -> bool {
        matches!(self, PacedFor::LatencyWork | PacedFor::Share)
    }
}

/// A request that waits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitView {
    /// The process that waits.
    pub pid: u32,
    /// The user of the process.
    #[serde(default)]
    pub uid: u32,
    /// What people know the task by; empty for other users than its own.
    pub label: String,
    /// GPU index, where it can only be one.
    pub gpu: Option<u32>,
    /// Bytes asked for.
    pub bytes: u64,
    /// Bytes that mgbd expects it to take in the end, and would have it begin with: `bytes` or more.
    #[serde(default)]
    pub expected_bytes: u64,
    /// Whether a granted task wants more, or a new task begins.
    pub growth: bool,
    /// Milliseconds it has waited.
    pub waited_ms: u64,
    /// The class of the process.
    #[serde(default, deserialize_with = "word")]
    pub class: Class,
    /// It says that it is a latency program, and its user may run none.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_no_right: bool,
    /// Why it is not considered at all, if it is not.
    #[serde(default, deserialize_with = "may_be_word")]
    pub held_back: Option<HeldBack>,
    /// It is not considered because its user, or a group of the user's, has as much as it may have at once.
    #[serde(default)]
    pub over_quota: bool,
    /// Of what that is too much.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "may_be_word"
    )]
    pub limited: Option<Limited>,
    /// It is not considered because the driver cannot reach any GPU that it could go to.
    #[serde(default)]
    pub gpu_lost: bool,
    /// What it waits for, where that is more than its turn and room.
    #[serde(default, deserialize_with = "may_be_word")]
    pub waits_for: Option<WaitsFor>,
    /// Milliseconds until its result is wanted, as [`TaskView::deadline_ms`] has them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_ms: Option<i64>,
    /// Milliseconds until it is expected to end, where it has a deadline and its length is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ends_ms: Option<u64>,
}

/// What a request waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WaitsFor {
    /// Room gathers for it on this GPU, where nobody new begins meanwhile.
    RoomGathers(u32),
    /// Nothing has left its GPUs for long, so that others may begin there again.
    NothingLeaves,
    /// Others wait to grow on the GPUs where it would fit.
    Growth,
    /// All places for processes are taken on the GPUs where it would fit.
    Places,
    /// Its user has as many processes on its GPUs as one of several users may have.
    UserPlaces,
    /// Idle memory stays on its GPUs, since those whose it is have as much in the host as they may have.
    SwapQuota,
    /// The GPUs that it could go to are kept for others than its user.
    OthersGpus,
    /// It is to have a GPU for itself, and others are on all that it could go to.
    OwnGpu,
    /// Tasks that have a GPU for themselves are on those where it would fit.
    KeptAlone,
    /// Where it would fit, room gathers for a request of this process, which has waited for longer.
    GathersFor(u32),
    /// What a newer mgbd says in a word that is not known here.
    Unknown,
}

/// Why a request waits although there may be room for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HeldBack {
    /// A person has suspended its process.
    Suspended,
    /// Every GPU that it could go to is drained.
    Drained,
    /// What a newer mgbd says in a word that is not known here.
    Unknown,
}

/// A process that a person has suspended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SuspendedView {
    /// The process that is suspended.
    pub pid: u32,
    /// The user of the process.
    #[serde(default)]
    pub uid: u32,
    /// Its job, as `MGB_JOB` says it.
    pub job: Option<String>,
    /// It is suspended with its whole job.
    pub whole_job: bool,
    /// Milliseconds since it was suspended.
    pub age_ms: u64,
    /// By GPU: bytes of its memory that are in the host.
    pub evicted_bytes: Vec<u64>,
}

impl Grows for TaskState {
    const UNKNOWN: TaskState = TaskState::Unknown;
}

impl Grows for Class {
    const UNKNOWN: Class = Class::Batch;
}

impl Grows for PacedFor {
    const UNKNOWN: PacedFor = PacedFor::Unknown;
}

impl Grows for WaitsFor {
    const UNKNOWN: WaitsFor = WaitsFor::Unknown;
}

impl Grows for HeldBack {
    const UNKNOWN: HeldBack = HeldBack::Unknown;
}

impl Grows for Limited {
    const UNKNOWN: Limited = Limited::Unknown;
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::view::{Hindrance, NodeView};

    /// What an mgbd shows that says these words.
    fn document(state: Value, word: Value) -> Value {
        let mut document = serde_json::to_value(NodeView::default()).unwrap();
        document["tasks"] = json!([{
            "pid": 7, "task": 1, "gpu": 0, "state": state, "label": "", "reserved_bytes": 1, "held_bytes": 1,
            "peak_bytes": 1, "warps": 1, "age_ms": 1, "of_a_later_version": [1]
        }]);
        document["queue"] = json!([{
            "pid": 7, "label": "", "gpu": null, "bytes": 1, "growth": false, "waited_ms": 1,
            "held_back": word, "limited": word, "waits_for": word
        }]);
        document["leaving"] = json!([{ "pid": 7, "gpu": 0, "bytes": 1, "hindrance": word }]);
        document
    }

    #[test]
    fn words_of_a_newer_mgbd_are_unknown_and_the_rest_is_read() {
        let words = [
            "of_a_later_version".into(),
            json!({ "of_a_later_version": { "gpu": 3 } }),
            json!(3),
        ];
        for word in words {
            let view: NodeView = serde_json::from_value(document(word.clone(), word)).unwrap();
            let wait = &view.queue[0];
            assert_eq!(view.tasks[0].state, TaskState::Unknown);
            assert_eq!(wait.held_back, Some(HeldBack::Unknown));
            assert_eq!(wait.waits_for, Some(WaitsFor::Unknown));
            assert_eq!(wait.limited, Some(Limited::Unknown));
            assert_eq!(view.leaving[0].hindrance, Some(Hindrance::Unknown));
        }
        let view: NodeView = serde_json::from_value(document("ended".into(), Value::Null)).unwrap();
        assert_eq!(view.tasks[0].state, TaskState::Ended);
        let wait = &view.queue[0];
        assert_eq!((wait.held_back, wait.waits_for, wait.limited), (None, None, None));
        let gathers = WaitView {
            waits_for: Some(WaitsFor::RoomGathers(3)),
            ..wait.clone()
        };
        let again = serde_json::from_str(&serde_json::to_string(&gathers).unwrap());
        assert_eq!(again.ok(), Some(gathers));
    }
}
