//! The node view of each user: labels say what a program is and does, and are shown to its user and to who
//! runs `mgbd` alone.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::time::Duration;

use mgb_probe::view::NodeView;

use crate::daemon::error::DaemonError;
use crate::daemon::view::node_view::ViewFile;

/// How long the view of a user who is gone may stay: who looks again and again does not have one made each
/// time.
const VIEW_TIMEOUT: Duration = Duration::from_secs(1);

/// The views of all users.
pub(crate) struct UserViews {
    /// Who sees everything.
    own: u32,
    /// The view with everything: for all where there is one user, else for who runs `mgbd`.
    whole: ViewFile,
    /// Views of other accounts, each for the user who reads it; `None` where there are none.
    others: Option<BTreeMap<(u32, u32), ViewFile>>,
    /// When those of users who are gone are dropped; `None`: nobody has gone since.
    drops_at: Option<Duration>,
}

impl UserViews {
    /// For one user, or for `several`.
    pub(crate) fn new(several: bool) -> Result<UserViews, DaemonError> {
        let own = rustix::process::geteuid().as_raw();
        Ok(UserViews {
            own,
            whole: ViewFile::new(if several { Some(own) } else { None })?,
            others: several.then(BTreeMap::new),
            drops_at: None,
        })
    }

    /// The name of the view with everything.
    pub(crate) fn whole(&self) -> &str {
        self.whole.name()
    }

    /// The name of the view of an account's, for this user to read, which is made if there is none. logind
    /// removes what a user owns in shared memory when his last session ends, though programs of his may run
    /// on.
    pub(crate) fn of(&mut self, account: u32, uid: u32) -> Result<&str, DaemonError> {
        let is_admin = account == self.own || account == 0;
        let several = self.others.is_some();
        let (board, reader) = match self.others.as_mut().filter(|_| !is_admin) {
            None => (&mut self.whole, several.then_some(self.own)),
            Some(others) => match others.entry((account, uid)) {
                Entry::Occupied(there) => (there.into_mut(), Some(uid)),
                Entry::Vacant(free) => (free.insert(ViewFile::new(Some(uid))?), Some(uid)),
            },
        };
        if !board.is_there() {
            *board = ViewFile::new(reader)?;
        }
        Ok(board.name())
    }

    /// Somebody is gone, perhaps the last one of a user's.
    pub(crate) fn left(&mut self, now: Duration) {
        if self.others.as_ref().is_some_and(|others| !others.is_empty()) {
            self.drops_at.get_or_insert(now + VIEW_TIMEOUT);
        }
    }

    /// How long until the views of users who are gone are dropped.
    pub(crate) fn drop_in(&self, now: Duration) -> Option<Duration> {
        self.drops_at.map(|at| at.saturating_sub(now))
    }

    /// Keeps the views of accounts and users for whom somebody is here.
    pub(crate) fn keep(&mut self, is_here: impl Fn((u32, u32)) -> bool) {
        self.drops_at = None;
        if let Some(others) = &mut self.others {
            others.retain(|whose, _| is_here(*whose));
        }
    }

    /// The names of all views.
    pub(crate) fn names(&self) -> Vec<String> {
        let others = self.others.iter().flat_map(BTreeMap::values);
        let all = [&self.whole].into_iter().chain(others);
        all.map(|board| board.name().to_owned()).collect()
    }

    pub(crate) fn write(&mut self, view: NodeView, now: Duration) {
        for ((account, _), board) in self.others.iter_mut().flatten() {
            board.write(as_seen_by(*account, &view), *account, now);
        }
        self.whole.write(view, self.own, now);
    }
}

/// What a user sees.
fn as_seen_by(uid: u32, view: &NodeView) -> NodeView {
    let mut view = view.clone();
    for task in view.tasks.iter_mut().filter(|task| task.uid != uid) {
        task.label.clear();
        task.job = None;
    }
    for waiting in view.queue.iter_mut().filter(|waiting| waiting.uid != uid) {
        waiting.label.clear();
    }
    view.quotas.owners.retain(|owner| owner.is_of(uid));
    view.suspended.retain(|suspended| suspended.uid == uid);
    view
}
