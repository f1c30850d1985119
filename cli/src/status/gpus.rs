//! The table of GPUs.

use mgb_command::table::Table;
use mgb_probe::byte_size::Bytes;
use mgb_probe::view::{GpuView, NodeView};

use super::columns::{Column, Width, table};

/// A column of sizes in bytes.
fn bytes(head: &'static str, of: fn(&GpuView) -> u64) -> Column<'static, GpuView> {
    Column::numbers(head, move |view| Bytes(of(view)).to_string())
}

/// GPUs with what is taken of their memory, and how many requests could go there.
pub(super) fn gpus(view: &NodeView, width: Width) -> Table {
    let columns = [
        Column::numbers("gpu", |view: &GpuView| view.gpu.index.to_string()),
        bytes("usable", |view| view.gpu.usable_bytes),
        bytes("reserved", |view| view.reserved_bytes),
        bytes("headroom", |view| view.headroom_bytes).wide(width),
        bytes("held", |view| view.resident_bytes),
        bytes("contexts", |view| view.contexts_bytes).wide(width),
        bytes("overhead", |view| view.overhead_bytes).wide(width),
        bytes("reclaiming", |view| view.reclaiming_bytes).wide(width),
        bytes("foreign", |view| view.foreign_bytes).wide(width),
        Column::numbers("warps", |view: &GpuView| {
            format!("{}/{}", view.warps_charged, view.gpu.max_warps)
        })
        .wide(width),
        Column::numbers("queue", |gpu: &GpuView| queued(view, gpu.gpu.index).to_string()),
        Column::words("name", |view: &GpuView| view.gpu.name.clone()),
    ];
    table(&columns, &view.gpus)
}

/// How many requests wait that may go to the GPU: those for any count on each.
pub(crate) fn queued(view: &NodeView, gpu: u32) -> usize {
    let may_go = view
        .queue
        .iter()
        .filter(|wait| wait.gpu.is_none_or(|only| only == gpu));
    may_go.count()
}
