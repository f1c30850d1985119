//! Files that one more user may read than their owner.

use std::os::fd::AsFd;

use rustix::fs::{XattrFlags, fsetxattr};
use rustix::io::Errno;

/// The extended attribute with a file's access list.
const ACL: &str = "system.posix_acl_access";

/// Lets its owner and this user alone read the file. It does not become that user's: its owner could write to
/// it, or cut it short.
pub(crate) fn let_read(file: impl AsFd, uid: u32) -> Result<(), Errno> {
    fsetxattr(file, ACL, &readable_by(uid), XattrFlags::empty())
}

/// An access list (`linux/posix_acl_xattr.h`) by which the owner and one more user may read.
fn readable_by(uid: u32) -> Vec<u8> {
    const VERSION: u32 = 2;
    const READ: u16 = 4;
    let nobody = u32::MAX;
    // Owner, user, owning group, mask, others: each tag with what it may and whom it means.
    let entries = [
        (0x01, READ, nobody),
        (0x02, READ, uid),
        (0x04, 0, nobody),
        (0x10, READ, nobody),
        (0x20, 0, nobody),
    ];
    let mut list = VERSION.to_le_bytes().to_vec();
    for (tag, may, whom) in entries {
        list.extend(u16::to_le_bytes(tag));
        list.extend(u16::to_le_bytes(may));
        list.extend(u32::to_le_bytes(whom));
    }
    list
}
