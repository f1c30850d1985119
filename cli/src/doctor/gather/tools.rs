//! MGB's parts and the compilers.

use std::path::Path;
use std::process::Command;

use mgb_command::machine::variable;
use mgb_command::prefix::Prefix;

use super::super::tools::ToolFacts;
use crate::clang::tools::find_clang;
use crate::cuda::Cuda;
use crate::nvcc;

/// Looks for them.
pub fn look() -> ToolFacts {
    let shown = |path: &Path| path.display().to_string();
    let said = |error: anyhow::Error| format!("{error:#}");
    let prefix = Prefix::find();
    let of_prefix = |prefix: &Prefix| {
        prefix.mgbd()?;
        prefix.runtime()?;
        prefix.front()?;
        prefix.softgpu()?;
        anyhow::Ok(shown(prefix.path()))
    };
    let (parts, plugin, nvcc, cuda) = match &prefix {
        Ok(prefix) => (
            of_prefix(prefix).map_err(said),
            prefix.plugin().map(|path| shown(&path)).map_err(said),
            nvcc::path(prefix).map(|path| shown(&path)).map_err(said),
            Cuda::find(prefix)
                .map(|cuda| (shown(&cuda.root), cuda.version))
                .map_err(said),
        ),
        Err(error) => {
            let why = || format!("{error:#}");
            (Err(why()), Err(why()), Err(why()), Err(why()))
        }
    };
    ToolFacts {
        parts,
        plugin,
        clang: find_clang().map_err(said).and_then(|clang| {
            let version = version(&clang)?;
            Ok((shown(&clang), version))
        }),
        nvcc,
        cuda,
        mode: variable("MGB").map(|mode| mode.to_string_lossy().into_owned()),
    }
}

fn version(clang: &Path) -> Result<String, String> {
    let failed = |why: String| format!("{} does not run: {why}", clang.display());
    let output = Command::new(clang).arg("-dumpversion").output();
    let output = output.map_err(|error| failed(error.to_string()))?;
    if !output.status.success() {
        return Err(failed(output.status.to_string()));
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
