//! What the process holds on each device, charged at mgbd before the driver is asked for it: a task for each
//! device, which grows with what is allocated there. Growing waits until there is room.

mod away;
mod declared;
mod evicted;
mod ledger_account;
mod swapper;
mod task;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use mgb_core::notice;
use mgb_probe::need::{LAZY, Need, margin_bytes};
use mgb_probe::view::TaskView;
use mgb_probe::{BeginRequest, Client, First, Gpu, Grant, Refusal};
use parking_lot::{Mutex, RwLock};

use away::Away;
pub use declared::{Declared, declare, take_back};
pub use evicted::Evicted;
use ledger_account::{Account, Charged, rounded};
use swapper::{RECLAIMER, SWAPPER};
pub use swapper::{Reclaimer, Saved, Shut, Swapper, set_reclaimer, set_swapper};
use task::{DeviceTask, give_back, task};

use crate::{caching_allocators, limit, program, session, trace};

/// Freed memory that a program may keep on a device, at most: none where it would be missed.
const MAX_SPARE_BYTES: u64 = 32 << 20;
/// The largest allocation that is charged, in bytes: far more than any GPU has, and sums of it do not
/// overflow.
pub const MAX_CHARGED_BYTES: u64 = 1 << 50;
/// Held by the thread that begins a task: a device has one.
static BEGINNING: Mutex<()> = Mutex::new(());

/// The program's user may not have what the program needs to begin.
static HAS_NO_DEVICE: AtomicBool = AtomicBool::new(false);

/// Devices that the program's user may not be on.
static CLOSED: RwLock<Vec<i32>> = RwLock::new(Vec::new());

/// Whether the program gets no device at all, since its user may have none.
pub fn has_no_device() -> bool {
    HAS_NO_DEVICE.load(Ordering::Acquire)
}

fn request(gpu: Option<u32>, declared: u64) -> BeginRequest<'static> {
    BeginRequest {
        need: Need {
            flags: LAZY,
            peak_bytes: declared,
            ..Need::default()
        },
        gpu,
        name: Some(program::name()),
        ..BeginRequest::default()
    }
}

fn note(device: i32, grant: &Grant) {
    trace::began(device, grant);
    let task: &'static DeviceTask = Box::leak(Box::new(DeviceTask {
        id: grant.task,
        gpu: grant.gpu,
        account: Mutex::new(declared::account(device, grant.reserved_bytes)),
        growing: Mutex::new(()),
    }));
    task::note(device, task);
}

/// Begins the task of the program's first device, wherever mgbd puts it, unless another process of its job
/// has decided where the devices are. Their GPUs, in order; `None`: it was refused.
pub fn first(client: &'static Client) -> Option<Vec<u32>> {
    match declared::asked(0, |bytes| client.begin_first(&request(None, bytes))) {
        Ok(First { order, grant }) => {
            if let Some(grant) = &grant {
                note(0, grant);
            }
            Some(order)
        }
        // No shared GPU is visible to the program, which may hide them all from itself.
        Err(Refusal::NoGpu) => None,
        // Running natively it would have what it may not have.
        Err(refusal @ (Refusal::OverQuota { .. } | Refusal::Interrupted(_))) => {
            notice::failure(
                "refused",
                refusal.failure(),
                format_args!("failed to place the program: {refusal}; it gets no device"),
            );
            HAS_NO_DEVICE.store(true, Ordering::Release);
            None
        }
        Err(refusal) => {
            notice::failure(
                "refused",
                refusal.failure(),
                format_args!("failed to place the program: {refusal}; it runs natively"),
            );
            None
        }
    }
}

/// mgbd's number of the GPU that the device is; none where the process has no task there.
pub fn gpu(device: i32) -> Option<u32> {
    Some(task(device)?.gpu)
}

/// Begins a device's task, if it has none: something is to be made there.
pub fn begin(device: i32) {
    let Some(session) = session::get() else { return };
    if task(device).is_some() {
        return;
    }
    let _beginning = BEGINNING.lock();
    if task(device).is_some() {
        return;
    }
    let gpu = usize::try_from(device).ok().and_then(|at| session.gpus.get(at));
    let Some(&gpu) = gpu else { return };
    let mut away = Away::none(session);
    let client = session.client;
    let answer = declared::asked(device, |bytes| {
        client.begin_beside(&request(Some(gpu), bytes), &mut |gpu| away.make_room_on(gpu))
    });
    away.bring_back(None);
    // What it takes there is not to go past mgbd. The next context asks again.
    let has_none = matches!(answer, Err(Refusal::OverQuota { .. } | Refusal::Interrupted(_)));
    let mut closed = CLOSED.write();
    closed.retain(|other| *other != device);
    match answer {
        Ok(grant) => note(device, &grant),
        Err(refusal) if has_none => {
            closed.push(device);
            notice::failure(
                "refused",
                refusal.failure(),
                format_args!(
                    "failed to reserve room on device {device}: {refusal}; it has no memory for the program"
                ),
            );
        }
        Err(refusal) => notice::failure(
            "refused",
            refusal.failure(),
            format_args!(
                "failed to reserve room on device {device}: {refusal}; what it takes there is not charged{}",
                way_out(&refusal)
            ),
        ),
    }
}

