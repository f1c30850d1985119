//! What tasks are charged for memory outside the arena.

use std::collections::HashMap;

use super::extent::Key;
use crate::non_arena_memory::{NonArenaKind, Source};

/// One array, or one piece of managed memory.
#[derive(Clone, Copy, Debug)]
pub struct Piece {
    /// The task that is charged.
    pub owner: Key,
    /// What it is.
    pub kind: NonArenaKind,
    /// The bytes that the task is charged.
    pub bytes: u64,
}

/// What a source is charged.
#[derive(Clone, Copy, Debug, Default)]
pub struct Charge {
    /// The task that is charged.
    pub owner: Key,
    /// Bytes, which the pool holds or may take.
    pub bytes: u64,
    /// Bytes of them that it is known to hold.
    pub held: u64,
    /// Threads that are about to take memory from it.
    pub users: u32,
    /// Counts them all.
    pub uses: u64,
}

/// What all tasks are charged for memory outside the arena.
#[derive(Debug, Default)]
pub struct Elsewhere {
    /// By address or handle.
    pub pieces: HashMap<u64, Piece>,
    /// By pool, or by GPU for graphs.
    pub sources: HashMap<Source, Charge>,
}
