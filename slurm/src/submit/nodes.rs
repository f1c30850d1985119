//! The GPU memory that the cluster's nodes have, as Slurm counts it.

use anyhow::{Result, bail};

use crate::tools::counts::NodeCounts;
use crate::tools::{self, MEMORY};

/// The nodes that have any.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Nodes {
    /// MiB of the node with the most.
    pub most_mib: u64,
    /// MiB of a node's largest GPU, where that is the least.
    pub least_gpu_mib: u64,
    /// The same where it is the most.
    pub most_gpu_mib: u64,
    /// Hundredths of GPUs of the node with the most.
    pub most_share: u64,
}

impl Nodes {
    /// Asks Slurm.
    ///
    /// # Errors
    /// Slurm does not answer, or no node has GPU memory to count.
    pub fn read() -> Result<Nodes> {
        let said = tools::run("scontrol", &["show", "nodes", "-o"])?;
        let Some(nodes) = Nodes::of(&said) else {
            bail!(
                "no node of this cluster has {MEMORY}: its administrator has to set MGB up (docs/SLURM.md), and until \
                 then there is sbatch"
            );
        };
        Ok(nodes)
    }

    /// Those of what Slurm prints; `None`: it counts GPU memory of none.
    pub fn of(said: &str) -> Option<Nodes> {
        let mut all: Option<Nodes> = None;
        for list in said.lines().filter_map(|line| tools::field(line, "Gres")) {
            let counts = NodeCounts::read(&list);
            if counts.memory == 0 {
                continue;
            }
            let so_far = all.get_or_insert_with(|| Nodes {
                least_gpu_mib: counts.whole,
                ..Nodes::default()
            });
            so_far.most_mib = so_far.most_mib.max(counts.most_mib());
            so_far.most_share = so_far.most_share.max(counts.share);
            so_far.least_gpu_mib = so_far.least_gpu_mib.min(counts.whole);
            so_far.most_gpu_mib = so_far.most_gpu_mib.max(counts.whole);
        }
        all
    }

    /// Why a job that wants so many hundredths of GPUs would wait for ever, if it would.
    pub fn refuse_share(&self, share: u64) -> Option<String> {
        let most = self.most_share;
        (share > most).then(|| {
            format!("--gpu-share {share}: no node has so much, the most is {most} (100 for each GPU)")
        })
    }

    /// Why a job that needs so much, and so much of one GPU, would wait for ever, if it would.
    pub fn refuse(&self, mib: u64, gpu_mib: u64) -> Option<String> {
        let (most, most_of_gpu) = (self.most_mib, self.most_gpu_mib);
        if mib > most {
            return Some(format!(
                "no node has {mib} MiB of GPU memory: the most is {most} MiB"
            ));
        }
        (gpu_mib > most_of_gpu).then(|| format!("no GPU has {gpu_mib} MiB: the most is {most_of_gpu} MiB"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_of_different_kinds_are_looked_at() {
        let said = "NodeName=n1 Gres=mgb_mem:192,mgb_share:200,mgb_gpu:no_consume:64 OS=x\nNodeName=n2 \
                    Gres=mgb_mem:384,mgb_share:100,mgb_gpu:no_consume:256 OS=x\nNodeName=n3 Gres=gpu:2\nNodeName=n4 Gres=(null)\n";
        let nodes = Nodes::of(said).unwrap();
        assert_eq!(
            (nodes.most_mib, nodes.least_gpu_mib, nodes.most_gpu_mib),
            (256, 64, 256)
        );
        assert!(nodes.refuse(256, 256).is_none() && nodes.refuse_share(200).is_none());
        assert!(nodes.refuse_share(201).unwrap().contains("the most is 200"));
        assert!(nodes.refuse(257, 9).unwrap().contains("the most is 256 MiB"));
        assert!(nodes.refuse(256, 257).unwrap().contains("no GPU has 257 MiB"));
        assert_eq!(Nodes::of("NodeName=n1 Gres=gpu:2\n"), None);
    }
}
