//! MGB's own parts, the compilers that the wrappers call, and the setting that switches MGB off.

use mgb_command::check_result::Finding;

/// What was found; where it was not, why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolFacts {
    /// MGB's folder, if all is there that programs need at run time.
    pub parts: Result<String, String>,
    /// The pass, or why it cannot be used.
    pub plugin: Result<String, String>,
    /// clang, and the version that it says.
    pub clang: Result<(String, String), String>,
    /// The nvcc of NVIDIA, or why it cannot be used.
    pub nvcc: Result<String, String>,
    /// The CUDA toolkit, and its version.
    pub cuda: Result<(String, (u32, u32)), String>,
    /// The variable `MGB`.
    pub mode: Option<String>,
}

/// The clang that the pass is built for.
const CLANG: &str = "22.";

/// Checks the facts about tools.
pub fn check(facts: &ToolFacts) -> Vec<Finding> {
    let mut findings = vec![match &facts.parts {
        Ok(folder) => Finding::ok("MGB", folder.clone()),
        Err(why) => Finding::problem("MGB", format!("MGB is not complete: {why}"))
            .way_out("run `make build`, or set MGB_PREFIX to the folder that holds bin/mgb"),
    }];
    findings.extend(mode(facts.mode.as_deref()));
    findings.push(compiler(facts));
    findings.push(match &facts.nvcc {
        Ok(path) => Finding::ok("nvcc", path.clone()),
        Err(_) => Finding::ok("nvcc", "none: `mgb nvcc` uses clang; only --keep-nvcc needs it"),
    });
    findings
}

fn mode(mode: Option<&str>) -> Option<Finding> {
    match mode {
        Some("off") => Some(
            Finding::note("MGB=off", "programs run natively: mgbd knows nothing of them")
                .way_out("unset MGB"),
        ),
        _ => None,
    }
}

fn compiler(facts: &ToolFacts) -> Finding {
    let name = "compiler";
    let missing = |why: &str| Finding::note(name, format!("programs run, but none can be built: {why}"));
    match (&facts.clang, &facts.plugin, &facts.cuda) {
        (Err(why), _, _) => missing(why).way_out("install clang-22 and clang-tools-22, or set MGB_CLANG"),
        (Ok((path, version)), _, _) if !version.starts_with(CLANG) => missing(&format!(
            "{path} is clang {version}, and the pass is built for clang 22"
        ))
        .way_out("install clang-22, or correct MGB_CLANG"),
        (_, Err(why), _) => missing(why).way_out("run `make build`"),
        (_, _, Err(why)) => missing(why).way_out("install CUDA 13, set CUDA_PATH, or run `make setup`"),
        (Ok((clang, version)), Ok(_), Ok((cuda, (major, minor)))) => Finding::ok(
            name,
            format!("clang {version} ({clang}), CUDA {major}.{minor} ({cuda})"),
        ),
    }
}

#[cfg(test)]
mod tests {
    use mgb_command::check_result::Severity::{Note, Ok as Fine, Problem};
    use mgb_command::check_result::expect;

    use super::*;

    fn facts() -> ToolFacts {
        ToolFacts {
            parts: Ok("/opt/mgb".to_owned()),
            plugin: Ok("/opt/mgb/lib/libmgb_pass.so".to_owned()),
            clang: Ok(("/usr/bin/clang-22".to_owned(), "22.1.0".to_owned())),
            nvcc: Ok("/usr/local/cuda/bin/nvcc".to_owned()),
            cuda: Ok(("/usr/local/cuda".to_owned(), (13, 0))),
            mode: Some("require".to_owned()),
        }
    }

    fn gone() -> String {
        "it is gone".to_owned()
    }

    #[test]
    fn what_is_there_is_named() {
        let found = check(&facts());
        expect(&found, "MGB", Fine, &["/opt/mgb"]);
        expect(
            &found,
            "compiler",
            Fine,
            &["clang 22.1.0", "CUDA 13.0", "/usr/local/cuda"],
        );
        expect(&found, "nvcc", Fine, &["/usr/local/cuda/bin/nvcc"]);
        assert_eq!(found.len(), 3);
    }

    #[test]
    fn without_its_own_parts_nothing_runs() {
        let broken = ToolFacts {
            parts: Err(gone()),
            ..facts()
        };
        expect(&check(&broken), "MGB", Problem, &["it is gone", "make build"]);
    }

    #[test]
    fn without_a_compiler_programs_run() {
        for (facts, words) in [
            (
                ToolFacts {
                    clang: Err(gone()),
                    ..facts()
                },
                ["it is gone", "MGB_CLANG"],
            ),
            (
                ToolFacts {
                    clang: Ok(("/usr/bin/clang".to_owned(), "19.1.7".to_owned())),
                    ..facts()
                },
                ["clang 19.1.7", "clang-22"],
            ),
            (
                ToolFacts {
                    plugin: Err(gone()),
                    ..facts()
                },
                ["it is gone", "make build"],
            ),
            (
                ToolFacts {
                    cuda: Err(gone()),
                    ..facts()
                },
                ["it is gone", "CUDA_PATH"],
            ),
        ] {
            expect(&check(&facts), "compiler", Note, &words);
        }
        let without = ToolFacts {
            nvcc: Err(gone()),
            ..facts()
        };
        expect(&check(&without), "nvcc", Fine, &["--keep-nvcc"]);
    }

    #[test]
    fn mgb_switched_off_is_said() {
        let off = ToolFacts {
            mode: Some("off".to_owned()),
            ..facts()
        };
        expect(&check(&off), "MGB=off", Note, &["natively", "unset MGB"]);
    }
}
