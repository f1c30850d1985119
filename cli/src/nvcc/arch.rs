//! Which GPUs code is generated for: `-arch`, `-code` and `-gencode`.

use anyhow::{Context, Result, bail};

use super::parse::NvccCommandLine;
use super::table::Meaning;

/// The oldest architecture that CUDA 13 has code for.
const OLDEST: u32 = 75;

/// Code for one architecture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// What follows `sm_` and `compute_`.
    pub number: String,
    /// Whether PTX is kept for later GPUs.
    pub ptx: bool,
}

/// The architectures asked for, in the order given; none when the choice is left to the compiler.
///
/// # Errors
/// On names that are none, on those that CUDA 13 has no code for, and on `-code` without `-arch`.
pub fn targets(request: &NvccCommandLine) -> Result<Vec<Target>> {
    let mut targets = Vec::new();
    let codes: Vec<&str> = request.values(Meaning::Code).collect();
    match request.last(Meaning::Arch) {
        None if !codes.is_empty() => {
            bail!(
                "{} needs -arch, the architecture to compile for",
                request.written(Meaning::Code)
            )
        }
        // Those of this machine are what matters: left to the compiler.
        None | Some("native" | "all" | "all-major") => {}
        Some(arch) if codes.is_empty() => {
            add(&mut targets, arch)?;
            if arch.starts_with("sm_") {
                add(&mut targets, &arch.replacen("sm_", "compute_", 1))?;
            }
        }
        Some(arch) => {
            number(arch)?;
            add_all(&mut targets, &codes)?;
        }
    }
    for specification in request.values(Meaning::Gencode) {
        generate(&mut targets, specification).with_context(|| format!("-gencode {specification}"))?;
    }
    Ok(targets)
}

/// `arch=compute_90,code=[sm_90,compute_90]`, the brackets or quotes left out where there is one.
fn generate(targets: &mut Vec<Target>, specification: &str) -> Result<()> {
    let plain: String = specification
        .chars()
        .filter(|character| !matches!(character, '"' | '\'' | '[' | ']' | '\\' | ' '))
        .collect();
    let (arch, codes) = plain
        .strip_prefix("arch=")
        .and_then(|rest| rest.split_once(",code="))
        .context("arch=compute_XX,code=sm_XX is needed")?;
    number(arch)?;
    add_all(targets, &codes.split(',').collect::<Vec<_>>())
}

fn add_all(targets: &mut Vec<Target>, codes: &[&str]) -> Result<()> {
    codes.iter().try_for_each(|code| add(targets, code))
}

fn add(targets: &mut Vec<Target>, code: &str) -> Result<()> {
    let number = number(code)?;
    let ptx = code.starts_with("compute_");
    match targets.iter_mut().find(|target| target.number == number) {
        Some(target) => target.ptx |= ptx,
        None => targets.push(Target {
            number: number.to_owned(),
            ptx,
        }),
    }
    Ok(())
}

/// The number of an architecture, such as `90` or `90a`.
fn number(name: &str) -> Result<&str> {
    let number = ["sm_", "compute_", "lto_"]
        .iter()
        .find_map(|start| name.strip_prefix(start));
    let value = number.and_then(|number| number.trim_end_matches(['a', 'f']).parse::<u32>().ok());
    match (number, value) {
        (Some(number), Some(value)) if value >= OLDEST => Ok(number),
        (Some(_), Some(_)) => bail!(
            "{name}: CUDA 13 has no code for it; name sm_{OLDEST} or a later one, or leave the architecture out to \
             compile for this machine's GPU"
        ),
        _ => bail!("{name:?} is not an architecture; sm_XX, compute_XX and native are"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsString;

    fn found(text: &str) -> Result<Vec<(String, bool)>> {
        let words = shlex::split(text).unwrap().into_iter().map(OsString::from);
        let targets = targets(&NvccCommandLine::parse(words)?)?;
        Ok(targets
            .into_iter()
            .map(|target| (target.number, target.ptx))
            .collect())
    }

    #[test]
    fn shorthands() {
        assert_eq!(found("a.cu").unwrap(), []);
        assert_eq!(found("-arch=native").unwrap(), []);
        assert_eq!(found("-arch=sm_90").unwrap(), [("90".into(), true)]);
        assert_eq!(found("-arch=compute_80").unwrap(), [("80".into(), true)]);
        assert_eq!(
            found("-arch=compute_80 -code=sm_80,sm_86").unwrap(),
            [("80".into(), false), ("86".into(), false)]
        );
    }

    #[test]
    fn specifications() {
        assert_eq!(
            found("-gencode arch=compute_80,code=sm_80 --generate-code=arch=compute_90a,code=[sm_90a,compute_90a]").unwrap(),
            [("80".into(), false), ("90a".into(), true)]
        );
        assert_eq!(
            found(r#"-gencode=arch=compute_90,code=\"sm_90,compute_90\""#).unwrap(),
            [("90".into(), true)]
        );
    }

    #[test]
    fn what_is_refused() {
        let error = |text: &str| format!("{:#}", found(text).unwrap_err());
        assert!(error("-arch=sm_35").starts_with("sm_35: CUDA 13 has no code for it"));
        assert!(error("-arch=fast").contains("is not an architecture"));
        assert!(error("-code=sm_90").contains("-code needs -arch"));
        assert!(error("-gencode arch=compute_90").contains("arch=compute_XX,code=sm_XX is needed"));
    }
}
