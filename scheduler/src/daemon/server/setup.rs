//! What the loop is set up with.

/// As many descriptors as may be open.
pub(crate) fn raise_descriptor_limit() -> usize {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    let current = match setrlimit(Resource::Nofile, raised) {
        Ok(()) => limit.maximum,
        Err(_) => limit.current,
    };
    usize::try_from(current.unwrap_or(u64::MAX)).unwrap_or(usize::MAX)
}
