//! Where a job's tasks ran and how long they waited, as the runtime in the program wrote it down.

use std::fs;
use std::path::Path;
use std::time::Duration;

use serde::Deserialize;

#[derive(Deserialize)]
struct Process {
    pid: u32,
    #[serde(default)]
    tasks: Vec<Task>,
}

#[derive(Deserialize)]
struct Task {
    gpu: Option<u32>,
    #[serde(default)]
    wait_ns: u64,
}

/// The GPUs of the process's tasks, and the sum of what they waited. A program that was killed, or not built with
/// MGB, has left nothing.
pub fn of_process(trace: &Path, pid: u32) -> (Vec<u32>, Duration) {
    let text = fs::read_to_string(trace).unwrap_or_default();
    of_text(&text, pid)
}

fn of_text(text: &str, pid: u32) -> (Vec<u32>, Duration) {
    let mut processes = text
        .lines()
        .filter_map(|line| serde_json::from_str::<Process>(line).ok());
    // The last one: numbers are used again, and the user's own trace file may be old.
    let Some(process) = processes.rfind(|process| process.pid == pid) else {
        return (Vec::new(), Duration::ZERO);
    };
    let mut gpus: Vec<u32> = process.tasks.iter().filter_map(|task| task.gpu).collect();
    gpus.sort_unstable();
    gpus.dedup();
    (
        gpus,
        Duration::from_nanos(process.tasks.iter().map(|task| task.wait_ns).sum()),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_process_of_that_number_counts() {
        let text = "{\"pid\":7,\"tasks\":[{\"gpu\":3,\"wait_ns\":9}]}\nno json\n\
                    {\"pid\":8,\"tasks\":[]}\n\
                    {\"pid\":7,\"tasks\":[{\"gpu\":1,\"wait_ns\":5},{\"gpu\":0,\"wait_ns\":6},{\"gpu\":null},{\"gpu\":1}]}\n";
        assert_eq!(of_text(text, 7), (vec![0, 1], Duration::from_nanos(11)));
        assert_eq!(of_text(text, 9), (vec![], Duration::ZERO));
    }
}
