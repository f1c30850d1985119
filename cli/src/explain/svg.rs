//! Draws reports as one SVG that needs nothing else: a frame per task, its ops in the order of the source on
//! the left, its objects on the right, and a curve from each op to each object that it may touch.
//!
//! The order of ops is given by the source, so all there is to lay out is where objects stand: beside the
//! middle of the ops that touch them, as near as the others let them.

use mgb_catalogue::report::{ObjectReport, OpReport, Report, TaskReport};

use super::looks::{self, Class, shorten, wrap};
use super::words;
use crate::markup::Element;

/// All lengths are in the drawing's own units; at its full size one is a pixel.
const MARGIN: f64 = 16.0;
const WIDTH: f64 = 1200.0;
const PADDING: f64 = 12.0;
/// A line of text, and a character of it: about 0.6 of the font's size in any monospaced font.
const LINE: f64 = 17.0;
const FONT: f64 = 12.0;
const CHARACTER: f64 = 7.25;
/// A box, and from one to the next.
const BOX: f64 = 22.0;
const STEP: f64 = 28.0;
/// Where boxes begin and how wide they are.
const OPS_WIDTH: f64 = 560.0;
const OBJECTS_WIDTH: f64 = 400.0;
const OPS_LEFT: f64 = MARGIN + PADDING;
const OBJECTS_LEFT: f64 = WIDTH - MARGIN - PADDING - OBJECTS_WIDTH;

/// The SVG document of the reports.
pub fn document(reports: &[Report]) -> String {
    let mut drawing = Drawing {
        content: Vec::new(),
        y: MARGIN,
    };
    drawing.legend();
    for report in reports {
        drawing.module(report);
    }
    let height = drawing.y + MARGIN;
    let style = format!(
        "text{{font:{FONT}px ui-monospace,'DejaVu Sans Mono',Menlo,Consolas,monospace;fill:#222}}\
         .head{{font-weight:bold}}.edge{{fill:none;stroke:#888}}\
         .edge:hover,.op:hover rect{{stroke:#000;stroke-width:2.5}}rect{{stroke:#888}}"
    );
    let paper = rectangle(0.0, 0.0, WIDTH, height, "#ffffff").with("stroke", "none");
    Element::new("svg")
        .with("xmlns", "http://www.w3.org/2000/svg")
        .with("viewBox", format!("0 0 {WIDTH} {height}"))
        .with("width", WIDTH)
        .with("height", height)
        .child(Element::new("title").text("GPU tasks, their operations and memory objects"))
        .child(Element::new("style").text(style))
        .child(paper)
        .children(drawing.content)
        .to_string()
}

/// What has been drawn, and how far down.
struct Drawing {
    content: Vec<Element>,
    y: f64,
}

impl Drawing {
    fn legend(&mut self) {
        let mut x = MARGIN;
        for class in Class::ALL {
            self.content.push(rectangle(x, self.y, 14.0, 14.0, class.fill()));
            self.content.push(text(x + 20.0, self.y + 11.5, class.name()));
            x += 20.0 + (class.name().len() + 3) as f64 * CHARACTER;
        }
        let rest = "left: operations in the order of the source; right: objects they may touch";
        self.content.push(text(x, self.y + 11.5, rest));
        self.y += 14.0 + MARGIN;
    }

    fn module(&mut self, report: &Report) {
        let head = words::module(report);
        self.lines(MARGIN, WIDTH - 2.0 * MARGIN, &head, "head");
        for reason in &report.module_reasons {
            self.lines(MARGIN, WIDTH - 2.0 * MARGIN, &words::whole_module(reason), "");
        }
        self.y += PADDING / 2.0;
        for task in &report.tasks {
            self.task(task);
        }
        self.y += MARGIN;
    }

    fn task(&mut self, task: &TaskReport) {
        let top = self.y;
        // The frame is below all else, and as high as what it will hold.
        let below = self.content.len();
        self.y += PADDING;
        self.facts(task);
        self.y += PADDING / 2.0;
        self.boxes(task);
        self.y += PADDING;
        let frame = rectangle(MARGIN, top, WIDTH - 2.0 * MARGIN, self.y - top, "#fafafa")
            .with("rx", 8)
            .with("style", format!("stroke:{};stroke-width:2", looks::frame(task)));
        self.content.insert(below, frame);
        self.y += MARGIN;
    }

