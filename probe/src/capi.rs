//! `mgb.h`: the C ABI of the probe.
//!
//! With lazyrt in the process these calls bind tasks through the registered
//! [`crate::Binder`]. Without one (the probe linked by itself) a task is still
//! granted and waited for; the program then has to find out itself what to do
//! with its GPU.

use std::ffi::{CStr, c_char};
use std::sync::OnceLock;

use crate::activation;
use crate::begin_request::BeginRequest;
use crate::binder::{Constraints, Site, binder};
use crate::cancel;
use crate::client::Client;
use crate::lease::{self, LeaseOutcome};
use crate::need::{self, Need, RawNeed};
use crate::process::{self, client};
use crate::task::{Refusal, TaskId};

/// `mgb_task_site` of `mgb.h`.
#[repr(C)]
pub struct RawSite {
    /// `sizeof(mgb_task_site)`.
    pub size: u32,
    /// Number of the task in its module's report.
    pub id: u32,
    /// Source file of the module.
    pub module: *const c_char,
    /// Function that holds the task.
    pub function: *const c_char,
}

const _: () = assert!(size_of::<RawSite>() == 24);

/// # Safety
/// `text` is null or a C string that lives as long as the program's constant.
unsafe fn text<'a>(text: *const c_char) -> &'a str {
    if text.is_null() {
        return "";
    }
    // SAFETY: `text` is a C string that outlives `'a`: contract of this function.
    unsafe { CStr::from_ptr(text) }.to_str().unwrap_or("")
}

/// # Safety
/// `site` is null or points to a whole `mgb_task_site`.
unsafe fn site<'a>(site: *const RawSite, activation: u64) -> Option<Site<'a>> {
    // SAFETY: `site` is null or points to a whole `mgb_task_site`: contract of this function.
    let raw = unsafe { site.as_ref() }?;
    Some(Site {
        key: site as usize,
        id: raw.id,
        // SAFETY: in a `mgb_task_site` it is null or a C string, and a constant of the program, as the site
        // is.
        module: unsafe { text(raw.module) },
        // SAFETY: as for `module`.
        function: unsafe { text(raw.function) },
        activation,
    })
}

/// Whether the pass's tasks are to be bound at run time, as those that it cannot analyse (`MGB_STATIC=off`).
fn are_lazy() -> bool {
    static LAZY: OnceLock<bool> = OnceLock::new();
    *LAZY.get_or_init(|| std::env::var_os("MGB_STATIC").is_some_and(|value| value == "off"))
}

/// Waits until the task is granted, and binds it; see `mgb.h`.
///
/// # Safety
/// `raw_site` is null or points to a `mgb_task_site`; `raw_need` is null or
/// points to a `mgb_need` whose `size` is set.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mgb_task_begin(raw_site: *const RawSite, raw_need: *const RawNeed) -> u64 {
    // SAFETY: contract of `mgb_task_begin`, which is `begin`'s.
    unsafe { begin(raw_site, raw_need, std::ptr::null_mut()) }
}

/// As [`mgb_task_begin`], in an activation; see `mgb.h`.
///
/// # Safety
/// As for [`mgb_task_begin`]; `word` is null or points to the activation's word.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mgb_task_begin_in(
    raw_site: *const RawSite,
    raw_need: *const RawNeed,
    word: *mut u64,
) -> u64 {
    // SAFETY: contract of `mgb_task_begin_in`, which is `begin`'s.
    unsafe { begin(raw_site, raw_need, word) }
}

