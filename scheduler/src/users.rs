//! Which users an `mgbd` serves, and what they are to each other.

use std::fmt;
use std::str::FromStr;

use nix::unistd::Group;

/// Whom an `mgbd` serves. The superuser always is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Users {
    /// The user that runs it.
    Own,
    /// Processes in this group, by what the kernel says of them as they connect.
    Group {
        /// The group's name.
        name: String,
        /// The group's number.
        gid: u32,
    },
    /// Everybody on the node.
    All,
}

/// Why these are no users.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UsersError {
    /// It is none of the forms.
    #[error("{0} is neither own, all nor group:NAME")]
    Form(String),
    /// There is no such group.
    #[error("there is no group {0}")]
    Group(String),
}

impl Users {
    /// Whether a process of this user, in these groups, is served by an `mgbd` of the user `own`, if that user
    /// has a number. The
    /// socket's permissions say the same where `mgbd` makes it; systemd's socket may be open to all.
    pub fn takes(&self, uid: u32, groups: impl FnOnce() -> Vec<u32>, own: Option<u32>) -> bool {
        let is_ours = Some(uid) == own || uid == 0;
        match self {
            Users::Own => is_ours,
            Users::Group { gid, .. } => is_ours || groups().contains(gid),
            Users::All => true,
        }
    }

    /// Whether there may be several.
    pub fn are_several(&self) -> bool {
        *self != Users::Own
    }

    /// The permissions of the socket.
    pub(crate) fn socket_mode(&self) -> u32 {
        match self {
            Users::Own => 0o600,
            Users::Group { .. } => 0o660,
            Users::All => 0o666,
        }
    }

    /// The group of the socket, if it is not that of its owner.
    pub(crate) fn socket_group(&self) -> Option<u32> {
        match self {
            Users::Group { gid, .. } => Some(*gid),
            _ => None,
        }
    }

    /// The permissions of the socket's folder.
    pub(crate) fn folder_mode(&self) -> u32 {
        if self.are_several() { 0o755 } else { 0o700 }
    }
}

impl FromStr for Users {
    type Err = UsersError;

    fn from_str(text: &str) -> Result<Users, UsersError> {
        match text.split_once(':') {
            None if text == "own" => Ok(Users::Own),
            None if text == "all" => Ok(Users::All),
            Some(("group", name)) => {
                let group = Group::from_name(name).ok().flatten();
                let group = group.ok_or_else(|| UsersError::Group(name.to_owned()))?;
                let (name, gid) = (group.name, group.gid.as_raw());
                Ok(Users::Group { name, gid })
            }
            _ => Err(UsersError::Form(text.to_owned())),
        }
    }
}

impl fmt::Display for Users {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Users::Own => f.write_str("own"),
            Users::Group { name, .. } => write!(f, "group:{name}"),
            Users::All => f.write_str("all"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_are_read_and_shown() {
        for text in ["own", "all", "group:root"] {
            assert_eq!(text.parse::<Users>().unwrap().to_string(), text);
        }
        assert_eq!("group:root".parse::<Users>().unwrap().socket_group(), Some(0));
        assert!(matches!(
            "group:no such".parse::<Users>(),
            Err(UsersError::Group(_))
        ));
        assert!(matches!("everybody".parse::<Users>(), Err(UsersError::Form(_))));
    }

    #[test]
    fn others_are_served_where_that_is_said() {
        let none = Vec::new;
        let own = |uid| Users::Own.takes(uid, none, Some(7));
        assert!(own(7) && own(0) && !own(8));
        assert!(Users::All.takes(8, none, Some(7)));
        let name = "students".to_owned();
        let group = Users::Group { name, gid: 5 };
        let served = |uid, groups: &[u32]| group.takes(uid, || groups.to_vec(), Some(7));
        assert!(served(7, &[]) && served(0, &[]) && served(8, &[4, 5]) && !served(8, &[4, 6]));
        assert!(!group.takes(65_534, none, None), "one of many without a number");
    }
}