    fn facts(&mut self, task: &TaskReport) {
        let width = WIDTH - 2.0 * (MARGIN + PADDING);
        let title = format!("task {} in {}", task.id, task.function);
        self.lines(OPS_LEFT, width, &title, "head");
        self.lines(OPS_LEFT, width, words::kind(task), "");
        if task.for_others {
            self.lines(OPS_LEFT, width, words::FOR_OTHERS, "");
        }
        let indent = 9.0 * CHARACTER;
        for (word, fact) in words::facts(task).into_iter().chain(words::bounds(task)) {
            self.content.push(text(OPS_LEFT, self.y + FONT, word));
            self.lines(OPS_LEFT + indent, width - indent, &fact, "");
        }
    }

    fn boxes(&mut self, task: &TaskReport) {
        let top = self.y;
        let places = object_rows(task);
        let middle = |row: f64| top + row * STEP + BOX / 2.0;
        let mut last = task.ops.len() as f64;
        // Curves first: boxes hide where they end.
        for (row, op) in task.ops.iter().enumerate() {
            for id in &op.objects {
                if let Some(index) = task.objects.iter().position(|object| object.id == *id) {
                    let label = format!("{} -> {}", op_label(op), object_label(&task.objects[index]));
                    self.content
                        .push(curve(middle(row as f64), middle(places[index]), &label));
                }
            }
        }
        for (row, op) in task.ops.iter().enumerate() {
            let shape = rectangle(
                OPS_LEFT,
                top + row as f64 * STEP,
                OPS_WIDTH,
                BOX,
                Class::of(op).fill(),
            );
            let whole = op_label(op);
            self.content.push(labelled(
                "op",
                shape,
                OPS_LEFT,
                middle(row as f64),
                OPS_WIDTH,
                &whole,
            ));
        }
        for (object, &row) in task.objects.iter().zip(&places) {
            let mut shape =
                rectangle(OBJECTS_LEFT, top + row * STEP, OBJECTS_WIDTH, BOX, "#ffffff").with("rx", 9);
            if object.variable {
                shape = shape.with("stroke-dasharray", "5 3");
            }
            let whole = object_label(object);
            self.content.push(labelled(
                "object",
                shape,
                OBJECTS_LEFT,
                middle(row),
                OBJECTS_WIDTH,
                &whole,
            ));
            last = last.max(row + 1.0);
        }
        self.y += last * STEP;
    }

    /// Text that goes on below where it is too long for its width.
    fn lines(&mut self, x: f64, width: f64, whole: &str, class: &str) {
        for line in wrap(whole, (width / CHARACTER) as usize) {
            let mut line = text(x, self.y + FONT, &line);
            if !class.is_empty() {
                line = line.class(class);
            }
            self.content.push(line);
            self.y += LINE;
        }
    }
}

/// The row of each object, in parts of a row: the mean of the ops that touch it, moved down past objects
/// above.
fn object_rows(task: &TaskReport) -> Vec<f64> {
    let mean = |object: &ObjectReport| {
        let touching = task.ops.iter().enumerate();
        let rows: Vec<f64> = touching
            .filter(|(_, op)| op.objects.contains(&object.id))
            .map(|(row, _)| row as f64)
            .collect();
        rows.iter().sum::<f64>() / rows.len().max(1) as f64
    };
    let wanted: Vec<f64> = task.objects.iter().map(mean).collect();
    let mut order: Vec<usize> = (0..wanted.len()).collect();
    order.sort_by(|&a, &b| wanted[a].total_cmp(&wanted[b]));
    // As many objects as ops would otherwise end half a task below the last op.
    let rows = task.ops.len().max(wanted.len()) as f64;
    let mut places = vec![0.0; wanted.len()];
    let mut free = 0.0;
    for (before, &index) in order.iter().enumerate() {
        let latest = rows - (order.len() - before) as f64;
        let place = wanted[index].min(latest).max(free);
        places[index] = place;
        free = place + 1.0;
    }
    places
}

fn op_label(op: &OpReport) -> String {
    format!("{:<9} {}", words::line(&op.at), words::operation(op))
}

fn object_label(object: &ObjectReport) -> String {
    format!("#{} {}", object.id, words::object(object))
}

/// A box with as much of its name as fits; all of it shows under the pointer.
fn labelled(class: &str, shape: Element, left: f64, middle: f64, width: f64, whole: &str) -> Element {
    let room = ((width - PADDING) / CHARACTER) as usize;
    Element::new("g")
        .class(class)
        .child(Element::new("title").text(whole))
        .child(shape)
        .child(text(
            left + PADDING / 2.0,
            middle + FONT / 3.0,
            &shorten(whole, room),
        ))
}

