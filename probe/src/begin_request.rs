//! What a beginning task asks, and how that travels.

use crate::binder::Site;
use crate::deadline::Deadline;
use crate::need::Need;
use crate::wire::{self, Request, Text};

/// What a beginning task asks.
#[derive(Clone, Copy, Debug, Default)]
pub struct BeginRequest<'a> {
    /// What it needs.
    pub need: Need,
    /// The static task it is, if it is one.
    pub site: Option<Site<'a>>,
    /// It must be this GPU (index into [`crate::Hello::gpus`]).
    pub gpu: Option<u32>,
    /// GPUs that it must not be, one bit each, where [`BeginRequest::gpu`] leaves
    /// the choice and there are others.
    pub avoid: u64,
    /// What people are to know the task by, where it has no site; `None`: the process's program.
    pub name: Option<&'a str>,
    /// The process is the task: its room stays until the process dies, also
    /// when it execs another program.
    pub whole_process: bool,
}

impl BeginRequest<'_> {
    /// The request as it travels: `plain` with what this one says, and `priority` and `deadline` where its
    /// need has none.
    pub(crate) fn message(&self, plain: Request, priority: u32, deadline: Option<Deadline>) -> Request {
        let visible = plain.gpus;
        let gpus = match self.gpu {
            Some(gpu) => 1u64.checked_shl(gpu).unwrap_or(0) & visible,
            None if visible & !self.avoid == 0 => visible,
            None => visible & !self.avoid,
        };
        let label = match (self.site, self.name) {
            (Some(site), _) => Text::new(&format!("{}:{}", site.module, site.function)),
            (None, Some(name)) => Text::new(name),
            (None, None) => Text::new(&program_name()),
        };
        let mut need = self.need;
        if need.priority == 0 {
            need.priority = priority;
        }
        if need.deadline_ns == 0 {
            need.deadline_ns = deadline.map_or(0, Deadline::left_ns);
        }
        let is_process_deadline = self.need.deadline_ns == 0 && deadline.is_some();
        Request {
            flags: [
                (self.whole_process, wire::WHOLE_PROCESS),
                (is_process_deadline || self.whole_process, wire::PROCESS_DEADLINE),
            ]
            .iter()
            .filter(|(is, _)| *is)
            .fold(plain.flags, |flags, (_, flag)| flags | flag),
            site: self.site.map_or(0, |site| site.id),
            gpus,
            bytes: need.reserved_bytes(),
            need,
            label,
            ..plain
        }
    }
}

/// `MGB_PRIORITY`, 0 without it. A value that is none is said, once per connection, and counts as 0.
pub(crate) fn priority() -> u32 {
    let Some(text) = std::env::var_os("MGB_PRIORITY") else {
        return 0;
    };
    let number = text.to_str().and_then(|text| text.trim().parse().ok());
    number.unwrap_or_else(|| {
        mgb_stderr::say!(
            "mgb: MGB_PRIORITY={} is no number from 0 to {}; taken as 0",
            text.display(),
            u32::MAX
        );
        0
    })
}

fn program_name() -> String {
    std::env::current_exe()
        .ok()
        .and_then(|path| Some(path.file_name()?.to_string_lossy().into_owned()))
        .unwrap_or_default()
}
