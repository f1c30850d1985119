//! Contexts: what a process is charged on each GPU on which it ever got a grant, as long as it lives.
//!
//! A process takes more there than its tasks ask for: libraries bring modules and workspaces of their own.
//! What programs of its kind took before is kept for it until it has taken it: the driver shows that from
//! then on.

use super::{ContextCharge, Ledger};
use crate::client::ClientId;

impl Ledger {
    /// Whether the client is charged for a context on the GPU.
    pub fn has_context(&self, client: ClientId, gpu: usize) -> bool {
        self.contexts.contains_key(&(client, gpu))
    }

    /// Clients charged for a context, with the GPU and the bytes of the context.
    pub fn contexts(&self) -> impl Iterator<Item = (ClientId, usize, u64)> {
        self.contexts
            .iter()
            .map(|((client, gpu), context)| (*client, *gpu, context.bytes))
    }

    /// GPUs on which the client is charged for a context.
    pub fn contexts_of(&self, client: ClientId) -> impl Iterator<Item = usize> {
        let range = (client, 0)..=(client, usize::MAX);
        self.contexts.range(range).map(|((_, gpu), _)| *gpu)
    }

    /// Processes that hold something on the GPU.
    pub fn processes(&self, gpu: usize) -> u32 {
        self.processes[gpu]
    }

    /// Whether the client holds nothing at all.
    pub fn holds_nothing(&self, client: ClientId) -> bool {
        self.tasks_of(client).next().is_none() && self.contexts_of(client).next().is_none()
    }

    /// Bytes that a grant of `bytes` to `client` charges: the context comes with
    /// the first one.
    pub fn cost(&self, client: ClientId, gpu: usize, bytes: u64) -> u64 {
        let context = if self.has_context(client, gpu) {
            0
        } else {
            self.gpus[gpu].context_bytes
        };
        bytes.saturating_add(context)
    }

    /// Bytes kept for what the client may still take on the GPU beside its tasks.
    pub fn overhead_of(&self, client: ClientId, gpu: usize) -> u64 {
        self.contexts
            .get(&(client, gpu))
            .map_or(0, |context| context.overhead)
    }

    /// The client was seen to have so many bytes on the GPU beside its tasks and context: by what it never
    /// had before, less is kept for it.
    pub fn has_taken(&mut self, client: ClientId, gpu: usize, taken: u64) {
        let Some(context) = self.contexts.get_mut(&(client, gpu)) else {
            return;
        };
        let more = taken.saturating_sub(context.most_taken);
        context.taken = taken;
        context.most_taken += more;
        let left = context.overhead.saturating_sub(more);
        self.keep_at_most(client, gpu, left);
    }

    /// Bytes that the client was seen to have on the GPU beside its tasks and context.
    pub fn taken_by(&self, client: ClientId, gpu: usize) -> u64 {
        self.contexts
            .get(&(client, gpu))
            .map_or(0, |context| context.taken)
    }

    /// Bytes that clients were seen to have on the GPU beside their tasks and contexts.
    pub fn taken(&self, gpu: usize) -> u64 {
        let there = self.contexts.iter().filter(|((_, at), _)| *at == gpu);
        there.map(|(_, context)| context.taken).sum()
    }

    pub(super) fn keep_at_most(&mut self, client: ClientId, gpu: usize, most: u64) {
        if let Some(context) = self.contexts.get_mut(&(client, gpu)) {
            let less = context.overhead.saturating_sub(most);
            context.overhead -= less;
            self.charges[gpu].overhead -= less;
            self.touched.context(client, gpu);
        }
        self.check();
    }

    pub(super) fn make_context(&mut self, client: ClientId, gpu: usize, overhead: u64) {
        let bytes = self.gpus[gpu].context_bytes;
        let context = ContextCharge {
            bytes,
            overhead,
            taken: 0,
            most_taken: 0,
        };
        self.contexts.insert((client, gpu), context);
        self.touched.context(client, gpu);
        self.charges[gpu].contexts += bytes;
        self.charges[gpu].overhead += overhead;
        self.processes[gpu] += 1;
    }

    pub(super) fn end_context(&mut self, client: ClientId, gpu: usize) -> Option<ContextCharge> {
        let context = self.contexts.remove(&(client, gpu))?;
        self.touched.context(client, gpu);
        self.charges[gpu].contexts -= context.bytes;
        self.charges[gpu].overhead -= context.overhead;
        self.processes[gpu] -= 1;
        Some(context)
    }
}
