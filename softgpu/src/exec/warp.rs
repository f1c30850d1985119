//! Operations of a warp: what its lanes exchange once they have met.

use super::matrix::Operands;

/// The lanes of a mask.
pub fn lanes(mut mask: u32) -> impl Iterator<Item = u32> {
    std::iter::from_fn(move || {
        let lane = mask.trailing_zeros();
        mask &= mask.wrapping_sub(1);
        (lane < 32).then_some(lane)
    })
}

/// What a lane asks of its warp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WarpRequest {
    /// `__syncwarp`.
    Sync {
        /// The lanes that meet.
        mask: u32,
    },
    /// `__shfl_*_sync`.
    Shuffle {
        /// The lanes that meet.
        mask: u32,
        /// How the source lane is found.
        kind: Shuffle,
        /// This lane's value.
        value: u32,
        /// PTX's operand b: lane, delta or mask.
        lane: u32,
        /// PTX's operand c: clamp, and segment mask from bit 8.
        clamp: u32,
    },
    /// `__all_sync` and its like.
    Vote {
        /// The lanes that meet.
        mask: u32,
        /// What is asked.
        kind: Vote,
        /// This lane's predicate.
        predicate: bool,
    },
    /// A product of matrices that all lanes hold.
    Matrix {
        /// Its word: see `softgpu_calls.matrix`.
        shape: u64,
        /// This lane's registers.
        operands: Operands,
    },
    /// `__activemask`, called at `site`.
    Active {
        /// The call site in its module.
        site: u32,
    },
}

/// How a shuffle finds its source lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shuffle {
    /// The source lane is given by its number.
    Index,
    /// Below by a delta.
    Up,
    /// Above by a delta.
    Down,
    /// By exclusive or.
    Butterfly,
}

/// What a vote asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vote {
    /// Whether all predicates are true.
    All,
    /// Whether any is.
    Any,
    /// Whether all are the same.
    Uniform,
    /// The lanes whose predicate is true.
    Ballot,
}

impl WarpRequest {
    /// The lanes that must meet; none for `Active`.
    pub fn mask(&self) -> Option<u32> {
        match *self {
            WarpRequest::Sync { mask }
            | WarpRequest::Shuffle { mask, .. }
            | WarpRequest::Vote { mask, .. } => Some(mask),
            WarpRequest::Matrix { .. } => Some(u32::MAX),
            WarpRequest::Active { .. } => None,
        }
    }

    /// Whether two lanes ask for the same operation.
    pub fn meets(&self, other: &WarpRequest) -> bool {
        match (self, other) {
            (WarpRequest::Matrix { shape, .. }, WarpRequest::Matrix { shape: its, .. }) => shape == its,
            _ => self.mask() == other.mask() && std::mem::discriminant(self) == std::mem::discriminant(other),
        }
    }

    /// Whether it is a vote whose mask lacks the lane that asks. CUDA does not define it; on the hardware
    /// those vote that come together, and each learns what it asked about.
    pub fn leaves_out(&self, lane: u32) -> bool {
        matches!(*self, WarpRequest::Vote { mask, .. } if mask >> lane & 1 == 0)
    }

    /// Whether two lanes that wait for none by name are answered as one: their votes may have masks of their
    /// own.
    pub fn comes_with(&self, other: &WarpRequest) -> bool {
        match (self, other) {
            (WarpRequest::Vote { kind, .. }, WarpRequest::Vote { kind: its, .. }) => kind == its,
            _ => self == other,
        }
    }

    /// The name of the request in messages.
    pub fn name(&self) -> &'static str {
        match self {
            WarpRequest::Sync { .. } => "__syncwarp",
            WarpRequest::Shuffle { .. } => "a warp shuffle",
            WarpRequest::Vote { .. } => "a warp vote",
            WarpRequest::Matrix { .. } => "a product of matrices",
            WarpRequest::Active { .. } => "__activemask",
        }
    }
}

