//! Draws reports as text for Graphviz: a cluster per file and in it one per task, with the task's ops in the
//! order of the source on the left, its objects on the right, and an edge from each op to each object that it
//! may touch.
//!
//! The ops of a task are the rows of one node, a table in Graphviz's own HTML: nodes of their own would be
//! ordered as their edges cross least.

use std::fmt::Write;

use mgb_catalogue::report::{ObjectReport, OpReport, Report, TaskReport};

use super::looks::{self, Class, shorten, wrap};
use super::words;
use crate::markup::Element;

/// Characters of a label's line.
const WIDTH: usize = 90;
/// Characters of an op's or an object's name.
const NAME: usize = 90;

/// The document: one directed graph.
pub fn document(reports: &[Report]) -> String {
    let mut dot = String::from(
        "digraph mgb {\n  rankdir=LR;\n  ranksep=1.5;\n  nodesep=0.1;\n  fontname=\"Helvetica\";\n  labeljust=l;\n  \
         node [shape=box, style=filled, fontname=\"Helvetica\", fontsize=11, height=0.3];\n  \
         edge [color=\"#888888\", arrowsize=0.6];\n",
    );
    for (number, report) in reports.iter().enumerate() {
        module(&mut dot, number, report);
    }
    dot.push_str("}\n");
    dot
}

// Writing to a String cannot fail, so the results of writeln! carry nothing.
fn module(dot: &mut String, number: usize, report: &Report) {
    let reasons = report.module_reasons.iter().map(words::whole_module);
    let label = [words::module(report)].into_iter().chain(reasons);
    let _ = writeln!(dot, "  subgraph cluster_{number} {{");
    let _ = writeln!(dot, "    label={};\n    color=\"#cccccc\";", lines(label));
    if report.tasks.is_empty() {
        // Graphviz leaves out a cluster without nodes.
        let _ = writeln!(dot, "    m{number} [label=\"no GPU tasks\", style=dashed];");
    }
    for (index, one) in report.tasks.iter().enumerate() {
        task(dot, &format!("{number}_{index}"), one);
    }
    dot.push_str("  }\n");
}

fn task(dot: &mut String, number: &str, task: &TaskReport) {
    let title = format!("task {} in {}", task.id, task.function);
    let others = task.for_others.then(|| words::FOR_OTHERS.to_owned());
    let label = [title, words::kind(task).to_owned()]
        .into_iter()
        .chain(others)
        .chain(words::facts(task).into_iter().map(fact))
        .chain(words::bounds(task).into_iter().map(fact));
    let _ = writeln!(dot, "    subgraph cluster_{number} {{");
    let _ = writeln!(
        dot,
        "      label={};\n      color=\"{}\";\n      penwidth=2;",
        lines(label),
        looks::frame(task)
    );
    if !task.ops.is_empty() {
        let table = Element::new("table")
            .with("border", 0)
            .with("cellborder", 1)
            .with("cellspacing", 3)
            .with("cellpadding", 4)
            .children(task.ops.iter().enumerate().map(op));
        let _ = writeln!(
            dot,
            "      t{number}_ops [shape=plain, style=\"\", label=<\n{table}>];"
        );
    }
    for one in &task.objects {
        object(dot, &format!("t{number}_object{}", one.id), one);
    }
    for (index, op) in task.ops.iter().enumerate() {
        for id in &op.objects {
            // Graphviz would draw a node for an id without an object.
            if task.objects.iter().any(|object| object.id == *id) {
                let _ = writeln!(dot, "      t{number}_ops:op{index} -> t{number}_object{id};");
            }
        }
    }
    dot.push_str("    }\n");
}

fn op((index, op): (usize, &OpReport)) -> Element {
    let name = format!("{}  {}", words::line(&op.at), words::operation(op));
    let cell = Element::new("td")
        .with("port", format!("op{index}"))
        .with("align", "left")
        .with("bgcolor", Class::of(op).fill())
        .text(shorten(&name, NAME));
    Element::new("tr").child(cell)
}

fn object(dot: &mut String, name: &str, object: &ObjectReport) {
    let whole = format!("#{} {}", object.id, words::object(object));
    let style = if object.variable {
        "rounded,dashed"
    } else {
        "rounded"
    };
    let _ = writeln!(
        dot,
        "      {name} [label={}, tooltip={}, style=\"{style}\"];",
        quoted(&shorten(&whole, NAME)),
        quoted(&whole)
    );
}

