//! What tasks take of the multiprocessors, under policies for which compute is a
//! hard limit. A task takes it from its grant to its end.

use super::{Ledger, TaskKey};
use crate::client::ClientId;
use crate::sms::{SmShape, Sms, TaskLaunch};

impl Ledger {
    /// The multiprocessors of each GPU.
    pub fn sms(&self) -> &[Sms] {
        &self.sms
    }

    /// Enters the blocks of a granted task: as many as find a place, since a task may be let in beside others
    /// that only wait.
    pub fn compute(&mut self, key: TaskKey, launch: &TaskLaunch) {
        let Some(holding) = self.tasks.get(&key).filter(|holding| holding.running) else {
            return;
        };
        let sms = &mut self.sms[holding.gpu];
        let shape = SmShape::of(launch, sms.kind());
        let spread = sms.spread(&shape);
        sms.charge(&shape, &spread);
        self.computing.insert(key, (shape, spread));
    }

    /// The clients with computing tasks, and their GPUs.
    pub fn computing(&self) -> impl Iterator<Item = (ClientId, usize)> {
        let on = |key: &TaskKey| Some((key.client, self.tasks.get(key)?.gpu));
        self.computing.keys().filter_map(on)
    }

    /// The task computes no more.
    pub(super) fn rest(&mut self, key: TaskKey) {
        if let Some((shape, spread)) = self.computing.remove(&key)
            && let Some(holding) = self.tasks.get(&key)
        {
            self.sms[holding.gpu].release(&shape, &spread);
        }
    }
}
