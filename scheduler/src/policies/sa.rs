//! `sa`: single assignment. One process has a GPU to itself, from its first
//! task until it dies; the next in turn gets it then. Blind to memory.

use super::{Placement, View, cg};

pub(super) fn place(view: &View<'_>) -> Vec<Placement> {
    cg::place(view, 1)
}