fn curve(from: f64, to: f64, label: &str) -> Element {
    let (left, right) = (OPS_LEFT + OPS_WIDTH, OBJECTS_LEFT);
    let half = f64::midpoint(left, right);
    let path = format!("M{left:.1} {from:.1}C{half:.1} {from:.1} {half:.1} {to:.1} {right:.1} {to:.1}");
    Element::new("g")
        .child(Element::new("title").text(label))
        .child(Element::new("path").class("edge").with("d", path))
}

fn rectangle(x: f64, y: f64, width: f64, height: f64, fill: &str) -> Element {
    Element::new("rect")
        .with("x", x)
        .with("y", y)
        .with("width", width)
        .with("height", height)
        .with("fill", fill)
}

/// Spaces in a row stay: `xml:space` is what viewers outside browsers know.
fn text(x: f64, y: f64, shown: &str) -> Element {
    Element::new("text")
        .with("x", x)
        .with("y", y)
        .with("xml:space", "preserve")
        .text(shown)
}

#[cfg(test)]
mod tests {
    use roxmltree::{Document, Node};

    use super::*;
    use crate::explain::samples;

    fn with_class<'a>(document: &'a Document, class: &str) -> Vec<Node<'a, 'a>> {
        let has = |node: &Node| node.attribute("class") == Some(class);
        document.descendants().filter(has).collect()
    }

    fn number(node: &Node, name: &str) -> f64 {
        node.attribute(name).unwrap().parse().unwrap()
    }

    #[test]
    fn every_op_object_and_edge_is_drawn_once() {
        let svg = document(&samples::reports());
        let document = Document::parse(&svg).unwrap();
        assert_eq!(with_class(&document, "op").len(), 4);
        assert_eq!(with_class(&document, "object").len(), 2);
        assert_eq!(with_class(&document, "edge").len(), 3);
        for part in [
            "peak    2 * (4 * n) bytes",
            "allocated-elsewhere",
            "the process is open",
        ] {
            assert!(svg.contains(part), "no {part} in {svg}");
        }
    }

    #[test]
    fn awkward_names_come_out_whole() {
        let reports = samples::awkward();
        let svg = document(&reports);
        let document = Document::parse(&svg).unwrap();
        let title = document
            .descendants()
            .filter_map(|node| node.text())
            .find(|text| text.starts_with("task 7"));
        assert_eq!(
            title.unwrap(),
            format!("task 7 in {}", reports[0].tasks[0].function)
        );
        let op = with_class(&document, "op")[0];
        let kernel = reports[0].tasks[0].ops[0].kernel.as_deref().unwrap();
        let text_of = |name: &str| {
            let mut named = op.descendants().filter(|node| node.has_tag_name(name));
            named.next().and_then(|node| node.text()).unwrap().to_owned()
        };
        assert!(text_of("title").ends_with(kernel), "{op:?}");
        assert!(text_of("text").contains('…'), "{op:?}");
        // Op 1 names object 9, which is not there.
        assert_eq!(with_class(&document, "edge").len(), 1);
    }

    #[test]
    fn a_large_task_has_its_objects_beside_its_ops_and_none_on_another() {
        let count = 200;
        let op = |index: u32| OpReport {
            op: "launch".to_owned(),
            at: Default::default(),
            kernel: None,
            objects: vec![1 + index % count],
        };
        let object = |id| ObjectReport {
            id,
            ..ObjectReport::default()
        };
        let task = TaskReport {
            ops: (0..300).map(op).collect(),
            objects: (1..=count).map(object).collect(),
            ..TaskReport::default()
        };
        let report = Report {
            tasks: vec![task],
            ..Report::default()
        };
        let svg = document(&[report]);
        let document = Document::parse(&svg).unwrap();
        let tops = |class| -> Vec<f64> {
            let mut tops: Vec<f64> = with_class(&document, class)
                .iter()
                .map(|node| number(&node.children().find(|c| c.has_tag_name("rect")).unwrap(), "y"))
                .collect();
            tops.sort_by(f64::total_cmp);
            tops
        };
        let (ops, objects) = (tops("op"), tops("object"));
        assert!(
            objects.windows(2).all(|pair| pair[1] - pair[0] >= BOX),
            "{objects:?}"
        );
        assert!(objects.last() <= ops.last(), "{objects:?}");
        assert!(number(&document.root_element(), "height") > *ops.last().unwrap() + BOX);
    }
}
