//! Prints the status for people.

use std::fmt::Write;

use mgb_probe::size::Bytes;
use mgb_probe::view::{TaskState, WaitView};

use super::document::{Gpu, Holder, Status};
use crate::table::{Table, plural};

/// The GPUs, then who holds room, then who waits.
pub fn text(status: &Status<'_>) -> String {
    let mut text = String::new();
    // Writing to a String cannot fail.
    let _ = writeln!(
        text,
        "mgbd {}, policy {}, up {}, {}, {}",
        status.mgbd_pid,
        status.policy,
        span(status.uptime_s * 1000),
        plural(status.clients as usize, "client"),
        mps(status)
    );
    let _ = write!(text, "\n{}", gpus(&status.gpus));
    let holders: Vec<&Holder<'_>> = status.gpus.iter().flat_map(|gpu| &gpu.holders).collect();
    if holders.is_empty() {
        let _ = writeln!(text, "\nno tasks");
    } else {
        let _ = write!(text, "\n{}", tasks(&holders));
    }
    if status.queue.is_empty() {
        let _ = writeln!(text, "\nnobody waits");
    } else {
        let _ = write!(text, "\n{}", queue(status.queue));
    }
    text
}

fn mps(status: &Status<'_>) -> String {
    match (status.mps_pipe, status.mps_note) {
        (Some(pipe), _) => format!("MPS at {pipe}"),
        (None, Some(why)) => format!("no MPS ({why})"),
        (None, None) => "no MPS".to_owned(),
    }
}

fn gpus(gpus: &[Gpu<'_>]) -> Table {
    let numbers = [
        "gpu",
        "usable",
        "reserved",
        "mapped",
        "contexts",
        "reclaiming",
        "foreign",
        "warps",
    ];
    let head = [&numbers[..], &["name"]].concat();
    let mut table = Table::new(&head, &numbers);
    for gpu in gpus {
        let sizes = [
            gpu.usable_bytes,
            gpu.reserved_bytes,
            gpu.resident_bytes,
            gpu.contexts_bytes,
            gpu.reclaiming_bytes,
            gpu.foreign_bytes,
        ];
        let sizes = sizes.into_iter().map(|bytes| Bytes(bytes).to_string());
        let warps = format!("{}/{}", gpu.warps_charged, gpu.max_warps);
        table.row(
            [gpu.index.to_string()]
                .into_iter()
                .chain(sizes)
                .chain([warps, gpu.name.to_owned()]),
        );
    }
    table
}

fn tasks(holders: &[&Holder<'_>]) -> Table {
    let head = ["gpu", "pid", "state", "reserved", "warps", "age", "task"];
    let mut table = Table::new(&head, &["gpu", "pid", "reserved", "warps", "age"]);
    for holder in holders {
        let task = holder.task;
        let state = match task.state {
            TaskState::Running => "running",
            TaskState::Growing => "growing",
            TaskState::Ended => "ended, memory held",
            TaskState::Reclaiming => "reclaiming",
        };
        table.row([
            task.gpu.to_string(),
            task.pid.to_string(),
            state.to_owned(),
            Bytes(task.reserved_bytes).to_string(),
            task.warps.to_string(),
            span(task.age_ms),
            task.label.clone(),
        ]);
    }
    table
}

fn queue(queue: &[WaitView]) -> Table {
    let mut table = Table::new(
        &["waits", "pid", "wants", "gpu", "kind", "task"],
        &["waits", "pid", "wants"],
    );
    for wait in queue {
        table.row([
            span(wait.waited_ms),
            wait.pid.to_string(),
            Bytes(wait.bytes).to_string(),
            wait.gpu.map_or_else(|| "any".to_owned(), |gpu| gpu.to_string()),
            if wait.growth {
                "more".to_owned()
            } else {
                "new".to_owned()
            },
            wait.label.clone(),
        ]);
    }
    table
}

/// A span of time, as coarse as it is long.
fn span(ms: u64) -> String {
    match ms {
        0..60_000 => format!("{:.1} s", ms as f64 / 1e3),
        60_000..3_600_000 => format!("{} min", ms / 60_000),
        _ => format!("{:.1} h", ms as f64 / 3_600_000.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mgb_probe::view::NodeView;

    const VIEW: &str = r#"{"version":1,"mgbd_pid":4711,"policy":"mgb","mps_pipe":null,
      "mps_note":"software GPUs have none","uptime_ms":65000,"clients":2,
      "gpus":[{"gpu":{"index":0,"node_index":0,"uuid":"GPU-aa","name":"Software GPU","total_bytes":268435456,
        "usable_bytes":266338304,"context_bytes":1048576,"max_warps":8448},"driver_free_bytes":200000000,
        "reserved_bytes":113246208,"resident_bytes":104857600,"contexts_bytes":2097152,
        "reclaiming_bytes":1048576,"foreign_bytes":0,"warps_charged":512,"processes":2,"launches_in_flight":1}],
      "tasks":[{"pid":100,"task":1,"label":"va.cu:main","gpu":0,"state":"running","reserved_bytes":104857600,
        "warps":512,"age_ms":1500},
        {"pid":99,"task":3,"label":"grow","gpu":0,"state":"reclaiming","reserved_bytes":8388608,"warps":0,
        "age_ms":7200000}],
      "queue":[{"pid":101,"label":"phases.cu:main","gpu":null,"bytes":209715200,"growth":false,"waited_ms":800}],
      "reclaims":[],
      "counts":{"granted":3,"grown":0,"refused":0,"swapped_out":0,"died_holding":1,"offenders":0}}"#;

    #[test]
    fn people_see() {
        let view: NodeView = serde_json::from_str(VIEW).unwrap();
        insta::assert_snapshot!(text(&Status::of(&view)));
    }

    #[test]
    fn scripts_see() {
        let view: NodeView = serde_json::from_str(VIEW).unwrap();
        insta::assert_snapshot!(serde_json::to_string_pretty(&Status::of(&view)).unwrap());
    }
}
