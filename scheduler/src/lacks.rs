//! What a program cannot be given any more of what would serve latency programs: a pure function of what it
//! is, and of how it says that it has joined MPS.

use mgb_probe::Class;
use mgb_probe::view::Lack;
use mgb_probe::wire::JoinedMps;

/// What is known of a program on a GPU.
#[derive(Clone, Copy, Debug)]
pub struct KnownProgram {
    /// The class that it says it has.
    pub said: Class,
    /// The class that it has.
    pub class: Class,
    /// How it says that it has joined MPS; `None`: it does not say.
    pub joined: Option<JoinedMps>,
    /// Whether a latency program is on the GPU, for which a batch program would give way.
    pub is_beside_latency: bool,
}

/// What the program lacks where there is an MPS or not, and where batch programs are to leave so many
/// percent of the multiprocessors.
pub fn lacks(program: KnownProgram, has_mps: bool, reserve: u32) -> Vec<Lack> {
    let KnownProgram {
        said, class, joined, ..
    } = program;
    let mut lacks = Vec::new();
    if said == Class::Latency && class == Class::Batch {
        lacks.push(Lack::NoRight);
    }
    let matters = class == Class::Latency || program.is_beside_latency;
    if !matters {
        return lacks;
    }
    match (class, joined) {
        (Class::Latency, _) if !has_mps => lacks.push(Lack::NoMps),
        (_, Some(joined)) if has_mps && joined.is_outside => lacks.push(Lack::OutsideMps),
        (Class::Latency, Some(joined)) => {
            if joined.priority.is_some_and(|priority| priority > 0) {
                lacks.push(Lack::LowPriority);
            }
            if !joined.is_own && joined.percentage.is_some_and(|percentage| percentage < 100) {
                lacks.push(Lack::SomeMultiprocessors);
            }
        }
        (Class::Batch, Some(joined)) if has_mps => {
            if joined.priority.is_none_or(|priority| priority == 0) {
                lacks.push(Lack::NormalPriority);
            }
            if reserve > 0 && joined.percentage.is_none_or(|percentage| percentage >= 100) {
                lacks.push(Lack::AllMultiprocessors);
            }
        }
        _ => {}
    }
    lacks
}

#[cfg(test)]
mod tests {
    use super::*;

    fn joined(priority: u8, percentage: Option<u8>) -> Option<JoinedMps> {
        Some(JoinedMps {
            is_outside: false,
            priority: Some(priority),
            percentage,
            is_own: false,
        })
    }

    const BATCH: KnownProgram = KnownProgram {
        said: Class::Batch,
        class: Class::Batch,
        joined: None,
        is_beside_latency: true,
    };
    const LATENCY: KnownProgram = KnownProgram {
        said: Class::Latency,
        class: Class::Latency,
        ..BATCH
    };

    fn of(program: KnownProgram, joined: Option<JoinedMps>) -> Vec<Lack> {
        lacks(KnownProgram { joined, ..program }, true, 10)
    }

    #[test]
    fn who_joined_mps_as_it_is_to_lacks_nothing() {
        assert_eq!(of(BATCH, joined(1, Some(90))), []);
        assert_eq!(of(LATENCY, joined(0, None)), []);
        // Of old builds nothing is known.
        assert_eq!(of(BATCH, None), []);
        assert_eq!(of(LATENCY, None), []);
    }

    #[test]
    fn who_came_too_early_keeps_what_mps_was_told() {
        assert_eq!(of(BATCH, joined(1, None)), [Lack::AllMultiprocessors]);
        assert_eq!(of(BATCH, joined(0, Some(90))), [Lack::NormalPriority]);
        let own = JoinedMps {
            is_own: true,
            ..joined(0, Some(30)).unwrap()
        };
        assert_eq!(of(LATENCY, Some(own)), [], "it has said so itself");
        let both = [Lack::LowPriority, Lack::SomeMultiprocessors];
        assert_eq!(of(LATENCY, joined(1, Some(90))), both);
        let early = KnownProgram {
            joined: joined(1, None),
            ..BATCH
        };
        assert_eq!(lacks(early, true, 0), [], "no multiprocessors are reserved");
        let alone = KnownProgram {
            is_beside_latency: false,
            ..early
        };
        assert_eq!(lacks(alone, true, 10), [], "it is in nobody's way");
    }

    #[test]
    fn without_mps_a_latency_program_has_no_priority() {
        assert_eq!(lacks(LATENCY, false, 10), [Lack::NoMps]);
        assert_eq!(lacks(BATCH, false, 10), []);
        let outside = Some(JoinedMps {
            is_outside: true,
            ..JoinedMps::default()
        });
        assert_eq!(of(LATENCY, outside), [Lack::OutsideMps]);
        assert_eq!(of(BATCH, outside), [Lack::OutsideMps]);
    }

    #[test]
    fn the_right_is_lacking_beside_nobody_too() {
        let refused = KnownProgram {
            said: Class::Latency,
            is_beside_latency: false,
            ..BATCH
        };
        assert_eq!(of(refused, joined(1, None)), [Lack::NoRight]);
    }
}
