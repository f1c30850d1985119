//! MPS: its control program, and the control daemons that run.

use std::path::PathBuf;

use mgb_command::machine::variable;
use mgb_interface::mps::{self, MPS_CONTROL};
use mgb_probe::socket_path;

use super::super::driver::GpuChoice;
use super::super::mps::MpsFacts;
use super::mgbd::SeenMgbd;
use crate::program;

/// Where a control daemon is that was started without more.
const USUAL: &str = "/tmp/nvidia-mps";
const VARIABLE: &str = "CUDA_MPS_PIPE_DIRECTORY";

/// Looks for them.
pub fn look(use_of: &GpuChoice, mgbd: Option<&SeenMgbd>) -> MpsFacts {
    let pipe = mps::pipe_of(&socket_path());
    let variable = variable(VARIABLE).map(PathBuf::from);
    let mut others: Vec<PathBuf> = variable.iter().cloned().chain([USUAL.into()]).collect();
    others.dedup();
    others.retain(|other| *other != pipe);
    let hello = mgbd.and_then(SeenMgbd::hello);
    MpsFacts {
        software: matches!(use_of, GpuChoice::Chosen(_) | GpuChoice::Instead),
        running: hello.map(|hello| {
            let why = || {
                hello
                    .mps_note
                    .clone()
                    .unwrap_or_else(|| "it does not say why".to_owned())
            };
            hello.mps_pipe.clone().ok_or_else(why)
        }),
        control: program::find(MPS_CONTROL).ok(),
        others: others
            .into_iter()
            .filter_map(|other| mps::control(&other).map(|control| (other, control)))
            .collect(),
        pipe,
        variable,
        uid: rustix::process::getuid().as_raw(),
    }
}
