//! How a kernel can be run in parts.
use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::obstacle::Obstacle;

/// How a kernel can be run in parts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum PartsKind {
    /// By a twin, which takes blocks by tickets.
    Twin {
        /// Whether threads that return early vote at barriers where others may follow.
        votes: bool,
        /// Whether it serves only launches whose rows of threads are whole warps.
        whole_rows: bool,
        /// How many parameters the kernel has; its twin has one more.
        parameters: u32,
    },
    /// Slice by slice, or not at all: some obstacle forbids that.
    Obstacles(BTreeSet<Obstacle>),
}

impl PartsKind {
    /// How a kernel can be run in parts that is compiled for several architectures, of which any may run.
    pub fn and(self, other: Self) -> Self {
        match (self, other) {
            (
                Self::Twin {
                    votes: one,
                    whole_rows,
                    ..
                },
                Self::Twin {
                    votes: another,
                    whole_rows: more,
                    parameters,
                },
            ) => Self::Twin {
                votes: one || another,
                whole_rows: whole_rows || more,
                parameters,
            },
            (Self::Obstacles(mut one), Self::Obstacles(another)) => {
                one.extend(another);
                Self::Obstacles(one)
            }
            (obstacles @ Self::Obstacles(_), _) | (_, obstacles) => obstacles,
        }
    }
}
