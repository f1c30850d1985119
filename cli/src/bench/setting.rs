//! The node that is measured on: real GPUs, perhaps made smaller by a ballast, or software GPUs of this size.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use mgb_command::daemon::{Private, Start};
use mgb_command::machine::{Machine, variable};
use mgb_command::prefix::Prefix;
use mgb_probe::Hello;

use super::arm::Arm;
use crate::measure::ballast::Ballast;
use crate::measure::{self, Environment};

/// The software GPUs, where the user names none.
const SOFTWARE_GPUS: usize = 4;

/// Their memory, where the user names none: small, since their kernels run on the host's cores.
const SOFTWARE_MEMORY: u64 = 64 << 20;

/// What measured capacities are rounded down to, so that sizes do not hang on a few megabytes of somebody
/// else's.
const ROUND: u64 = 1 << 30;

/// A node as it is.
pub struct BenchNode {
    /// Where MGB is.
    pub prefix: Prefix,
    /// The GPUs that are measured.
    pub machine: Machine,
}

/// The node, made ready.
pub struct ReadyNode {
    /// What it is.
    pub node: BenchNode,
    /// What mgbd says of them.
    pub hello: Hello,
    /// Bytes of a GPU that sizes are parts of.
    pub capacity: u64,
    /// Whether jobs are profiled strictly one at a time.
    pub alone_on_node: bool,
    environment: Environment,
    ballast: Option<Ballast>,
}

impl ReadyNode {
    /// Makes the node ready: `capacity` bytes on each GPU, if so many are wanted.
    ///
    /// # Errors
    /// When there is no GPU, or not so much memory.
    pub fn prepare(
        node: BenchNode,
        capacity: Option<u64>,
        alone_on_node: bool,
        folder: &Path,
    ) -> Result<Self> {
        let BenchNode { prefix, machine } = &node;
        machine.notice();
        if machine.is_soft() && capacity.is_some() && variable("SOFTGPU_DEVICES").is_some() {
            bail!("--capacity and SOFTGPU_DEVICES both say how large software GPUs are: leave one away");
        }
        let memory = capacity.unwrap_or(SOFTWARE_MEMORY).div_ceil(1 << 20);
        let devices = format!("{SOFTWARE_GPUS}x{memory}MiB");
        let environment = measure::software_gpus(machine, folder, &devices);
        let ballast = match capacity.filter(|_| !machine.is_soft()) {
            Some(leave) => {
                let program = prefix.path().join("examples/plain/ballast");
                Some(Ballast::load(&program, leave, machine, &environment)?)
            }
            None => None,
        };
        let arm = Arm {
            policy: "sa".to_owned(),
            queue: None,
            mps: false,
            at_once: None,
        };
        let start = Start {
            environment: environment.clone(),
            options: arm.options(),
            ..Start::at(folder.join("mgbd.sock"), prefix, machine)
        };
        let (mgbd, client) = Private::start(&start)?;
        let view = client.status()?;
        let free = view
            .gpus
            .iter()
            .map(|gpu| gpu.gpu.usable_bytes.saturating_sub(gpu.foreign_bytes))
            .min()
            .context("no GPU at all")?;
        let hello = client.hello().clone();
        drop((client, mgbd));
        let capacity = match &ballast {
            Some(_) => capacity.unwrap_or(free),
            None if free > 2 * ROUND => free / ROUND * ROUND,
            None => free,
        };
        // A ballast leaves what there is where that is less.
        if capacity > free + (1 << 30) {
            bail!(
                "--capacity {} is more than a GPU has free: {}",
                mgb_probe::byte_size::Bytes(capacity),
                mgb_probe::byte_size::Bytes(free)
            );
        }
        Ok(Self {
            node,
            hello,
            capacity,
            alone_on_node,
            environment,
            ballast,
        })
    }

    /// How many GPUs.
    pub fn gpus(&self) -> usize {
        self.hello.gpus.len()
    }

    /// Whether a ballast holds the rest.
    pub fn has_ballast(&self) -> bool {
        self.ballast.is_some()
    }

    /// The workloads: plain, or built with MGB. On software GPUs kernels are in the latter only, which then
    /// run natively where whole processes are placed.
    pub fn folder(&self, plain: bool) -> PathBuf {
        let form = if plain && !self.node.machine.is_soft() {
            "plain"
        } else {
            "mgb"
        };
        self.node.prefix.path().join("benches").join(form)
    }

    /// Variables of everything that runs under this.
    pub fn environment(&self, arm: &Arm) -> Environment {
        let mut environment = self.environment.clone();
        if !arm.places_processes() {
            // A program that cannot reach mgbd, such as one of another version, must not pass for one under
            // it.
            environment.push(("MGB".into(), "require".into()));
        }
        let mps = arm.mps;
        // A real node says so by MPS's daemon, which mgbd does not start then.
        if self.node.machine.is_soft() && !mps {
            environment.push(("SOFTGPU_MPS".into(), "off".into()));
        }
        environment
    }
}