fn fact((word, fact): (&str, String)) -> String {
    // Fonts of drawings have no columns, and a line without a word says itself what it is.
    let fact = fact.split_whitespace().collect::<Vec<_>>().join(" ");
    if word.is_empty() {
        return fact;
    }
    format!("{word}: {fact}")
}

/// A label of several lines, each set to the left.
fn lines(texts: impl Iterator<Item = String>) -> String {
    let mut label = String::from("\"");
    for text in texts {
        for line in wrap(&text, WIDTH) {
            escape(&mut label, &line);
            label.push_str("\\l");
        }
    }
    label.push('"');
    label
}

/// A name as DOT's quoted string, whatever is in it.
fn quoted(name: &str) -> String {
    let mut quoted = String::from("\"");
    escape(&mut quoted, name);
    quoted.push('"');
    quoted
}

/// Graphviz reads escapes such as `\l` and `\N`, and HTML's entities, in quoted labels too.
fn escape(into: &mut String, text: &str) {
    for character in text.chars() {
        match character {
            '"' => into.push_str("\\\""),
            '\\' => into.push_str("\\\\"),
            '&' => into.push_str("&amp;"),
            control if control.is_control() => into.push('\u{fffd}'),
            other => into.push(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use layout::gv::DotParser;
    use layout::gv::parser::ast::{Graph, Stmt};
    use roxmltree::Document;

    use super::*;
    use crate::explain::samples;

    /// What parsers that are not ours find in a document.
    #[derive(Default)]
    struct ParsedDot {
        /// Labels of nodes that are no tables.
        nodes: Vec<String>,
        ops: Vec<String>,
        edges: usize,
    }

    /// Tables are XML. The parser for the rest knows no HTML, so they are taken out for it.
    fn read(dot: &str) -> ParsedDot {
        let mut found = ParsedDot::default();
        let mut plain = String::new();
        let mut rest = dot;
        while let Some((before, after)) = rest.split_once("label=<\n") {
            let (table, after) = after.split_once(">];\n").expect("tables end");
            let table = Document::parse(table).unwrap_or_else(|error| panic!("{error}: {table}"));
            let cells = table.descendants().filter(|node| node.has_tag_name("td"));
            found
                .ops
                .extend(cells.filter_map(|cell| cell.text()).map(str::to_owned));
            plain += before;
            plain += "color=black];\n";
            rest = after;
        }
        plain += rest;
        let graph = DotParser::new(&plain).process();
        contents(
            &graph.unwrap_or_else(|error| panic!("{error}\n{plain}")),
            &mut found,
        );
        found
    }

    /// Clusters in clusters included.
    fn contents(graph: &Graph, found: &mut ParsedDot) {
        for statement in &graph.list.list {
            match statement {
                Stmt::Node(node) => {
                    let label = node.list.iter().find(|(name, _)| name == "label");
                    found.nodes.extend(label.map(|(_, label)| label.clone()));
                }
                Stmt::Edge(_) => found.edges += 1,
                Stmt::SubGraph(inner) => contents(inner, found),
                Stmt::Attribute(_) => {}
            }
        }
    }

    #[test]
    fn the_document() {
        insta::assert_snapshot!(document(&samples::reports()));
    }

    #[test]
    fn names_are_escaped() {
        assert_eq!(quoted(r#"a"b\l &lt; <x>{|}"#), r#""a\"b\\l &amp;lt; <x>{|}""#);
        assert_eq!(quoted("a\nb\u{0}"), "\"a\u{fffd}b\u{fffd}\"");
    }

    #[test]
    fn other_parsers_read_every_op_object_and_edge() {
        let found = read(&document(&samples::reports()));
        assert_eq!(found.nodes, ["#1 da: 4 * n bytes", "#2 (unnamed): 4 * n bytes"]);
        assert_eq!(found.ops.len(), 4, "{:?}", found.ops);
        assert_eq!(found.ops[0], "line 13  cudaMalloc");
        assert_eq!(found.edges, 3);

        let found = read(&document(&samples::awkward()));
        assert_eq!(found.nodes[0], "#1 p: n << 3 bytes");
        assert!(found.ops[0].ends_with("(int&&, float*)"), "{:?}", found.ops);
        assert_eq!(found.ops[0].chars().count(), NAME);
        assert_eq!(found.edges, 1, "the object that is not there gets no edge");
    }

    #[test]
    fn a_file_without_tasks_is_drawn() {
        let found = read(&document(&[Report::default()]));
        assert_eq!(found.nodes, ["no GPU tasks"]);
    }
}
