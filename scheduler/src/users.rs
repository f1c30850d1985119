//! Which users an `mgbd` serves, and what they are to each other.

use std::fmt;
use std::str::FromStr;

use nix::unistd::Group;

/// Whom an `mgbd` serves. The superuser always is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Users {
    /// The user that runs it.
    Own,
    /// Members of this group, which the kernel looks at where they connect.
    Group {
        /// Its name.
        name: String,
        /// Its number.
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
    /// Whether a process of this user is served by an `mgbd` of the user `own`.
    pub fn takes(&self, uid: u32, own: u32) -> bool {
        *self != Users::Own || uid == own || uid == 0
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
        assert!(Users::Own.takes(7, 7) && Users::Own.takes(0, 7) && !Users::Own.takes(8, 7));
        assert!(Users::All.takes(8, 7));
    }
}
