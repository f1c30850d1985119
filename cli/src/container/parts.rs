//! What of a node a container gets: mgbd's folder for clients, and the parts of MGB that programs need.
//! Nothing above that folder, and nothing of `/dev/shm`: root of a container without a user namespace is the
//! node's root to both.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use mgb_command::machine::{Machine, variable};
use mgb_command::prefix::Prefix;
use mgb_interface::folders;
use mgb_probe::trust::{Folder, Untrusted};

use super::document::{CdiMount, ContainerEdits};

/// Where images have programs of their administrators, and look for them.
const COMMAND: &str = "/usr/local/bin/mgb";
/// The longest path of a socket, in bytes: `sun_path` less its zero.
const MAX_SOCKET: usize = 107;
/// The file in which software GPUs have their state.
const STATE: &str = "SOFTGPU_STATE";

/// What a container gets of an mgbd at this socket, with the MGB of this folder.
///
/// # Errors
/// Something is missing, or cannot be given to containers.
pub fn edits(socket: &Path, prefix: &Prefix, machine: &Machine) -> Result<ContainerEdits> {
    let mut edits = ContainerEdits::default();
    clients(socket, &mut edits)?;
    programs(prefix, machine, &mut edits)?;
    if machine.is_soft() {
        software_gpus(&mut edits)?;
    }
    Ok(edits)
}

/// The folder for clients, at the node's path: mgbd names MPS's place in it by that.
fn clients(socket: &Path, edits: &mut ContainerEdits) -> Result<()> {
    let socket = std::path::absolute(socket)?;
    let folder = folders::clients_of(&socket);
    let name = socket.file_name().context("MGB_SOCKET names no file")?;
    let socket = folder.join(name);
    Folder::of(&socket).map_err(|why| match why {
        Untrusted::Missing => anyhow!(
            "{} does not exist: start mgbd once, which makes it; for a service, `systemd-tmpfiles --create` does; \
             MGB_SOCKET names another mgbd's socket",
            folder.display()
        ),
        why => anyhow!(
            "{} {why}: containers take no mgbd there; MGB_SOCKET names another mgbd's socket",
            folder.display()
        ),
    })?;
    let (folder, socket) = (text(&folder)?, text(&socket)?);
    if socket.len() > MAX_SOCKET {
        bail!("{socket} is too long for a socket: set MGB_SOCKET to a shorter path, and start mgbd with it");
    }
    edits.env.push(format!("MGB_SOCKET={socket}"));
    let mount = CdiMount::read_only(folder.clone(), folder, &["noexec"]);
    edits.mounts.push(mount);
    Ok(())
}

/// `mgb run` and what programs load, at the node's paths, so that programs that were linked with MGB find it; and
/// a name of mgb where images look for programs.
fn programs(prefix: &Prefix, machine: &Machine, edits: &mut ContainerEdits) -> Result<()> {
    let own = text(prefix.path())?;
    edits.env.push(format!("MGB_PREFIX={own}"));
    edits
        .env
        .push(format!("MGB_SOFTGPU={}", u8::from(machine.is_soft())));
    let mgb = prefix.mgb()?;
    let mut parts = vec![mgb.clone(), prefix.front()?, prefix.runtime()?];
    if machine.is_soft() {
        parts.push(prefix.softgpu()?);
    }
    let mut mount = |part: &Path, at: &Path| -> Result<()> {
        let mount = CdiMount::read_only(text(part)?, text(at)?, &[]);
        edits.mounts.push(mount);
        Ok(())
    };
    for part in &parts {
        mount(part, part)?;
    }
    if mgb != Path::new(COMMAND) {
        mount(&mgb, Path::new(COMMAND))?;
    }
    Ok(())
}

/// The same software GPUs as here: their settings, and the folder of their state, which all who use them
/// write.
fn software_gpus(edits: &mut ContainerEdits) -> Result<()> {
    let state = variable(STATE).map(PathBuf::from).with_context(|| {
        format!(
            "software GPUs have their state in /dev/shm, which containers do not get: set {STATE} to a file in a folder \
             of its own, for mgbd and for this command"
        )
    })?;
    let folder = state.parent().filter(|_| state.is_absolute());
    let folder = folder.with_context(|| format!("{STATE}={} is no absolute path", state.display()))?;
    let metadata = std::fs::metadata(folder)
        .with_context(|| format!("failed to find {}, the folder of {STATE}", folder.display()))?;
    if metadata.permissions().mode() & 0o1000 != 0 {
        bail!(
            "{} is for everybody's files, and containers may write the folder of {STATE}: name a file in a folder of its \
             own",
            folder.display()
        );
    }
    // Not `vars`, which panics where a variable of somebody else's is not UTF-8.
    for (name, value) in std::env::vars_os() {
        if let (Some(name), Some(value)) = (name.to_str(), value.to_str())
            && name.starts_with("SOFTGPU_")
            && !value.is_empty()
        {
            edits.env.push(format!("{name}={value}"));
        }
    }
    edits.env.sort();
    edits.mounts.push(CdiMount::writable(text(folder)?));
    Ok(())
}