/// The source lane of a shuffle, and whether it is in range; out of range it is the lane itself.
/// After PTX's definition of `shfl.sync`.
pub fn source(kind: Shuffle, own: u32, operand: u32, clamp: u32) -> (u32, bool) {
    let segment = clamp >> 8 & 31;
    let clamp = clamp & 31;
    let highest = (own & segment) | (clamp & !segment);
    let lowest = own & segment;
    let operand = operand & 31;
    let (lane, in_range) = match kind {
        Shuffle::Up => (
            own.wrapping_sub(operand),
            own as i32 - operand as i32 >= highest as i32,
        ),
        Shuffle::Down => (own + operand, own + operand <= highest),
        Shuffle::Butterfly => (own ^ operand, own ^ operand <= highest),
        Shuffle::Index => {
            let lane = lowest | (operand & !segment);
            (lane, lane <= highest)
        }
    };
    if in_range { (lane, true) } else { (own, false) }
}

/// The answers of an operation that all `members` have come to. `Active` has no members of its own.
pub fn answers<'a>(request: impl Fn(u32) -> &'a WarpRequest, members: u32) -> [u32; 32] {
    let mut answers = [0; 32];
    let ballot = ballot(&request, members);
    for lane in lanes(members) {
        answers[lane as usize] = match *request(lane) {
            WarpRequest::Shuffle {
                kind,
                value,
                lane: operand,
                clamp,
                ..
            } => {
                let (from, _) = source(kind, lane, operand, clamp);
                // What a lane that does not take part has is undefined; its own is as good.
                let from = from & 31;
                match (members >> from & 1 == 1).then(|| request(from)) {
                    Some(WarpRequest::Shuffle { value, .. }) => *value,
                    _ => value,
                }
            }
            WarpRequest::Vote { kind, .. } => result(kind, ballot, members),
            _ => 0,
        };
    }
    answers
}

/// The members that vote yes.
pub fn ballot<'a>(request: impl Fn(u32) -> &'a WarpRequest, members: u32) -> u32 {
    lanes(members).fold(0, |ballot, lane| match request(lane) {
        WarpRequest::Vote { predicate: true, .. } => ballot | 1 << lane,
        _ => ballot,
    })
}

/// What a vote gives.
pub fn result(kind: Vote, ballot: u32, members: u32) -> u32 {
    match kind {
        Vote::All => u32::from(ballot == members),
        Vote::Any => u32::from(ballot != 0),
        Vote::Uniform => u32::from(ballot == members || ballot == 0),
        Vote::Ballot => ballot,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_follow_ptx() {
        const DOWN_FULL: u32 = 31;
        const WIDTH_8: u32 = (31 - 7) << 8 | 31;
        assert_eq!(source(Shuffle::Down, 3, 4, DOWN_FULL), (7, true));
        assert_eq!(source(Shuffle::Down, 30, 4, DOWN_FULL), (30, false));
        assert_eq!(source(Shuffle::Up, 3, 4, 0), (3, false));
        assert_eq!(source(Shuffle::Up, 9, 4, 0), (5, true));
        assert_eq!(source(Shuffle::Butterfly, 5, 16, DOWN_FULL), (21, true));
        assert_eq!(source(Shuffle::Index, 21, 2, WIDTH_8), (18, true));
        assert_eq!(source(Shuffle::Down, 21, 2, WIDTH_8), (23, true));
        assert_eq!(source(Shuffle::Down, 22, 2, WIDTH_8), (22, false));
        assert_eq!(source(Shuffle::Up, 17, 2, (31 - 7) << 8), (17, false));
    }

    #[test]
    fn votes_and_shuffles_among_the_members() {
        let mut requests = [WarpRequest::Sync { mask: 0 }; 32];
        for lane in 0..4u32 {
            requests[lane as usize] = WarpRequest::Vote {
                mask: 15,
                kind: Vote::Ballot,
                predicate: lane != 1,
            };
        }
        assert_eq!(answers(|lane| &requests[lane as usize], 15)[0], 0b1101);
        for lane in 0..4u32 {
            let shuffle = WarpRequest::Shuffle {
                mask: 15,
                kind: Shuffle::Down,
                value: lane * 10,
                lane: 1,
                clamp: 31,
            };
            requests[lane as usize] = shuffle;
        }
        assert_eq!(
            answers(|lane| &requests[lane as usize], 15)[..4],
            [10, 20, 30, 30]
        );
    }
}
