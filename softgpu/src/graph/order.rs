//! What comes after what in a graph.

use std::collections::BTreeSet;

use super::{CudaGraph, Graphs};
use crate::error::{Error, Result};

impl CudaGraph {
    /// Its nodes, each behind those it comes after; otherwise in the order in which they were made. A ring,
    /// which cannot be made, would be left out.
    pub fn in_order(&self) -> Vec<usize> {
        let mut ordered = Vec::with_capacity(self.nodes.len());
        let mut done = BTreeSet::new();
        let mut left: Vec<usize> = self.nodes.keys().copied().collect();
        while !left.is_empty() {
            let before = left.len();
            left.retain(|node| {
                let ready = self.nodes[node].after.iter().all(|node| done.contains(node));
                if ready {
                    done.insert(*node);
                    ordered.push(*node);
                }
                !ready
            });
            if left.len() == before {
                break;
            }
        }
        ordered
    }

    /// The nodes that come after none.
    pub fn roots(&self) -> Vec<usize> {
        let roots = self.nodes.iter().filter(|(_, node)| node.after.is_empty());
        roots.map(|(&handle, _)| handle).collect()
    }

    /// What comes after what: pairs of the earlier and the later.
    pub fn edges(&self) -> Vec<(usize, usize)> {
        let edges = self.nodes.iter();
        edges
            .flat_map(|(&to, node)| node.after.iter().map(move |&from| (from, to)))
            .collect()
    }

    /// The nodes that come right after one.
    pub fn dependents(&self, of: usize) -> Vec<usize> {
        let all = self.nodes.iter();
        all.filter(|(_, node)| node.after.contains(&of))
            .map(|(&handle, _)| handle)
            .collect()
    }

    /// These nodes, and all that they come after.
    pub fn ancestors(&self, of: &[usize]) -> BTreeSet<usize> {
        let mut found = BTreeSet::new();
        let mut left = of.to_vec();
        while let Some(node) = left.pop() {
            if found.insert(node)
                && let Some(node) = self.nodes.get(&node)
            {
                left.extend(&node.after);
            }
        }
        found
    }
}

impl Graphs {
    /// Lets nodes come after others.
    ///
    /// # Errors
    /// `INVALID_VALUE` for nodes that are not in the graph, that come after each other already, or that would
    /// come after themselves; nothing is changed then.
    pub fn bind(&mut self, graph: usize, pairs: &[(usize, usize)]) -> Result {
        let graph = self.graph_mut(graph)?;
        let bind = |graph: &mut CudaGraph, (from, to): (usize, usize)| {
            let known = graph.nodes.contains_key(&from);
            if !known || graph.ancestors(&[from]).contains(&to) {
                return Err(Error::INVALID_VALUE);
            }
            let node = graph.nodes.get_mut(&to).ok_or(Error::INVALID_VALUE)?;
            if node.after.contains(&from) {
                return Err(Error::INVALID_VALUE);
            }
            node.after.push(from);
            Ok(())
        };
        for (at, &pair) in pairs.iter().enumerate() {
            if let Err(error) = bind(graph, pair) {
                for &(from, to) in &pairs[..at] {
                    if let Some(node) = graph.nodes.get_mut(&to) {
                        node.after.retain(|&before| before != from);
                    }
                }
                return Err(error);
            }
        }
        Ok(())
    }

    /// Lets nodes come after others no more.
    ///
    /// # Errors
    /// `INVALID_VALUE` for nodes that do not; nothing is changed then.
    pub fn unbind(&mut self, graph: usize, pairs: &[(usize, usize)]) -> Result {
        let graph = self.graph_mut(graph)?;
        let bound = |&(from, to): &(usize, usize)| {
            let node = graph.nodes.get(&to);
            node.is_some_and(|node| node.after.contains(&from))
        };
        if !pairs.iter().all(bound) {
            return Err(Error::INVALID_VALUE);
        }
        for (from, to) in pairs {
            if let Some(node) = graph.nodes.get_mut(to) {
                node.after.retain(|before| before != from);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::NodeKind;
    use super::*;

    #[test]
    fn nodes_come_behind_what_they_come_after() {
        let mut graphs = Graphs::default();
        let graph = graphs.create();
        let [a, b, c, d] = [0; 4].map(|_| graphs.add(graph, &[], NodeKind::Empty).unwrap());
        graphs.bind(graph, &[(d, a), (a, b), (d, c)]).unwrap();
        let made = graphs.graph(graph).unwrap();
        let order = made.in_order();
        assert_eq!(order, [d, a, b, c]);
        assert_eq!(made.roots(), [d]);
        assert_eq!(made.dependents(d), [a, c]);

        // A ring, a second time, a stranger: and nothing of what came before it stays.
        assert_eq!(graphs.bind(graph, &[(c, b), (b, d)]), Err(Error::INVALID_VALUE));
        assert_eq!(graphs.bind(graph, &[(a, b)]), Err(Error::INVALID_VALUE));
        assert_eq!(graphs.bind(graph, &[(a, 16)]), Err(Error::INVALID_VALUE));
        assert_eq!(graphs.bind(graph, &[(a, a)]), Err(Error::INVALID_VALUE));
        assert_eq!(graphs.graph(graph).unwrap().edges().len(), 3);
        assert_eq!(graphs.unbind(graph, &[(a, b), (a, c)]), Err(Error::INVALID_VALUE));
        graphs.unbind(graph, &[(a, b)]).unwrap();
        assert_eq!(graphs.graph(graph).unwrap().edges(), [(d, a), (d, c)]);
    }

    #[test]
    fn clones_have_nodes_of_their_own() {
        let mut graphs = Graphs::default();
        let (inner, graph) = (graphs.create(), graphs.create());
        graphs.add(inner, &[], NodeKind::Empty).unwrap();
        let child = graphs.add(graph, &[], NodeKind::Child(inner)).unwrap();
        let last = graphs.add(graph, &[child], NodeKind::Empty).unwrap();
        let clone = graphs.clone_of(graph).unwrap();
        let (of_child, of_last) = (
            graphs.find_in_clone(child, clone).unwrap(),
            graphs.find_in_clone(last, clone).unwrap(),
        );
        assert_eq!(graphs.node(of_last).unwrap().after, [of_child]);
        let NodeKind::Child(copied) = graphs.node(of_child).unwrap().kind else {
            panic!("the child is gone");
        };
        assert!(
            graphs.destroy(copied).is_err(),
            "a node's graph is not the program's"
        );
        assert_eq!(graphs.destroy(graph).unwrap().len(), 2);
        assert!(graphs.node(last).is_err());
        assert_eq!(graphs.graph(copied).unwrap().nodes.len(), 1);
        assert!(graphs.find_in_clone(of_last, clone).is_err());
    }
}
