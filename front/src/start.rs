//! `cuInit`: where a process joins mgbd.

use std::ffi::c_uint;

use mgb_core::backoff::Backoff;
use mgb_core::gate;

use crate::calls::Code;
use crate::native::own;
use crate::swap::ByStore;
use crate::{frees, notice, room, session, sources};

own! {
    fn cuInit(flags: c_uint) |native| {
        if session::starts_here() {
            return native(flags);
        }
        let mut first = None;
        gate::prepare();
        room::set_swapper(&ByStore);
        room::set_reclaimer(room::Reclaimer {
            has_idle: |device| frees::any_on(device) || sources::has_idle(device),
            reclaim: |device| {
                frees::settle(device);
                if sources::has_idle(device) {
                    sources::reclaim(device, None);
                }
            },
        });
        session::start(room::first, |is_shared| {
            let mut backoff = Backoff::begin();
            if room::has_no_device() {
                first = Some(Code::NO_DEVICE);
                return;
            }
            first = Some(loop {
                let code = native(flags);
                if code == Code::SUCCESS || !is_shared || !backoff.again(code, notice::unavailable) {
                    break code;
                }
            });
        });
        // The process has been through here before.
        first.unwrap_or_else(|| if room::has_no_device() { Code::NO_DEVICE } else { native(flags) })
    }
}
