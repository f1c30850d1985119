//! Together: which objects may be alive at the same time, as the sets of which a need is the largest sum.
use petgraph::algo::maximal_cliques;
use petgraph::graph::{NodeIndex, UnGraph};

/// With more objects or more moments than these, the moments are those at which something is allocated.
const MAX_OBJECTS: usize = 24;
const MAX_MOMENTS: usize = 16;
/// With more terms in all moments than these, the need is the plain sum: still a bound.
const MAX_TERMS: usize = 4096;

/// Objects by number, and which may be alive as another is allocated.
pub struct Together {
    pairs: UnGraph<(), ()>,
    /// Per object: itself, and those that may be alive as it is allocated.
    at_allocation: Vec<Vec<usize>>,
}

impl Together {
    /// So many objects, each alone.
    pub fn of(objects: usize) -> Self {
        let mut pairs = UnGraph::default();
        for _ in 0..objects {
            pairs.add_node(());
        }
        Self {
            pairs,
            at_allocation: (0..objects).map(|object| vec![object]).collect(),
        }
    }

    /// `object` may be alive as `other` is allocated.
    pub fn add(&mut self, object: usize, other: usize) {
        self.pairs
            .update_edge(NodeIndex::new(object), NodeIndex::new(other), ());
        self.at_allocation[other].push(object);
    }

    /// The sets of objects that are alive together at some moment, none part of another.
    pub fn moments(&self) -> Vec<Vec<usize>> {
        self.cliques().unwrap_or_else(|| self.allocations())
    }

    /// The largest sets in which each may be alive with each other: two that never are, such as those of the
    /// two sides of a branch, are in none. None where there are too many.
    fn cliques(&self) -> Option<Vec<Vec<usize>>> {
        if self.pairs.node_count() > MAX_OBJECTS {
            return None;
        }
        let mut all: Vec<Vec<usize>> = maximal_cliques(&self.pairs)
            .into_iter()
            .map(|clique| sorted(clique.into_iter().map(NodeIndex::index).collect()))
            .collect();
        all.sort();
        (all.len() <= MAX_MOMENTS).then_some(all)
    }

    /// What may be alive as each object is allocated: the most bytes are there at one of these moments.
    fn allocations(&self) -> Vec<Vec<usize>> {
        let mut all: Vec<Vec<usize>> = self.at_allocation.iter().cloned().map(sorted).collect();
        all.sort_by_key(|one| std::cmp::Reverse(one.len()));
        let mut kept: Vec<Vec<usize>> = Vec::new();
        let mut terms = 0;
        for one in all {
            let is_part = |of: &Vec<usize>| one.iter().all(|object| of.binary_search(object).is_ok());
            if kept.iter().any(is_part) {
                continue;
            }
            terms += one.len();
            if terms > MAX_TERMS {
                return vec![(0..self.at_allocation.len()).collect()];
            }
            kept.push(one);
        }
        kept.sort();
        kept
    }
}

fn sorted(mut objects: Vec<usize>) -> Vec<usize> {
    objects.sort_unstable();
    objects.dedup();
    objects
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sides_of_a_branch_are_never_together() {
        let mut three = Together::of(3);
        three.add(0, 2);
        three.add(1, 2);
        assert_eq!(three.moments(), [[0, 2], [1, 2]]);
    }

    #[test]
    fn many_temporaries_do_not_add_up() {
        // One object for all time, and a temporary after the other.
        let mut many = Together::of(100);
        (1..100).for_each(|temporary| many.add(0, temporary));
        let moments = many.moments();
        assert_eq!(moments.len(), 99);
        assert!(moments.iter().all(|moment| moment.len() == 2 && moment[0] == 0));
    }

    #[test]
    fn many_that_stay_add_up() {
        let mut many = Together::of(100);
        (0..100).for_each(|one| (one + 1..100).for_each(|later| many.add(one, later)));
        assert_eq!(many.moments(), [(0..100).collect::<Vec<_>>()]);
    }

    #[test]
    fn what_is_too_much_to_compute_is_a_plain_sum() {
        // Each of half the objects beside another hundred.
        let mut many = Together::of(200);
        for one in 0..100 {
            (100..200)
                .filter(|other| other % 100 != one)
                .for_each(|other| many.add(other, one));
        }
        assert_eq!(many.moments(), [(0..200).collect::<Vec<_>>()]);
    }
}
