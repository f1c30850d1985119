//! Fills in the facts: from slurmctld, this machine's files, and its mgbd.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use mgb_command::daemon;
use mgb_probe::{Client, NODE_SOCKET};

use super::node::{Mgbd, NodeFacts};
use super::plugin::{self, PluginFacts, PlugstackLine};
use super::site::SiteFacts;
use crate::cluster::accounting_spool::Outbox;
use crate::cluster::plugin::{installed, stamped};
use crate::tools;
use crate::tools::counts::NodeCounts;

/// The facts that all checks read.
pub struct Facts {
    /// The facts about the cluster.
    pub site: SiteFacts,
    /// This machine's, if it is a node.
    pub node: Option<NodeFacts>,
    /// The facts about the plugin.
    pub plugin: PluginFacts,
}

/// Looks at everything.
pub fn look() -> Facts {
    let config = tools::run("scontrol", &["show", "config"]).map(|text| settings(&text));
    let config = config.map_err(|error| format!("{error:#}"));
    let of = |name: &str| {
        config
            .as_ref()
            .ok()?
            .get(name)
            .filter(|value| *value != "(null)")
            .cloned()
    };
    let folder = of("SLURM_CONF").and_then(|file| Some(PathBuf::from(file).parent()?.to_owned()));
    let folder = folder.unwrap_or_else(|| PathBuf::from("/etc/slurm"));
    let stack = of("PlugStackConfig").map_or_else(|| folder.join("plugstack.conf"), PathBuf::from);
    let line = stacked(&stack).and_then(|text| plugin::find(&text)).map(line);
    let plugin = PluginFacts {
        slurm: installed().map_err(|error| format!("{error:#}")),
        stack,
        line,
    };
    Facts {
        node: node(&folder),
        site: SiteFacts {
            config,
            has_plugin: plugin.line.is_some(),
        },
        plugin,
    }
}

/// `Name = value` lines.
fn settings(text: &str) -> BTreeMap<String, String> {
    let pairs = text.lines().filter_map(|line| line.split_once(" = "));
    pairs
        .map(|(name, value)| (name.trim().to_owned(), value.trim().to_owned()))
        .collect()
}

/// The text of a plugstack.conf with what it includes: a file, or all of a folder's by `/*`.
fn stacked(stack: &Path) -> Option<String> {
    let text = std::fs::read_to_string(stack).ok()?;
    let mut all = String::new();
    for line in text.lines() {
        let Some(included) = line.trim().strip_prefix("include ") else {
            all.push_str(line);
            all.push('\n');
            continue;
        };
        let included = Path::new(included.trim());
        let mut files = vec![included.to_owned()];
        if let (Some(folder), Some(pattern)) = (included.parent(), included.file_name())
            && pattern.to_string_lossy().contains('*')
        {
            let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
            files = entries.map(|entry| entry.path()).collect();
        }
        all.extend(files.iter().filter_map(|file| std::fs::read_to_string(file).ok()));
    }
    Some(all)
}

fn line((rule, file, options): (String, PathBuf, Vec<String>)) -> PlugstackLine {
    let prefix = options.iter().find_map(|option| option.strip_prefix("prefix="));
    let prefix = PathBuf::from(prefix.unwrap_or("/usr/local"));
    let read = std::fs::read(&file).map_err(|error| format!("{}: {error}", file.display()));
    let version = read.and_then(|text| {
        stamped(&text).map_err(|error| format!("{} is not MGB's plugin: {error:#}", file.display()))
    });
    let is_there = prefix.join("bin/mgb").exists();
    PlugstackLine {
        rule,
        file,
        version,
        prefix: (prefix, is_there),
    }
}

fn node(folder: &Path) -> Option<NodeFacts> {
    let name = tools::node_name();
    let record = tools::run("scontrol", &["-o", "show", "node", &name]).ok()?;
    let gres = tools::field(&record, "Gres").unwrap_or_default();
    let cgroup = std::fs::read_to_string(folder.join("cgroup.conf")).unwrap_or_default();
    let constrains = cgroup
        .lines()
        .any(|line| line.trim().eq_ignore_ascii_case("ConstrainDevices=yes"));
    let mgbd =
        Client::observe(Path::new(NODE_SOCKET)).map_err(|error| format!("{:#}", daemon::way_out(error)));
    Some(NodeFacts {
        name,
        counts: NodeCounts::read(&gres),
        gpus: tools::count(&gres, "gpu", ':'),
        constrains,
        undelivered: Outbox::of_node().all().len(),
        mgbd: mgbd.map(|client| Mgbd {
            counts: NodeCounts::of(&client.hello().gpus),
            mode: std::fs::metadata(NODE_SOCKET).map_or(0, |file| file.permissions().mode() & 0o777),
            mps_note: client.hello().mps_note.clone(),
        }),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_and_included_files_are_read() {
        let read =
            settings("Configuration data as of now\nGresTypes               = a,b\nSLURM_CONF = /etc/x\n");
        assert_eq!(read["GresTypes"], "a,b");
        let folder = tempfile::tempdir().unwrap();
        let (stack, more) = (folder.path().join("plugstack.conf"), folder.path().join("more"));
        std::fs::create_dir(&more).unwrap();
        std::fs::write(more.join("mgb.conf"), "optional /x/mgb_spank.so\n").unwrap();
        std::fs::write(&stack, format!("include {}/*\n", more.display())).unwrap();
        assert!(plugin::find(&stacked(&stack).unwrap()).is_some());
        assert!(stacked(&more.join("none")).is_none());
    }
}
