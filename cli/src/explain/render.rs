//! Prints reports for people.

use std::fmt::Write;

use mgb_catalogue::report::{OpReport, Report, TaskReport};

use super::words;

/// All reports, a paragraph a task.
pub fn text(reports: &[Report]) -> String {
    let mut text = String::new();
    for (index, report) in reports.iter().enumerate() {
        if index > 0 {
            text.push('\n');
        }
        module(&mut text, report);
    }
    text
}

// Writing to a String cannot fail, so the results of writeln! carry nothing.
fn module(text: &mut String, report: &Report) {
    let _ = writeln!(text, "{}", words::module(report));
    for reason in &report.module_reasons {
        let _ = writeln!(text, "  {}", words::whole_module(reason));
    }
    for task in &report.tasks {
        text.push('\n');
        print_task(text, task);
    }
    if !report.kernels.is_empty() {
        text.push('\n');
    }
    for kernel in &report.kernels {
        let _ = writeln!(text, "kernel {}, {}", kernel.kernel, words::parts(kernel));
        for reason in &kernel.reasons {
            let _ = writeln!(text, "  why     {}", words::because(reason));
        }
    }
}

fn print_task(text: &mut String, task: &TaskReport) {
    let _ = writeln!(
        text,
        "task {} in {}, {}",
        task.id,
        task.function,
        words::kind(task)
    );
    if task.for_others {
        let _ = writeln!(text, "  {}", words::FOR_OTHERS);
    }
    print_facts(text, words::facts(task));
    for object in &task.objects {
        let _ = writeln!(text, "  object  #{:<3} {}", object.id, words::object(object));
    }
    let lines: Vec<String> = task.ops.iter().map(|op| words::line(&op.at) + " ").collect();
    let width = lines.iter().map(String::len).max().unwrap_or(0).max(8);
    for (op, line) in task.ops.iter().zip(lines) {
        let _ = writeln!(text, "  op      {line:<width$}{}", operation(op));
    }
    print_facts(text, words::bounds(task));
}

fn print_facts(text: &mut String, facts: Vec<(&str, String)>) {
    for (word, fact) in facts {
        let _ = writeln!(text, "  {word:<7} {fact}");
    }
}

fn operation(op: &OpReport) -> String {
    let mut shown = words::operation(op);
    if !op.objects.is_empty() {
        let ids: Vec<String> = op.objects.iter().map(|id| format!("#{id}")).collect();
        let _ = write!(shown, "  [{}]", ids.join(" "));
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explain::samples;

    #[test]
    fn reports_read_well() {
        insta::assert_snapshot!(text(&samples::reports()));
    }
}
