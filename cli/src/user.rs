//! Names of users and groups.

use std::collections::BTreeSet;

use nix::unistd::{Gid, Group, Uid, User};

/// The name of a user, or the number where there is none.
pub fn name(uid: u32) -> String {
    let known = User::from_uid(Uid::from_raw(uid)).ok().flatten();
    known.map_or_else(|| uid.to_string(), |user| user.name)
}

/// The name of a group, or the number where there is none.
pub fn group_name(gid: u32) -> String {
    let known = Group::from_gid(Gid::from_raw(gid)).ok().flatten();
    known.map_or_else(|| gid.to_string(), |group| group.name)
}

/// Whether these are several.
pub fn are_several(uids: impl Iterator<Item = u32>) -> bool {
    uids.collect::<BTreeSet<u32>>().len() > 1
}
