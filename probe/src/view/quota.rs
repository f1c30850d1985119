//! Quotas in the node view.

use serde::{Deserialize, Serialize};

/// What users and groups may have at once, and have.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuotasView {
    /// The file that says it; `None`: nothing is limited.
    pub file: Option<String>,
    /// What is wrong with the file as it was read last: what it said before holds.
    pub mistake: Option<String>,
    /// Users who have programs here, and their groups with limits.
    pub owners: Vec<OwnerView>,
    /// GPUs that are for some alone.
    #[serde(default)]
    pub kept: Vec<KeptView>,
}

/// GPUs that are for some alone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptView {
    /// The GPUs that are kept, by index.
    pub gpus: Vec<u32>,
    /// The users who may use them, by number.
    pub users: Vec<u32>,
    /// The groups whose members may use them, by number.
    pub groups: Vec<u32>,
}

impl QuotasView {
    /// Bytes that a user may still have; `None`: any number.
    pub fn left_bytes(&self, uid: u32) -> Option<u64> {
        let owners = self.owners.iter().filter(|owner| owner.is_of(uid));
        let left = owners.filter_map(|owner| Some(owner.most_bytes?.saturating_sub(owner.bytes)));
        left.min()
    }
}

/// A user, or all members of a group together.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwnerView {
    /// The number of the user or group.
    pub id: u32,
    /// It is a group.
    pub is_group: bool,
    /// A user's part of what several want, beside the others'; 0 for groups.
    pub weight: u32,
    /// Bytes of GPU memory that it has, contexts included.
    pub bytes: u64,
    /// Bytes that it may have; `None`: any number.
    pub most_bytes: Option<u64>,
    /// Tasks between their begin and end.
    pub tasks: u64,
    /// Tasks that it may have.
    pub most_tasks: Option<u64>,
    /// GPUs where it has anything.
    pub gpus: Vec<u32>,
    /// GPUs that it may have.
    pub most_gpus: Option<u64>,
    /// Processes with a context on a GPU, counted on each.
    #[serde(default)]
    pub processes: u64,
    /// Processes that it may have so.
    #[serde(default)]
    pub most_processes: Option<u64>,
    /// GPUs that its tasks have for themselves.
    #[serde(default)]
    pub alone: u64,
    /// GPUs that they may have so.
    #[serde(default)]
    pub most_alone: Option<u64>,
    /// Bytes of its tasks' memory that are in the host.
    #[serde(default)]
    pub swap_bytes: u64,
    /// Bytes that may be there.
    #[serde(default)]
    pub most_swap_bytes: Option<u64>,
    /// Its requests that wait.
    pub waiting: u32,
    /// Tasks that may wait to begin.
    #[serde(default)]
    pub most_waiting: Option<u64>,
    /// Of those, that wait because of a quota.
    pub held_back: u32,
    /// Milliseconds for which each of its tasks may have its memory on a GPU; of users alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub most_time_ms: Option<u64>,
    /// Whether a process of which a task has it for longer is ended.
    #[serde(default)]
    pub ends_late: bool,
    /// A group's members that have programs here, by number.
    #[serde(default)]
    pub members: Vec<u32>,
}

impl OwnerView {
    /// Whether it is this user, or a group of his.
    pub fn is_of(&self, uid: u32) -> bool {
        if self.is_group {
            self.members.contains(&uid)
        } else {
            self.id == uid
        }
    }
}
