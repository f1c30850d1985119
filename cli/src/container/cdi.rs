//! `mgb container cdi`: the file by which container engines know MGB as a device.

use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use mgb_command::exit::{self, CommandResult, Failure, WithCode};
use mgb_command::machine::{Machine, variable};
use mgb_command::out;
use mgb_command::prefix::Prefix;
use mgb_interface::folders;
use mgb_probe::{NODE_SOCKET, socket_path};

use super::document::{CdiFile, KIND, device_name};
use super::parts;

/// Where engines look for such files.
const FOLDERS: [&str; 3] = ["/etc/cdi", "/var/run/cdi", "/run/cdi"];

const HELP: &str = "\
Engines look in /etc/cdi and /var/run/cdi. The file names this MGB and the socket of the mgbd that `mgb status` \
asks (MGB_SOCKET): write it again when either moves.

Examples:
  sudo mgb container cdi --output /etc/cdi/mgb.json
  podman run --device nvidia.com/gpu=all --device mgb.dev/node=default IMAGE mgb run python3 train.py
  docker run --device nvidia.com/gpu=all --device mgb.dev/node=default IMAGE mgb run python3 train.py
  apptainer exec --device nvidia.com/gpu=all --device mgb.dev/node=default IMAGE mgb run python3 train.py

Exit code: 0, 2 if the file cannot be written, 3 if a part of MGB or mgbd's folder for clients is missing.";

/// Write the CDI file (Container Device Interface) by which `--device mgb.dev/node=default` gives a container
/// MGB.
///
/// A container gets mgbd's folder for clients, mgb, and the libraries that programs need, all read-only.
/// Programs in it start by `mgb run`, as outside.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub struct Args {
    /// The file, whole or not at all, such as /etc/cdi/mgb.json; `-`: standard output.
    #[arg(long, value_name = "FILE", default_value = "-")]
    output: PathBuf,
    /// The device's name: another one for each mgbd of a node that has several.
    #[arg(long, value_name = "NAME", default_value = "default", value_parser = device_name)]
    name: String,
}

/// Runs the command.
pub fn run(args: &Args) -> CommandResult {
    let prefix = Prefix::find().code(exit::NODE)?;
    let machine = Machine::find(&prefix).code(exit::NODE)?;
    machine.notice();
    let edits = parts::edits(&socket(), &prefix, &machine).code(exit::NODE)?;
    let text = out::json(&CdiFile::of(&args.name, edits)).code(exit::NODE)?;
    if args.output == Path::new("-") {
        out::print(&text);
        return Ok(exit::OK);
    }
    write(&args.output, &text)?;
    let name = &args.name;
    mgb_command::tell!(
        "mgb: wrote {}: containers get MGB by --device {KIND}={name}",
        args.output.display()
    );
    let folder = args.output.parent().and_then(|folder| folder.canonicalize().ok());
    if !FOLDERS
        .iter()
        .any(|known| folder.as_deref() == Some(Path::new(known)))
    {
        mgb_command::tell!("mgb: engines look in /etc/cdi and /var/run/cdi, unless they are told otherwise");
    }
    Ok(exit::OK)
}

/// As all commands find it; but that of the node's mgbd also before it listens, where its folder was made at
/// boot.
fn socket() -> PathBuf {
    let nodes = PathBuf::from(NODE_SOCKET);
    let is_to_come = variable("MGB_SOCKET").is_none() && folders::clients_of(&nodes).is_dir();
    if is_to_come { nodes } else { socket_path() }
}

fn write(file: &Path, text: &str) -> Result<(), Failure> {
    let ending = file.extension().and_then(|ending| ending.to_str());
    if !matches!(ending, Some("json" | "yaml")) {
        let error = anyhow!(
            "failed to write {}: engines read files that end in .json or .yaml alone",
            file.display()
        );
        return Err(Failure::new(exit::USAGE, error));
    }
    out::replace(file, |to| to.write_all(text.as_bytes()))
        .with_context(|| {
            format!(
                "failed to write {}; `mgb container cdi` without --output prints it",
                file.display()
            )
        })
        .code(exit::USAGE)
}