/// A context was made on the device.
pub fn context_made(device: i32) {
    if let (Some(session), Some(task)) = (session::get(), task(device)) {
        session.client.published().context_made(task.gpu);
    }
}

/// The GPU that the program's task on the device has.
fn its_gpu(device: i32) -> Option<&'static Gpu> {
    let (session, task) = session::get().zip(task(device))?;
    session.client.hello().gpus.get(task.gpu as usize)
}

/// Bytes that the program can have on the device at most.
pub fn most(device: i32) -> u64 {
    its_gpu(device).map_or(0, |gpu| gpu.usable_bytes.saturating_sub(gpu.context_bytes))
}

/// What a program with a limit has on the device and may still take there, in bytes: neighbours change neither.
pub fn within_limit(device: i32) -> Option<(u64, u64)> {
    let limit = limit::bytes()?;
    let task = task(device)?;
    let total = limit.min(most(device));
    let held = task.account.lock().held();
    Some((total, total.saturating_sub(held)))
}

/// Bytes that a part of what the program has there, of which `own` are charged, can have at most beside the rest.
pub fn most_beside(device: i32, own: u64) -> u64 {
    let held = task(device).map_or(0, |task| task.account.lock().held());
    most(device).saturating_sub(held.saturating_sub(own))
}

/// Whether a thread of the program waits for room on the device, or is about to be given some.
pub fn waits(device: i32) -> bool {
    task(device).is_some_and(|task| task.account.lock().asked > 0)
}

/// Whether the program may have so many bytes on the device without waiting.
pub fn has_now(device: i32, bytes: u64) -> bool {
    let Some(task) = task(device) else { return true };
    let unused = {
        let account = task.account.lock();
        account.reserved.saturating_sub(account.held())
    };
    bytes <= unused || may_have(device).is_none_or(|room| bytes <= room)
}

/// Bytes of freed memory that the program may keep on the device. They stay charged.
pub fn may_keep(device: i32) -> u64 {
    its_gpu(device).map_or(0, |gpu| (gpu.usable_bytes >> 11).min(MAX_SPARE_BYTES))
}

/// Memory that was kept in this way is freed: it is not charged any more.
pub fn spares_are_gone(device: i32, bytes: u64) {
    if let (Some(session), Some(task)) = (session::get(), task(device)) {
        task.account.lock().remove_large(bytes);
        give_back(session, task);
    }
}

/// Whether the program has a margin before its first array on the device.
pub fn has_margin(device: i32) -> bool {
    its_gpu(device).is_some_and(|gpu| margin_bytes(gpu.usable_bytes) != 0)
}

/// Whether an allocation by an allocator with a cache is to fail this time, since it would wait.
pub fn refuses_first(device: i32, bytes: u64) -> bool {
    let Some(task) = task(device) else {
        return false;
    };
    let fits = |account: &Account| account.held().saturating_add(rounded(bytes)) <= account.reserved;
    if fits(&task.account.lock()) {
        return false;
    }
    caching_allocators::refuses_first(bytes, || may_have(device).is_some_and(|room| room < bytes))
}

/// Charges the device's task, and waits until there is room. False: there will be none. The caller is outside
/// the gate and holds no lock.
pub fn charge(device: i32, bytes: u64) -> bool {
    let (Some(session), Some(task)) = (session::get(), task(device)) else {
        return !CLOSED.read().contains(&device);
    };
    // Until it is this thread's turn, nothing is charged: another one's turn would ask for it as well, and be
    // refused with it.
    let mut charged = task.account.lock().add_reserved(bytes, limit::bytes());
    if charged == Charged::Now {
        return true;
    }
    let _stays = mgb_probe::cancel::hold();
    if let Some(swapper) = SWAPPER.get() {
        let freed = swapper.release_spares(device);
        let mut account = task.account.lock();
        account.remove_large(freed);
        charged = account.add_reserved(bytes, limit::bytes());
    }
    match charged {
        Charged::Now => return true,
        Charged::Beyond(limit) => {
            limit::refused(limit);
            give_back(session, task);
            return false;
        }
        Charged::NotYet => {}
    }
    if let Some(reclaimer) = RECLAIMER.get().filter(|reclaimer| (reclaimer.has_idle)(device)) {
        let lacking = task.account.lock().lacking_with(bytes);
        if may_have(device).is_none_or(|room| room < lacking) {
            (reclaimer.reclaim)(device);
        }
    }
    let _waits = trace::waits(device);
    let _growing = task.growing.lock();
    {
        let mut account = task.account.lock();
        // Others have been charged meanwhile.
        match account.add_reserved(bytes, limit::bytes()) {
            Charged::Now => return true,
            Charged::Beyond(limit) => {
                drop(account);
                limit::refused(limit);
                return false;
            }
            Charged::NotYet => account.add(bytes),
        }
    }
    let mut away = Away::none(session);
    let done = away.wait(Some((device, task)));
    if let Err(refusal) = &done {
        task.account.lock().remove(bytes);
        notice::failure(
            "no-room",
            refusal.failure(),
            format_args!("failed to allocate device memory: {refusal}{}", way_out(refusal)),
        );
    }
    // What was swapped out meanwhile, the program cannot do without.
    away.bring_back(Some((device, task)));
    // What other threads have freed meanwhile.
    give_back(session, task);
    done.is_ok()
}

