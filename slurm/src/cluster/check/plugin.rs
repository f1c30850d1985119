//! The SPANK plugin on this machine.

use std::path::PathBuf;

use mgb_command::check_result::Finding;

use crate::cluster::plugin::Version;

const NAME: &str = "plugin";

/// What was found of it.
#[derive(Clone, Debug)]
pub struct PluginFacts {
    /// Slurm's version here.
    pub slurm: Result<Version, String>,
    /// The file of plugstack.conf.
    pub stack: PathBuf,
    /// The plugin's line there, if it has one.
    pub line: Option<PlugstackLine>,
}

/// A line of plugstack.conf.
#[derive(Clone, Debug)]
pub struct PlugstackLine {
    /// `optional` or `required`.
    pub rule: String,
    /// The plugin's file.
    pub file: PathBuf,
    /// The version of Slurm that it is for, or why that is not known.
    pub version: Result<Version, String>,
    /// The prefix that it names, and whether `bin/mgb` is there.
    pub prefix: (PathBuf, bool),
}

/// Finds the plugin's line in the text of a plugstack.conf: its rule, file and options.
pub fn find(text: &str) -> Option<(String, PathBuf, Vec<String>)> {
    text.lines().find_map(|line| {
        let line = line.split('#').next().unwrap_or("");
        let mut words = line.split_whitespace();
        let (rule, file) = (words.next()?, words.next()?);
        let is_it = file.contains("mgb_spank") && matches!(rule, "optional" | "required");
        is_it.then(|| {
            (
                rule.to_owned(),
                PathBuf::from(file),
                words.map(str::to_owned).collect(),
            )
        })
    })
}

/// Checks the facts about the plugin.
pub fn check(facts: &PluginFacts) -> Vec<Finding> {
    let slurm = match &facts.slurm {
        Ok(version) => *version,
        Err(why) => {
            return vec![
                Finding::problem("Slurm", why.clone()).way_out("install Slurm's commands (slurm-client)"),
            ];
        }
    };
    let stack = facts.stack.display();
    let Some(line) = &facts.line else {
        let text = format!(
            "not in {stack} of this machine: tasks come under MGB by TaskProlog alone, and suspension \
                            leaves their memory on the GPUs"
        );
        return vec![Finding::note(NAME, text).way_out("`mgb cluster setup` prints the line")];
    };
    let file = line.file.display();
    let write = format!("mgb cluster plugin --out {file}");
    let mut findings = vec![match &line.version {
        Ok(version) if slurm.takes(*version) => Finding::ok(NAME, format!("{file}, for Slurm {version}")),
        Ok(version) => {
            let text = format!("{file} is for Slurm {version}, and this is {slurm}: it is not loaded");
            Finding::problem(NAME, text).way_out(write)
        }
        Err(why) => Finding::problem(NAME, why.clone()).way_out(write),
    }];
    if line.rule != "optional" {
        let text = format!(
            "{stack} says `{}`: where it cannot be loaded, no job starts",
            line.rule
        );
        findings.push(
            Finding::note("plugstack.conf", text).way_out("`optional`, as `mgb cluster setup` prints it"),
        );
    }
    let (prefix, is_there) = &line.prefix;
    if !is_there {
        let text = format!(
            "it calls {}/bin/mgb, which is not there: jobs run without MGB",
            prefix.display()
        );
        findings.push(
            Finding::problem("prefix", text).way_out(format!("name MGB's folder in {stack}: prefix=/FOLDER")),
        );
    }
    findings
}

#[cfg(test)]
mod tests {
    use mgb_command::check_result::Severity::{Note, Ok as Fine, Problem};
    use mgb_command::check_result::expect;

    use super::*;

    fn facts(version: &str, rule: &str, is_there: bool) -> PluginFacts {
        PluginFacts {
            slurm: "22.05.8".parse(),
            stack: "/etc/slurm/plugstack.conf".into(),
            line: Some(PlugstackLine {
                rule: rule.to_owned(),
                file: "/etc/slurm/mgb_spank.so".into(),
                version: version.parse(),
                prefix: ("/usr/local".into(), is_there),
            }),
        }
    }

    #[test]
    fn the_plugin_has_to_be_that_of_this_slurm() {
        let right = check(&facts("22.05.0", "optional", true));
        assert_eq!(right.len(), 1);
        expect(&right, "plugin", Fine, &["22.05.0"]);
        let words = [
            "24.11.5",
            "not loaded",
            "mgb cluster plugin --out /etc/slurm/mgb_spank.so",
        ];
        expect(
            &check(&facts("24.11.5", "optional", true)),
            "plugin",
            Problem,
            &words,
        );
        expect(
            &check(&facts("what", "optional", true)),
            "plugin",
            Problem,
            &["what"],
        );
        expect(
            &check(&facts("22.05.8", "required", true)),
            "plugstack.conf",
            Note,
            &["no job starts"],
        );
        expect(
            &check(&facts("22.05.8", "optional", false)),
            "prefix",
            Problem,
            &["/usr/local/bin/mgb"],
        );
        let none = PluginFacts {
            line: None,
            ..facts("22.05.8", "optional", true)
        };
        expect(&check(&none), "plugin", Note, &["TaskProlog"]);
    }

    #[test]
    fn its_line_is_found() {
        let text = "# optional /x/mgb_spank.so\nrequired /other.so\n  optional\t/etc/mgb_spank.so prefix=/opt # here\n";
        let (rule, file, options) = find(text).unwrap();
        assert_eq!(
            (rule.as_str(), file),
            ("optional", PathBuf::from("/etc/mgb_spank.so"))
        );
        assert_eq!(options, ["prefix=/opt"]);
        assert!(find("").is_none());
    }
}
