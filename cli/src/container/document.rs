//! A CDI file: the document of the Container Device Interface's specification, as far as MGB needs it.
//!
//! The specification: <https://github.com/cncf-tags/container-device-interface/blob/main/SPEC.md>.

use anyhow::{Result, bail};
use serde::Serialize;

/// The oldest version that has all that is written here: engines refuse versions that they do not know.
const VERSION: &str = "0.3.0";
/// Vendor and class. A vendor looks like a domain's name; nobody looks it up.
pub const KIND: &str = "mgb.dev/node";

/// A whole file, of one vendor and class.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CdiFile {
    cdi_version: &'static str,
    kind: &'static str,
    devices: Vec<CdiDevice>,
}

/// What `--device` can name.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct CdiDevice {
    name: String,
    container_edits: ContainerEdits,
}

/// What a container gets. No hooks: apptainer runs none.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub struct ContainerEdits {
    /// Variables, as `NAME=VALUE`. Each replaces the image's own.
    pub env: Vec<String>,
    /// Files and folders of the node that the container has.
    pub mounts: Vec<CdiMount>,
}

/// A file or folder of the node in a container.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CdiMount {
    host_path: String,
    container_path: String,
    options: Vec<&'static str>,
}

impl CdiMount {
    /// Read-only. `options` are more than every mount has.
    pub fn read_only(host: String, container: String, options: &[&'static str]) -> CdiMount {
        CdiMount::new(host, container, &[&["ro"], options].concat())
    }

    /// With all access that permissions give.
    pub fn writable(path: String) -> CdiMount {
        CdiMount::new(path.clone(), path, &["rw", "noexec"])
    }

    fn new(host_path: String, container_path: String, options: &[&'static str]) -> CdiMount {
        CdiMount {
            host_path,
            container_path,
            options: [options, &["nosuid", "nodev", "bind", "rprivate"]].concat(),
        }
    }
}

impl CdiFile {
    /// A file of one device.
    pub fn of(name: &str, container_edits: ContainerEdits) -> CdiFile {
        CdiFile {
            cdi_version: VERSION,
            kind: KIND,
            devices: vec![CdiDevice {
                name: name.to_owned(),
                container_edits,
            }],
        }
    }
}

/// A device's name, as the specification allows it in this version.
///
/// # Errors
/// It is no name that engines take.
pub fn device_name(name: &str) -> Result<String> {
    let is_inner = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.:".contains(&byte);
    // Podman 4.3 ends with a panic where a name is one letter.
    let is_one = name.len() > 1
        && name.bytes().all(is_inner)
        && name
            .bytes()
            .next()
            .is_some_and(|first| first.is_ascii_alphabetic())
        && name
            .bytes()
            .last()
            .is_some_and(|last| last.is_ascii_alphanumeric());
    if !is_one {
        bail!(
            "a device's name is of two letters, digits and any of _-.: or more, and begins with a letter and ends with one \
             or a digit"
        );
    }
    Ok(name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_that_engines_take() {
        for name in ["default", "ab", "alice-2", "gpu:0", "a.b_c"] {
            assert!(device_name(name).is_ok(), "{name}");
        }
        for name in ["", "a", "2nd", "-a", "a-", "a b", "a/b", "ä", "a=b"] {
            assert!(device_name(name).is_err(), "{name}");
        }
    }
}
