//! Prints reports for people.

use std::fmt::Write;

use mgb_catalogue::report::{Kind, Op, Place, Reason, Report, Task};

use crate::table::plural;

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
    let lazy = report.tasks.iter().filter(|task| task.kind == Kind::Lazy).count();
    let fixed = report.tasks.len() - lazy;
    let _ = writeln!(
        text,
        "{}: {} ({fixed} static, {lazy} lazy)",
        report.source,
        plural(report.tasks.len(), "task")
    );
    for reason in &report.module_reasons {
        let _ = writeln!(text, "  the whole module is lazy: {}", because(reason));
    }
    for task in &report.tasks {
        text.push('\n');
        print_task(text, task);
    }
}

fn print_task(text: &mut String, task: &Task) {
    let kind = match task.kind {
        Kind::Static => "static: bound by its probe before it starts",
        Kind::Lazy => "lazy: bound at run time",
    };
    let _ = writeln!(text, "task {} in {}, {kind}", task.id, task.function);
    if task.for_others {
        let _ = writeln!(
            text,
            "  for callers in other files: in this one every call was inlined"
        );
    }
    for reason in &task.reasons {
        let _ = writeln!(text, "  why     {}", because(reason));
    }
    if let Some(need) = &task.need {
        let _ = writeln!(text, "  need    peak    {} bytes", need.peak);
        let launch = format!("grid {}, block {}, shared {}", need.grid, need.block, need.shared);
        let _ = writeln!(text, "          launch  {launch}");
    }
    for object in &task.objects {
        let name = if object.name.is_empty() {
            "(unnamed)"
        } else {
            &object.name
        };
        let kind = if object.variable {
            ", a device variable"
        } else {
            ""
        };
        let _ = writeln!(
            text,
            "  object  #{:<3} {name}: {} bytes{kind}",
            object.id, object.bytes
        );
    }
    for op in &task.ops {
        let _ = writeln!(text, "  op      {:<8}{}", line(&op.at), operation(op));
    }
    if let Some(begin) = &task.begin {
        let _ = writeln!(text, "  begin   {}", line(begin));
    }
    if !task.ends.is_empty() {
        let mut ends: Vec<String> = task.ends.iter().map(line).collect();
        // Several edges may leave at one closing brace.
        ends.dedup();
        let _ = writeln!(text, "  end     {}", ends.join(", "));
    }
    match &task.movable {
        Some(movable) if movable.movable => {
            let _ = writeln!(text, "  movable nothing of the GPU is in its data");
        }
        Some(movable) => {
            for reason in &movable.reasons {
                let _ = writeln!(text, "  anchored {}", because(reason));
            }
        }
        None => {}
    }
}

fn operation(op: &Op) -> String {
    let mut shown = match &op.kernel {
        Some(kernel) => format!("{} {kernel}", op.op),
        None => op.op.clone(),
    };
    if !op.objects.is_empty() {
        let ids: Vec<String> = op.objects.iter().map(|id| format!("#{id}")).collect();
        let _ = write!(shown, "  [{}]", ids.join(" "));
    }
    shown
}

fn because(reason: &Reason) -> String {
    match &reason.at {
        Some(place) if place.line > 0 => format!("{} ({}, {})", reason.text, reason.code, line(place)),
        _ => format!("{} ({})", reason.text, reason.code),
    }
}

fn line(place: &Place) -> String {
    match (&place.file, place.line) {
        (_, 0) => "line ?".to_owned(),
        (Some(file), line) => format!("{file}:{line}"),
        (None, line) => format!("line {line}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mgb_catalogue::report::parse_all;

    const STATIC: &str = r#"{"version":1,"source":"va.cu","tasks":[{"id":1,"function":"main","kind":"static",
        "ops":[{"op":"cudaMalloc","line":13,"objects":[1]},
               {"op":"launch","kernel":"add(float const*, float*, int)","line":17,"objects":[1,2]},
               {"op":"cudaFree","line":0}],
        "objects":[{"id":1,"name":"da","bytes":"4 * n"},{"id":2,"name":"","bytes":"4 * n"}],
        "need":{"peak":"2 * (4 * n)","grid":"(n + 255) / 256","block":"256","shared":"0"},
        "begin":{"line":12},"ends":[{"line":20},{"line":8,"file":"check.h"}],
        "movable":{"movable":true}}]}
"#;
    const LAZY: &str = r#"{"version":1,"source":"run.cu","tasks":[{"id":1,"function":"run()","kind":"lazy",
        "reasons":[{"code":"allocated-elsewhere","text":"`state.data` is allocated in init()","line":30}],
        "ops":[{"op":"launch","kernel":"step(float*)","line":31}]}],
        "module_reasons":[{"code":"open-process","text":"it calls cuMemAlloc_v2"}]}
"#;

    #[test]
    fn reports_read_well() {
        let section = [STATIC.as_bytes(), b"\0\0", LAZY.as_bytes()].concat();
        insta::assert_snapshot!(text(&parse_all(&section).unwrap()));
    }
}
