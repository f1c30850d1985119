//! `mgb container kubelet`: a device plugin, by which pods of Kubernetes ask for GPU memory of a node.

mod api;
mod plugin;
mod registration;
mod services;
mod units;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use mgb_command::exit::{self, CommandResult, WithCode};
use mgb_probe::socket_path;
use mgb_probe::view::NodeView;
use tokio::sync::watch;
use tokio::time::sleep;

use self::plugin::MemoryPlugin;
use self::registration::Place;
use self::units::Units;
use crate::look::look;
use crate::stop::stop_signal;

/// How often the node is looked at.
const LOOK_INTERVAL: Duration = Duration::from_secs(5);
/// How long a restart of mgbd may take until its memory leaves the offer.
const RESTART_TIMEOUT: Duration = Duration::from_secs(1);
/// What pods ask for.
const RESOURCE: &str = "mgb.dev/gpu-memory-gib";

const HELP: &str = "\
Run it on each node as root, beside mgbd, after `mgb container cdi --output /etc/cdi/mgb.json`. A pod that \
asks for `mgb.dev/gpu-memory-gib: 8` is put where 8 GiB of GPU memory are left, and its container gets the \
devices of --cdi-device; its program starts by `mgb run`. The number is a promise of the pod: mgbd admits, \
evicts and moves its programs by what they take. docs/CONTAINERS.md has the set-up.

Exit code: 0 once it is ended by a signal, 2 for a mistake in the options, 3 if it cannot run.";

/// Serve the node's GPU memory to Kubernetes: pods ask for mgb.dev/gpu-memory-gib (device plugin, v1beta1).
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub struct Args {
    /// The kubelet's folder for plugins.
    #[arg(
        long,
        value_name = "FOLDER",
        default_value = "/var/lib/kubelet/device-plugins"
    )]
    folder: PathBuf,
    /// What a container gets; may be given several times.
    #[arg(
        long = "cdi-device",
        value_name = "NAME",
        default_values = ["nvidia.com/gpu=all", "mgb.dev/node=default"],
        value_parser = cdi_device
    )]
    cdi_devices: Vec<String>,
    /// Offer so many times the memory that the GPUs have, 1 to 16: what is idle is evicted to host memory.
    #[arg(long, value_name = "FACTOR", default_value = "1", value_parser = factor)]
    overcommit: f64,
}

/// Runs the command.
pub fn run(args: &Args) -> CommandResult {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(1)
        .build();
    let runtime = runtime.context("failed to start a runtime").code(exit::NODE)?;
    runtime.block_on(serve(args)).code(exit::NODE)?;
    Ok(exit::OK)
}

async fn serve(args: &Args) -> Result<()> {
    let stopped = stop_signal()?;
    let (seen, units) = watch::channel(Units::default());
    let place = Place {
        folder: args.folder.clone(),
        resource: RESOURCE.to_owned(),
        plugin: MemoryPlugin {
            units,
            cdi_devices: args.cdi_devices.clone(),
        },
    };
    tokio::select! {
        () = watch_node(&seen, args.overcommit) => {}
        () = place.serve() => {}
        () = stopped => {}
    }
    Ok(())
}

/// Keeps what is known of the node; never returns.
async fn watch_node(seen: &watch::Sender<Units>, overcommit: f64) {
    let mut told = None;
    loop {
        let mut view = look_at_node().await;
        if view.is_err() {
            // A pod that starts while mgbd does is not to wait for it.
            sleep(RESTART_TIMEOUT).await;
            view = look_at_node().await;
        }
        let next = seen.borrow().after(view.as_ref().ok(), overcommit);
        let says = match &view {
            Ok(_) => format!("{} GiB of GPU memory are to be had", next.healthy()),
            Err(error) => format!("no GPU memory is to be had: {error:#}"),
        };
        if told.as_ref() != Some(&says) {
            mgb_command::tell!("mgb container kubelet: {says}");
            told = Some(says);
        }
        seen.send_if_modified(|units| {
            let is_new = *units != next;
            *units = next;
            is_new
        });
        sleep(LOOK_INTERVAL).await;
    }
}

async fn look_at_node() -> Result<NodeView> {
    let socket = socket_path();
    tokio::task::spawn_blocking(move || look(&socket)).await?
}

fn factor(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(factor) if (1.0..=16.0).contains(&factor) => Ok(factor),
        _ => Err("a number from 1 to 16".to_owned()),
    }
}

fn cdi_device(text: &str) -> Result<String, String> {
    let parts = text
        .split_once('/')
        .and_then(|(vendor, rest)| Some((vendor, rest.split_once('=')?)));
    match parts {
        Some((vendor, (class, name))) if ![vendor, class, name].contains(&"") => Ok(text.to_owned()),
        _ => Err("VENDOR/CLASS=NAME, such as mgb.dev/node=default".to_owned()),
    }
}
