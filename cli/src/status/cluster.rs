//! `mgb status --cluster`: what the nodes of a Slurm cluster have last said of their GPUs (`mgb cluster
//! health`).

use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Result;
use mgb_command::table::Table;
use mgb_probe::byte_size::Bytes;
use mgb_slurm::tools::{self, summary::Summary};
use serde::Serialize;

/// A node, as `--json` prints it.
#[derive(Debug, PartialEq, Serialize)]
pub struct NodeStatus {
    /// The name of the node.
    pub node: String,
    /// Slurm's word for its state.
    pub state: String,
    /// Why it is drained or down.
    pub reason: Option<String>,
    /// MiB of GPU memory that jobs can ask for.
    pub mgb_mem: u64,
    /// MiB that the jobs there have asked for.
    pub mgb_mem_asked: u64,
    /// What it has last said.
    pub summary: Option<Summary>,
}

/// The nodes that have `mgb_mem`.
///
/// # Errors
/// Slurm does not answer.
pub fn nodes() -> Result<Vec<NodeStatus>> {
    Ok(read(&tools::run("scontrol", &["-o", "show", "nodes"])?))
}

/// Those of a text that Slurm prints.
pub fn read(text: &str) -> Vec<NodeStatus> {
    text.lines().filter_map(node).collect()
}

fn node(line: &str) -> Option<NodeStatus> {
    let of = |name: &str| tools::field(line, name);
    let summary = of("Extra").and_then(|extra| Summary::read(&extra));
    let memory = of("Gres").map_or(0, |gres| tools::count(&gres, "mgb_mem", ':'));
    (memory > 0 || summary.is_some()).then_some(())?;
    Some(NodeStatus {
        node: of("NodeName")?,
        state: of("State")?,
        reason: of("Reason"),
        mgb_mem: memory,
        mgb_mem_asked: of("AllocTRES").map_or(0, |tres| tools::count(&tres, "gres/mgb_mem", '=')),
        summary,
    })
}

/// The nodes as a table for the terminal.
pub fn text(nodes: &[NodeStatus]) -> String {
    if nodes.is_empty() {
        return "no node of this cluster has mgb_mem: see `mgb cluster check` and docs/SLURM.md\n".to_owned();
    }
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs());
    let numbers = ["gpus", "usable", "held", "asked for", "tasks", "waiting", "said"];
    let head = [&["node", "state"][..], &numbers, &["reason"]].concat();
    let mut table = Table::new(&head, &numbers);
    for node in nodes {
        let of = |value: &dyn Fn(&Summary) -> String| node.summary.as_ref().map_or("-".to_owned(), value);
        let mib = |mib: u64| Bytes(mib.saturating_mul(1 << 20)).to_string();
        table.row([
            node.node.clone(),
            node.state.to_lowercase(),
            of(&|said| match said.lost.saturating_add(said.failing) {
                0 => said.gpus.to_string(),
                less => format!("{} of {}", said.gpus.saturating_sub(less), said.gpus),
            }),
            of(&|said| mib(said.usable_mib)),
            of(&|said| mib(said.reserved_mib)),
            mib(node.mgb_mem_asked),
            of(&|said| said.tasks.to_string()),
            of(&|said| said.waiting.to_string()),
            of(&|said| format!("{} s ago", now.saturating_sub(said.at))),
            node.reason.clone().unwrap_or_default(),
        ]);
    }
    table.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_read_with_what_they_said() {
        let text = "NodeName=n1 Arch=x86_64 Gres=mgb_mem:128,mgb_share:200 State=MIXED AllocTRES=cpu=1,gres/mgb_mem=60 \
                    Extra=rack 3 mgb{gpus=2 lost=1 usable_mib=64 reserved_mib=12 tasks=1 waiting=0 at=7}\n\
                    NodeName=n2 Gres=gpu:2 State=IDLE Extra=(null)\n\
                    NodeName=n3 Gres=mgb_mem:2K State=IDLE+DRAIN AllocTRES= Reason=mgb: no mgbd runs\n\
                    NodeName=n4 Gres=mgb_mem:128 State=IDLE \
                    Extra=mgb{gpus=4 lost=0 failing=1 usable_mib=256 reserved_mib=0 tasks=0 waiting=0 at=7}\n";
        let nodes = read(text);
        assert_eq!(
            nodes.iter().map(|node| node.node.as_str()).collect::<Vec<_>>(),
            ["n1", "n3", "n4"]
        );
        assert_eq!((nodes[0].mgb_mem, nodes[0].mgb_mem_asked), (128, 60));
        assert_eq!(nodes[0].summary.as_ref().map(|said| said.lost), Some(1));
        // A build that counted no failing GPUs wrote the first one.
        let failing = |at: usize| nodes[at].summary.as_ref().map(|said| said.failing);
        assert_eq!((failing(0), failing(2)), (Some(0), Some(1)));
        assert_eq!((nodes[1].mgb_mem, nodes[1].summary.is_none()), (2048, true));
        let shown = super::text(&nodes);
        assert!(
            shown.contains("1 of 2") && shown.contains("3 of 4") && shown.contains("mgb: no mgbd runs"),
            "{shown}"
        );
        assert!(super::text(&[]).contains("no node"));
    }
}
