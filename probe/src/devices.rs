//! The GPUs of a process in the order in which it counts them.
//!
//! `CUDA_VISIBLE_DEVICES` numbers the node's GPUs. The processes of a job share memory by those numbers, so
//! all of them have the same [`Numbering`].

use crate::hello::Hello;
use crate::numbering::Numbering;
use crate::visible::visible_gpus;

/// The GPUs that a process may use, in its order: positions in [`Hello::gpus`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ProcessGpus {
    order: Vec<u32>,
    /// They are named by UUIDs, not counted.
    is_named: bool,
}

impl ProcessGpus {
    /// What a value of `CUDA_VISIBLE_DEVICES` (`None`: not set) leaves a process.
    pub(crate) fn of(list: Option<&str>, hello: &Hello) -> ProcessGpus {
        let last = hello.gpus.iter().map(|gpu| gpu.node_index as usize).max();
        let mut uuids = vec![""; last.map_or(0, |last| last + 1)];
        for gpu in &hello.gpus {
            uuids[gpu.node_index as usize] = &gpu.uuid;
        }
        let visible = visible_gpus(list, &uuids).unwrap_or_default();
        let shared = |at: usize| hello.gpus.iter().find(|gpu| gpu.node_index as usize == at);
        let mut order: Vec<u32> = visible
            .into_iter()
            .filter_map(shared)
            .map(|gpu| gpu.index)
            .collect();
        let may = |gpu: &u32| hello.usable.is_none_or(|usable| usable >> gpu & 1 == 1);
        // Where all are kept for others the process has them in vain: mgbd says why, as it asks for one.
        if order.iter().any(may) {
            order.retain(may);
        }
        ProcessGpus {
            order,
            is_named: list.is_some_and(|list| list.contains("GPU-")),
        }
    }

    /// The positions of the devices, in the order in which the program sees them.
    pub(crate) fn order(&self) -> &[u32] {
        &self.order
    }

    /// The same as a set, one bit each.
    pub(crate) fn mask(&self) -> u64 {
        let bit = |gpu: &u32| 1u64.checked_shl(*gpu).unwrap_or(0);
        self.order.iter().map(bit).fold(0, |mask, bit| mask | bit)
    }

    /// Whether its job's numbering is this process's.
    pub(crate) fn follows(&self, numbering: &Numbering) -> bool {
        !self.is_named || numbering.moved().all(|gpu| self.order.contains(&gpu))
    }

    /// The order with a job's numbering. A number stands for another GPU then. A UUID is what it is: GPUs that
    /// are named by theirs change places only if the process has all that do.
    pub(crate) fn numbered(&self, numbering: &Numbering) -> ProcessGpus {
        let mut changed = self.clone();
        if self.follows(numbering) {
            changed
                .order
                .iter_mut()
                .for_each(|gpu| *gpu = numbering.gpu(*gpu));
        }
        changed
    }

    /// The numbers that stood for another GPU when a process of such devices connected, each with that GPU's
    /// own number on the node.
    pub(crate) fn renumbered(&self, hello: &Hello) -> Vec<(u32, u32)> {
        let numbering = match hello.exchanged {
            _ if !hello.numbering.is_empty() => Numbering::of(&hello.numbering),
            exchanged => exchanged.map(|[from, to]| Numbering::exchanging(from, to)),
        };
        let Some(numbering) = numbering.filter(|numbering| self.follows(numbering)) else {
            return Vec::new();
        };
        let number = |at: u32| Some(hello.gpus.get(at as usize)?.node_index);
        let pair = |at: u32| Some((number(at)?, number(numbering.gpu(at))?));
        numbering.moved().filter_map(pair).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hello::{Gpu, MpsClient, Multiprocessors};

    fn hello(node_indices: &[u32]) -> Hello {
        let gpu = |(index, &node_index): (usize, &u32)| Gpu {
            index: index as u32,
            node_index,
            uuid: format!("GPU-{node_index}"),
            name: String::new(),
            total_bytes: 1,
            usable_bytes: 1,
            context_bytes: 1,
            max_warps: 1,
            multiprocessors: Multiprocessors {
                count: 1,
                blocks: 1,
                warps: 1,
                registers: 1,
                partitions: 1,
                shared_bytes: 1,
                shared_reserved: 1,
                shared_unit: 1,
            },
        };
        Hello {
            version: 0,
            policy: String::new(),
            queue: String::new(),
            mps_pipe: None,
            mps_note: None,
            mps_client: MpsClient::default(),
            class: None,
            gpus: node_indices.iter().enumerate().map(gpu).collect(),
            mgbd_pid: 1,
            client_pid: None,
            exchanged: None,
            numbering: Vec::new(),
            usable: None,
            view: None,
        }
    }

    #[test]
    fn numbers_are_the_nodes() {
        let whole = hello(&[0, 1, 2]);
        let of = |list| ProcessGpus::of(list, &whole);
        assert_eq!((of(None).order(), of(None).mask()), ([0, 1, 2].as_slice(), 7));
        assert_eq!(of(Some("2,0")).order(), [2, 0]);
        assert_eq!(of(Some("")).order(), [] as [u32; 0]);
        // An mgbd that shares the second and the third.
        let part = hello(&[1, 2]);
        assert_eq!(ProcessGpus::of(Some("2,1"), &part).order(), [1, 0]);
        assert_eq!(ProcessGpus::of(None, &part).order(), [0, 1]);
        // One that keeps some for others.
        let kept = |usable| Hello {
            usable: Some(usable),
            ..hello(&[0, 1, 2])
        };
        assert_eq!(ProcessGpus::of(None, &kept(0b101)).order(), [0, 2]);
        assert_eq!(ProcessGpus::of(Some("2,1,0"), &kept(0b011)).order(), [1, 0]);
        assert_eq!(
            ProcessGpus::of(Some("2"), &kept(0b011)).order(),
            [2],
            "mgbd says why not"
        );
    }

    #[test]
    fn a_jobs_processes_mean_the_same_by_a_number() {
        let hello = hello(&[0, 1, 2, 3]);
        let after = |list| {
            ProcessGpus::of(list, &hello)
                .numbered(&Numbering::exchanging(0, 2))
                .order()
                .to_vec()
        };
        assert_eq!(after(None), [2, 1, 0, 3]);
        assert_eq!(after(Some("0")), [2], "the first process's device 0");
        assert_eq!(after(Some("3,2")), [3, 0]);
        assert_eq!(after(Some("1,3")), [1, 3]);
        assert_eq!(after(Some("GPU-0,GPU-2")), [2, 0]);
        assert_eq!(after(Some("GPU-0")), [0], "no other GPU has this name");
        let turned = Numbering::of(&[3, 2, 0, 1]).unwrap();
        let after = |list| ProcessGpus::of(list, &hello).numbered(&turned).order().to_vec();
        assert_eq!(after(None), [3, 2, 0, 1]);
        assert_eq!(after(Some("1")), [2], "a rank's only device");
        assert_eq!(after(Some("GPU-1,GPU-3")), [1, 3], "others are missing");
    }
}
