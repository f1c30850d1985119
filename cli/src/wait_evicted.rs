//! Waiting until memory has left GPUs because a person wants it, and saying what keeps it there.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use mgb_command::watch::MgbdWatch;
use mgb_probe::byte_size::Bytes;
use mgb_probe::socket_path;
use mgb_probe::view::{Hindrance, LeavingView, NodeView};

/// After this long people are told what is waited for.
const NOTICE_TIMEOUT: Duration = Duration::from_secs(2);
/// Between two looks: mgbd writes its view that often while somebody looks.
const CHECK_INTERVAL: Duration = Duration::from_millis(25);

/// What is said where the view has not all that leaves.
pub const CUT: &str = "mgbd has more to show than its node view holds: what else is left is not known";

/// What is still on GPUs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Remaining {
    /// What is known of it.
    pub what: Vec<LeavingView>,
    /// Bytes of processes that have ended, which the driver does not show free yet.
    pub reclaiming: u64,
    /// The view has not all of it: there may be more.
    pub is_cut: bool,
}

impl Remaining {
    /// All bytes of it.
    pub fn bytes(&self) -> u64 {
        self.what.iter().map(|left| left.bytes).sum::<u64>() + self.reclaiming
    }

    /// Nothing is left, and that is known.
    pub fn is_none(&self) -> bool {
        self.what.is_empty() && self.reclaiming == 0 && !self.is_cut
    }

    fn is_worth_saying(&self) -> bool {
        self.is_cut || !self.what.is_empty()
    }

    /// What is left, and whether that may be more than is known.
    pub fn sentence(&self) -> String {
        let known = sentence(&self.what);
        match (self.is_cut, known.is_empty()) {
            (false, _) => known,
            (true, true) => CUT.to_owned(),
            (true, false) => format!("{known}; {CUT}"),
        }
    }

    fn is_final(&self) -> bool {
        let stays = |left: &LeavingView| left.hindrance == Some(Hindrance::Declared);
        !self.is_cut && self.what.iter().any(stays) && self.what.iter().all(stays)
    }
}

/// Looks until nothing is left, or `patience` is over, or what is left stays as long as its process does and
/// there is a patience. Says on standard error what is waited for, once that takes long.
pub fn wait(
    doing: &str,
    patience: Option<Duration>,
    mut left: impl FnMut(&NodeView) -> Remaining,
) -> Result<(NodeView, Remaining)> {
    let mut node = MgbdWatch::begin(&socket_path())?;
    let start = Instant::now();
    let mut told = String::new();
    loop {
        let Ok(view) = node.status() else {
            bail!("mgbd has ended, and no other one goes on in its place");
        };
        let now = left(&view);
        let over = patience.is_some_and(|patience| start.elapsed() >= patience || now.is_final());
        if now.is_none() || over {
            return Ok((view, now));
        }
        let say = format!("{doing}: {}", now.sentence());
        if start.elapsed() >= NOTICE_TIMEOUT && now.is_worth_saying() && say != told {
            mgb_command::tell!("{say}");
            told = say;
        }
        std::thread::sleep(CHECK_INTERVAL);
    }
}

/// What is left, and why: `40.0 MiB of process 7 are still on GPU 0 (work under way …)`.
pub fn sentence(left: &[LeavingView]) -> String {
    let one = |left: &LeavingView| {
        let why = left.hindrance.map_or("", why);
        let (bytes, pid, gpu) = (Bytes(left.bytes), left.pid, left.gpu);
        let why = if why.is_empty() {
            String::new()
        } else {
            format!(" ({why})")
        };
        format!("{bytes} of process {pid} are still on GPU {gpu}{why}")
    };
    left.iter().map(one).collect::<Vec<_>>().join("; ")
}

/// What keeps memory on a GPU, for people.
pub fn why(hindrance: Hindrance) -> &'static str {
    match hindrance {
        Hindrance::Busy => "it has work under way there",
        Hindrance::NoAgent => {
            "no thread of MGB runs in it: it has not used the GPU yet, or was started without MGB"
        }
        Hindrance::NoAnswer => "it did not answer mgbd",
        Hindrance::Declared => "declared with --need, it is the program's until that ends",
        Hindrance::Stays => "it is of a kind that cannot leave",
        Hindrance::HostMemory => "the host has too little memory to spare for it",
        Hindrance::Unknown => "for a reason that this mgb does not know: it is older than mgbd",
        Hindrance::SwapQuota => "its user may have no more memory in the host: `mgb quota`",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn left(hindrance: Option<Hindrance>) -> LeavingView {
        LeavingView {
            pid: 7,
            uid: 0,
            gpu: 1,
            bytes: 40 << 20,
            hindrance,
        }
    }

    #[test]
    fn people_are_told_what_is_left_and_why() {
        assert_eq!(
            sentence(&[left(None), left(Some(Hindrance::Busy))]),
            "40.0 MiB of process 7 are still on GPU 1; 40.0 MiB of process 7 are still on GPU 1 (it has work under \
             way there)"
        );
    }

    #[test]
    fn what_a_cut_view_does_not_show_is_not_gone() {
        let cut = Remaining {
            is_cut: true,
            ..Remaining::default()
        };
        assert!(Remaining::default().is_none() && !cut.is_none());
        assert_eq!(cut.sentence(), CUT);
    }

    #[test]
    fn only_what_was_declared_is_not_worth_waiting_for() {
        let of = |what: &[LeavingView]| Remaining {
            what: what.to_vec(),
            reclaiming: 0,
            is_cut: false,
        };
        let declared = left(Some(Hindrance::Declared));
        assert!(of(std::slice::from_ref(&declared)).is_final());
        let cut = Remaining {
            is_cut: true,
            ..of(std::slice::from_ref(&declared))
        };
        assert!(!cut.is_final());
        assert!(!of(&[declared, left(None)]).is_final());
        assert!(!of(&[]).is_final());
    }
}
