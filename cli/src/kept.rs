//! For whom GPUs are kept, as people read it.

use mgb_probe::view::KeptView;

use crate::user;

/// For whom GPUs are kept: `GPU 0, 1: kept for group vision`.
pub fn text(kept: &KeptView) -> String {
    let gpus: Vec<String> = kept.gpus.iter().map(u32::to_string).collect();
    let groups = kept
        .groups
        .iter()
        .map(|gid| format!("group {}", user::group_name(*gid)));
    let whose: Vec<String> = groups
        .chain(kept.users.iter().map(|uid| user::name(*uid)))
        .collect();
    let whose = if whose.is_empty() {
        "nobody".to_owned()
    } else {
        whose.join(", ")
    };
    format!("GPU {}: kept for {whose}", gpus.join(", "))
}