/// # Safety
/// As for [`mgb_task_begin_in`].
unsafe fn begin(raw_site: *const RawSite, raw_need: *const RawNeed, word: *mut u64) -> u64 {
    let _stays = cancel::hold();
    let mut need = if raw_need.is_null() {
        Need::default()
    } else {
        // SAFETY: `raw_need` points to a `mgb_need` whose `size` is set: contract of this function.
        unsafe { RawNeed::read(raw_need) }
    };
    if need.flags & need::LATENCY != 0 {
        become_latency();
        // It is said of the process, and not of the task.
        need.flags &= !need::LATENCY;
    }
    let Some(client) = client() else { return 0 };
    if !raw_site.is_null() && are_lazy() {
        return 0;
    }
    // SAFETY: `word` is null or the activation's own word: contract of this function.
    let activation = unsafe { activation::number(word) };
    // SAFETY: `raw_site` is null or points to a `mgb_task_site`: contract of this function.
    let site = unsafe { site(raw_site, activation) };
    if let Some(site) = &site {
        match lease::take(client, site.key, &need) {
            LeaseOutcome::Granted(task) if binder().is_none_or(|binder| binder.resume(site, &need, task)) => {
                return task.raw();
            }
            LeaseOutcome::Granted(task) => end(client, task),
            // mgbd took it as ended.
            LeaseOutcome::Lost(task) => drop(binder().map(|binder| binder.ending(task))),
            LeaseOutcome::Nothing => {}
        }
    }
    let constraints = binder().map_or(Constraints::default(), |binder| binder.constraints(&need));
    let request = BeginRequest {
        need,
        site,
        gpu: constraints.gpu,
        avoid: constraints.avoid,
        name: None,
        whole_process: need.flags & need::PROCESS != 0,
    };
    match client.begin(&request) {
        Ok(grant) => {
            if let Some(binder) = binder() {
                binder.bound(site.as_ref(), &need, &grant);
            }
            if let Some(site) = site.filter(|_| !request.whole_process) {
                lease::began(client, grant.task, site.key, &need);
            }
            grant.task.raw()
        }
        Err(refusal) => refused(client.new_task(), site.as_ref(), &need, &refusal),
    }
}

fn refused(task: TaskId, site: Option<&Site<'_>>, need: &Need, refusal: &Refusal) -> u64 {
    let task = task.refused();
    if !binder().is_some_and(|binder| binder.refused(site, need, task, refusal)) {
        match site {
            Some(site) => mgb_stderr::say!(
                "mgb: failed to place task {} ({} in {}): {refusal}",
                site.id,
                site.function,
                site.module
            ),
            None => mgb_stderr::say!("mgb: failed to place a task: {refusal}"),
        }
    }
    task.raw()
}

/// Says whose the thread's next GPU op is; see `mgb.h`.
///
/// # Safety
/// `raw_site` is null or points to a `mgb_task_site`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mgb_task_use(raw_site: *const RawSite, task: u64) {
    if let Some(binder) = binder().filter(|_| !are_lazy()) {
        // SAFETY: `raw_site` is null or points to a `mgb_task_site`: contract of `mgb_task_use`.
        let id = unsafe { raw_site.as_ref() }.map_or(0, |site| site.id);
        binder.use_task(raw_site as usize, id, TaskId::from_raw(task), 0);
    }
}

/// As [`mgb_task_use`], for an allocation of an activation; see `mgb.h`.
///
/// # Safety
/// As for [`mgb_task_use`]; `word` is null or points to the activation's word.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mgb_task_use_in(raw_site: *const RawSite, task: u64, word: *mut u64) {
    if let Some(binder) = binder().filter(|_| !are_lazy()) {
        // SAFETY: `raw_site` is null or points to a `mgb_task_site`: contract of `mgb_task_use_in`.
        let id = unsafe { raw_site.as_ref() }.map_or(0, |site| site.id);
        // SAFETY: `word` is null or the activation's own word: contract of this function.
        let activation = unsafe { activation::number(word) };
        binder.use_task(raw_site as usize, id, TaskId::from_raw(task), activation);
    }
}

/// Says that others wait for what the process computes; see `mgb.h`.
#[unsafe(no_mangle)]
pub extern "C" fn mgb_latency() {
    let _stays = cancel::hold();
    become_latency();
}

fn become_latency() {
    if process::become_latency()
        && let Some(binder) = binder()
    {
        binder.became_latency();
    }
}

/// Says that the task is over; see `mgb.h`.
#[unsafe(no_mangle)]
pub extern "C" fn mgb_task_end(task: u64) {
    let Some(task) = TaskId::from_raw(task) else {
        return;
    };
    if task.is_refused() {
        let _ = binder().map(|binder| binder.ending(task));
        return;
    }
    let Some(client) = client() else { return };
    match lease::keep(client, task, || {
        binder().is_none_or(|binder| binder.may_rest(task))
    }) {
        LeaseOutcome::Granted(other) | LeaseOutcome::Lost(other) => end(client, other),
        LeaseOutcome::Nothing => {}
    }
}

/// Ends a task that holds its grant.
fn end(client: &Client, task: TaskId) {
    let kept = binder().map_or(0, |binder| binder.ending(task));
    client.end(task, kept);
}
