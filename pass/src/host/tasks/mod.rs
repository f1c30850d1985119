//! Tasks: the ops of one function, merged where they share memory objects (union-find).
pub mod devices;
pub mod ends;
pub mod hints;
pub mod kept;
pub mod placement;

use mgb_catalogue::Treatment;
use mgb_catalogue::report::ReasonCode;
use petgraph::unionfind::UnionFind;

use crate::host::collect::variables::DeviceVariable;
use crate::host::collect::{Callee, Collected};
use crate::host::ir::Value;
use crate::host::objects::Objects;
use crate::host::objects::launches::KernelLaunch;
use crate::host::objects::ops::{self, GpuOp, OpKind};
use crate::host::reason::Why;

/// The ops of one task, and what prevents a static binding.
pub struct Candidate {
    /// Numbers of ops, in the order they stand.
    pub ops: Vec<usize>,
    /// Why they are lazy; empty while they may be static.
    pub obstacles: Vec<Why>,
    /// Why the task runs where the process's device variables have their values; empty if it touches none.
    pub variables: Vec<Why>,
}

/// The merged tasks of a function, in the order of their first ops.
pub fn merge(
    collected: &Collected,
    function: Value,
    launches: &[KernelLaunch],
    objects: &Objects,
) -> Vec<Candidate> {
    let all: Vec<usize> = (0..objects.ops.len()).collect();
    Merge {
        launches,
        objects,
        anchors: anchors(collected, function),
        by_variables: true,
    }
    .group(&all)
}

/// The tasks that remain of one without merging for the sake of device variables: they need not be one, since
/// all that touch those that change run on one GPU. None where that makes no difference.
pub fn part(
    collected: &Collected,
    function: Value,
    launches: &[KernelLaunch],
    objects: &Objects,
    candidate: &Candidate,
) -> Option<Vec<Candidate>> {
    let parts = Merge {
        launches,
        objects,
        anchors: anchors(collected, function),
        by_variables: false,
    }
    .group(&candidate.ops);
    (parts.len() > 1).then_some(parts)
}

struct Merge<'a> {
    launches: &'a [KernelLaunch],
    objects: &'a Objects,
    anchors: Option<Why>,
    /// Whether ops that touch the same device variable are merged into one task.
    by_variables: bool,
}

impl Merge<'_> {
    fn group(&self, ops: &[usize]) -> Vec<Candidate> {
        let objects = self.objects;
        let mut sets = self.sets(ops);
        let nodes = objects.len();
        let mut roots: Vec<usize> = Vec::new();
        let mut tasks: Vec<Candidate> = Vec::new();
        for &number in ops {
            let op = &objects.ops[number];
            let root = sets.find_mut(nodes + number);
            let at = roots.iter().position(|&one| one == root).unwrap_or_else(|| {
                roots.push(root);
                tasks.push(Candidate {
                    ops: Vec::new(),
                    obstacles: Vec::new(),
                    variables: Vec::new(),
                });
                tasks.len() - 1
            });
            tasks[at].ops.push(number);
            tasks[at].obstacles.extend(op.obstacles.iter().cloned());
            if let OpKind::Launch(number) = op.kind {
                tasks[at]
                    .variables
                    .extend(self.launches[number].variables.why.clone());
            }
        }
        for (node, why) in &objects.obstacles {
            if let Some(at) = roots.iter().position(|&root| root == sets.find(*node)) {
                // What no instruction shows is shown by the first op that is given the pointer.
                let shown = || {
                    let class = objects.class(*node);
                    let given = |op: &&GpuOp| op.nodes.iter().any(|&one| objects.class(one) == class);
                    objects.ops.iter().find(given).map(|op| op.call)
                };
                tasks[at].obstacles.push(Why {
                    at: why.at.or_else(shown),
                    ..why.clone()
                });
            }
        }
        for task in &mut tasks {
            self.leave_variables_alone(task);
            task.obstacles.extend(self.anchors.clone());
            let mut seen: Vec<(ReasonCode, String, Option<Value>)> = Vec::new();
            task.obstacles.retain(|why| {
                let key = (why.code, why.text.clone(), why.at);
                let new = !seen.contains(&key);
                seen.push(key);
                new
            });
        }
        tasks
    }

    /// The nodes, then the ops, then the variables: those of one task are in one set.
    fn sets(&self, ops: &[usize]) -> UnionFind<usize> {
        let objects = self.objects;
        let (nodes, all) = (objects.len(), objects.ops.len());
        let mut variables: Vec<&DeviceVariable> = Vec::new();
        if self.by_variables {
            variables.extend(ops.iter().flat_map(|&number| &objects.ops[number].variables));
        }
        let mut sets = UnionFind::<usize>::new(nodes + all + variables.len());
        for node in 0..nodes {
            sets.union(node, objects.class(node));
        }
        for &number in ops {
            let op = &objects.ops[number];
            for &node in &op.nodes {
                sets.union(node, nodes + number);
            }
            for (at, _) in variables
                .iter()
                .enumerate()
                .filter(|(_, variable)| op.variables.contains(variable))
            {
                sets.union(nodes + all + at, nodes + number);
            }
        }
        sets
    }

    /// A task that only copies to and from variables is bound at run time: bound by itself, it would fix the
    /// GPU of the variables without the needs of the tasks that use them.
    fn leave_variables_alone(&self, task: &mut Candidate) {
        let ops = || task.ops.iter().map(|&number| &self.objects.ops[number]);
        if !ops().any(|op| matches!(op.kind, OpKind::Launch(_))) {
            let symbols = ops().filter(|op| matches!(op.kind, OpKind::Symbol));
            let whys: Vec<Why> = symbols.map(|op| ops::why_anchored(op.call, op.name)).collect();
            task.obstacles.extend(whys);
        }
    }
}

/// What keeps all tasks of a function lazy: calls that tie the process to one GPU (graphs, textures,
/// pools), because what they make is not followed; and calls of itself, because the need depends on how deep
/// they go, and a task at each depth would not share granules with the others.
fn anchors(collected: &Collected, function: Value) -> Option<Why> {
    function
        .instructions()
        .find_map(|call| match collected.callee(call) {
            Some(Callee::Runtime(entry)) if entry.treatment == Treatment::Anchors => {
                let text = format!("{} ties what this function does to one GPU", entry.name);
                Some(Why::new(ReasonCode::Anchored, text, call))
            }
            Some(Callee::Other(callee)) if callee == function => {
                let text = "this function calls itself, so its objects may exist several times";
                Some(Why::new(ReasonCode::ManyObjects, text, call))
            }
            _ => None,
        })
}