/// A path as JSON can have it.
fn text(path: &Path) -> Result<String> {
    let text = path.to_str().map(str::to_owned);
    text.with_context(|| format!("{} is not UTF-8, as a CDI file has to be", path.display()))
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};

    use tempfile::TempDir;

    use super::super::document::CdiFile;
    use super::*;

    /// A folder with a folder for clients and an MGB, and where mgbd is to listen.
    fn node() -> (TempDir, PathBuf, Prefix) {
        let folder = tempfile::tempdir().unwrap();
        let at = |path: &str| folder.path().join(path);
        for made in ["its own/clients", "mgb/bin", "mgb/lib/front"] {
            fs::create_dir_all(at(made)).unwrap();
            fs::set_permissions(at(made), Permissions::from_mode(0o755)).unwrap();
        }
        for part in [
            "mgb/bin/mgb",
            "mgb/lib/front/libcuda.so.1",
            "mgb/lib/libmgb_rt.so",
        ] {
            fs::write(at(part), "").unwrap();
        }
        let (socket, prefix) = (at("its own/mgbd.sock"), Prefix::at(at("mgb")));
        (folder, socket, prefix)
    }

    const REAL: Machine = Machine::Real { gpus: 1 };

    #[test]
    fn a_container_gets_the_folder_for_clients_and_programs_read_only() {
        let (folder, socket, prefix) = node();
        let file = CdiFile::of("default", edits(&socket, &prefix, &REAL).unwrap());
        let document = serde_json::to_value(&file).unwrap();
        let edits = &document["devices"][0]["containerEdits"];
        let below = |path: &str| format!("{}/{path}", folder.path().display());
        let mut mounts: Vec<[String; 2]> = Vec::new();
        for mount in edits["mounts"].as_array().unwrap() {
            let options = mount["options"].as_array().unwrap();
            assert!(options.contains(&"ro".into()) && !options.contains(&"rw".into()));
            let path = |key: &str| mount[key].as_str().unwrap().to_owned();
            mounts.push([path("hostPath"), path("containerPath")]);
        }
        let same = [
            "its own/clients",
            "mgb/bin/mgb",
            "mgb/lib/front",
            "mgb/lib/libmgb_rt.so",
        ];
        let mut wanted = same.map(|path| [below(path), below(path)]).to_vec();
        wanted.push([below("mgb/bin/mgb"), COMMAND.to_owned()]);
        assert_eq!(mounts, wanted);
        let variables = [
            format!("MGB_SOCKET={}", below("its own/clients/mgbd.sock")),
            format!("MGB_PREFIX={}", below("mgb")),
            "MGB_SOFTGPU=0".to_owned(),
        ];
        assert_eq!(edits["env"], serde_json::json!(variables));
        assert_eq!(document["cdiVersion"], "0.3.0");
        assert_eq!(document["kind"], "mgb.dev/node");
        assert_eq!(document["devices"][0]["name"], "default");
    }

    #[test]
    fn what_containers_cannot_have_is_refused_with_the_way_out() {
        let (folder, socket, prefix) = node();
        let clients = folders::clients_of(&socket);
        let refused = |socket: &Path, prefix: &Prefix| edits(socket, prefix, &REAL).unwrap_err().to_string();
        let none = folder.path().join("none/mgbd.sock");
        assert!(refused(&none, &prefix).contains("start mgbd once"));
        fs::set_permissions(&clients, Permissions::from_mode(0o777)).unwrap();
        assert!(refused(&socket, &prefix).contains("can be written by others"));
        fs::set_permissions(&clients, Permissions::from_mode(0o755)).unwrap();
        let long = "x".repeat(MAX_SOCKET);
        assert!(refused(&socket.with_file_name(long), &prefix).contains("shorter path"));
    }
}