/// What a person can do about a refusal that comes of several processes having several GPUs each.
fn way_out(refusal: &Refusal) -> &'static str {
    if !matches!(refusal, Refusal::Deadlock) || gpus().len() < 2 || mgb_probe::has_several_gpus() {
        return "";
    }
    "; this program uses several GPUs: start such programs with `mgb run --gpus COUNT`, and they do not wait for each other"
}

/// The GPUs where the process has a task.
pub fn gpus() -> Vec<u32> {
    task::all().into_iter().map(|(_, task)| task.gpu).collect()
}

/// Brings what the process has on the GPU to the host, if it has no work there before `patience` is over; and
/// the bytes that are free then.
pub fn evict(gpu: u32, patience: Duration) -> Option<(Evicted, u64)> {
    let session = session::get()?;
    Evicted::begin(session, task::on(gpu)?, patience)
}

/// What was charged is there now.
pub fn mapped(device: i32, bytes: u64) {
    mapped_exactly(device, rounded(bytes));
}

/// As [`mapped`], of bytes that are known to be taken as they are.
pub fn mapped_exactly(device: i32, bytes: u64) {
    if let (Some(session), Some(task)) = (session::get(), task(device)) {
        session.client.published().mapped(task.gpu, bytes);
        trace::holds(device, task.account.lock().held());
    }
}

/// What is there is about to be freed.
pub fn unmapping(device: i32, bytes: u64) {
    unmapping_exactly(device, rounded(bytes));
}

/// As [`unmapping`], of bytes that are known to be taken as they are.
pub fn unmapping_exactly(device: i32, bytes: u64) {
    if let (Some(session), Some(task)) = (session::get(), task(device)) {
        session.client.published().unmapping(task.gpu, bytes);
    }
}

/// How long mgbd may take to show the process's first task.
const VIEW_TIMEOUT: Duration = Duration::from_secs(2);

/// Bytes that the program may have on the device at this moment, beyond what is charged, without waiting.
pub fn may_have(device: i32) -> Option<u64> {
    let (session, task) = (session::get()?, task(device)?);
    let (reserved, held) = {
        let account = task.account.lock();
        (account.reserved, account.held())
    };
    let start = Instant::now();
    let (view, shown) = loop {
        let view = session.client.status().ok()?;
        // mgbd shows a moment later what it has answered: of itself the process knows better.
        let is_own = |shown: &&TaskView| shown.pid == session.client.pid() && shown.gpu == task.gpu;
        let own: Vec<u64> = view
            .tasks
            .iter()
            .filter(is_own)
            .map(|task| task.reserved_bytes)
            .collect();
        if !own.is_empty() || reserved == 0 {
            break (view, own.iter().sum());
        }
        // A view from before its first grant.
        if start.elapsed() > VIEW_TIMEOUT {
            break (view, reserved);
        }
        std::thread::sleep(Duration::from_millis(2));
    };
    let gpu = view.gpus.iter().find(|view| view.gpu.index == task.gpu)?;
    let charged = gpu.reserved_bytes + gpu.contexts_bytes + gpu.reclaiming_bytes;
    let others = charged.saturating_sub(shown);
    let room = gpu.gpu.usable_bytes.saturating_sub(others).saturating_sub(held);
    let uid = rustix::process::geteuid().as_raw();
    let left = view
        .quotas
        .left_bytes(uid)
        .map(|left| left.saturating_add(shown).saturating_sub(held));
    Some(room.min(left.unwrap_or(u64::MAX)))
}

/// What was charged is not there any more.
pub fn discharge(device: i32, bytes: u64) {
    let (Some(session), Some(task)) = (session::get(), task(device)) else {
        return;
    };
    task.account.lock().remove(bytes);
    give_back(session, task);
}
