use std::time::Duration;

use roxmltree::{Document, Node, ParsingOptions};

use super::*;
use crate::batch::cause::Cause;
use crate::batch::outcome::{BatchOutcome, EvictedSpan, Evictions, JobOutcome, JobState, Stretch};
use crate::demo::jobs::HostPhase;
use crate::measure::page::{LEGEND, STYLE};
use crate::measure::sampler::MeasuredSample;
use crate::parallel::Parallel;

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// A job with one task a pair of GPU and start; each takes a second.
fn job(number: usize, failed: bool, tasks: &[(u32, u64)]) -> JobOutcome {
    let task = |&(gpu, from): &(u32, u64)| Stretch {
        gpu,
        task: "main".to_owned(),
        from: ms(from),
        to: ms(from + 1000),
        peak_bytes: Some(12 << 20),
        away: Vec::new(),
    };
    JobOutcome {
        job: number,
        command: format!("vecadd {number}000 \"<&>\""),
        state: if failed { JobState::Failed } else { JobState::Done },
        exit_code: Some(if failed { 2 } else { 0 }),
        signal: None,
        cause: failed.then(|| Cause::OutOfMemory {
            log_line: "out of memory".to_owned(),
        }),
        gpus: tasks.iter().map(|(gpu, _)| *gpu).collect(),
        tasks: tasks.iter().map(task).collect(),
        evictions: Evictions::default(),
        moves: 0,
        share: None,
        latency: None,
        queued: Duration::ZERO,
        waited: Duration::ZERO,
        ran: ms(1000),
        turnaround: ms(1000),
        cpu: Duration::ZERO,
        host_peak_bytes: 0,
        log: None,
        again: false,
        due: None,
    }
}

fn demo() -> DemoOutcome {
    let sample = |at: u64| MeasuredSample {
        at: ms(at),
        used_bytes: vec![at << 10, 0],
        reserved_bytes: vec![at << 11, 0],
        queue: 3,
    };
    let samples = || (0..40).map(|step| sample(step * 50)).collect::<Vec<_>>();
    let batch = |policy: &str, jobs: Vec<JobOutcome>, makespan| {
        BatchOutcome::new(policy.to_owned(), 2, Parallel::Count(4), jobs, ms(makespan))
    };
    let sa = vec![job(1, false, &[(0, 0)]), job(2, false, &[(1, 10)])];
    let cg = vec![job(1, false, &[(0, 0)]), job(2, true, &[(0, 500)])];
    // One job with two tasks, and one on the GPU of the first at the same time.
    let mut mgb = vec![job(1, false, &[(0, 0), (1, 900)]), job(2, false, &[(0, 400)])];
    // Whose first task is evicted once.
    mgb[0].tasks[0].away = vec![EvictedSpan {
        from: ms(250),
        to: ms(750),
        bytes: 11 << 20,
    }];
    mgb[0].evictions = Evictions {
        times: 1,
        bytes: 11 << 20,
        copying: ms(40),
    };
    DemoOutcome::new(
        (true, "Software GPU".to_owned()),
        254 << 20,
        HostPhase::Wait,
        vec![
            (batch("sa", sa, 2000), samples()),
            (batch("cg:4", cg, 1500), samples()),
            (batch("mgb", mgb, 1900), samples()),
        ],
    )
}

fn parsed(text: &str) -> Document<'_> {
    let options = ParsingOptions {
        allow_dtd: true,
        ..ParsingOptions::default()
    };
    Document::parse_with_options(text, options).expect("the page is well formed")
}

fn has_class(node: &Node<'_, '_>, class: &str) -> bool {
    let classes = node.attribute("class").unwrap_or_default();
    classes.split(' ').any(|one| one == class)
}

#[test]
fn a_lane_a_gpu_and_a_bar_a_task() {
    let demo = demo();
    let text = text(&demo);
    let page = parsed(&text);
    let charts: Vec<_> = page
        .descendants()
        .filter(|node| node.tag_name().name() == "svg")
        .collect();
    assert_eq!(charts.len(), demo.policies.len());
    for (chart, row) in charts.iter().zip(&demo.policies) {
        let of_class = |class| chart.descendants().filter(move |node| has_class(node, class));
        assert_eq!(of_class("lane").count(), row.batch.gpus);
        assert_eq!(of_class("memory").count(), row.batch.gpus);
        assert_eq!(of_class("queue").count(), 1);
        // In which lane, and of which job.
        let number = |node: &Node<'_, '_>, name| node.attribute(name).unwrap().parse::<usize>().unwrap();
        let mut drawn: Vec<_> = of_class("bar")
            .map(|bar| {
                (
                    number(&bar.parent().unwrap(), "data-gpu"),
                    number(&bar, "data-job"),
                )
            })
            .collect();
        let jobs = row.batch.jobs.iter();
        let mut measured: Vec<_> = jobs
            .flat_map(|job| job.tasks.iter().map(|task| (task.gpu as usize, job.job)))
            .collect();
        drawn.sort_unstable();
        measured.sort_unstable();
        assert_eq!(drawn, measured, "{}", row.batch.policy);
        let failed = row
            .batch
            .jobs
            .iter()
            .filter(|job| job.state != JobState::Done)
            .map(|job| job.tasks.len())
            .sum::<usize>();
        assert_eq!(of_class("failed").count(), failed, "{}", row.batch.policy);
    }
}

/// A gap within its task's bar, and the same in words.
#[test]
fn an_eviction_is_a_gap_in_a_bar() {
    let text = text(&demo());
    let page = parsed(&text);
    let gaps: Vec<_> = page
        .descendants()
        .filter(|node| has_class(node, "away"))
        .collect();
    assert_eq!(gaps.len(), 1);
    let bar = gaps[0].parent().unwrap();
    assert!(has_class(&bar, "bar") && bar.attribute("data-job") == Some("1"));
    let span = |node: &Node<'_, '_>| {
        let rect = node.children().find(|child| child.has_tag_name("rect")).unwrap();
        let number = |name| rect.attribute(name).unwrap().parse::<f64>().unwrap();
        (number("x"), number("width"))
    };
    // Half a second of one, and it begins a quarter of a second after it.
    let ((x, width), (bar_x, bar_width)) = (span(&gaps[0]), span(&bar));
    assert!((width / bar_width - 0.5).abs() < 0.01, "{width} of {bar_width}");
    assert!(((x - bar_x) / bar_width - 0.25).abs() < 0.01, "{x} after {bar_x}");
    let words = |node: &Node<'_, '_>| {
        let title = node.children().find(|child| child.has_tag_name("title"));
        title.and_then(|title| title.text()).unwrap().to_owned()
    };
    assert!(
        words(&gaps[0]).contains("11.0 MiB evicted to the host, from 0.25 s"),
        "{}",
        words(&gaps[0])
    );
    assert!(
        words(&bar).contains("evicted 1 time, for 0.50 s"),
        "{}",
        words(&bar)
    );
    let cells = page.descendants().filter(|node| node.has_tag_name("td"));
    assert_eq!(
        cells
            .filter(|cell| cell.text() == Some("1 time, 11.0 MiB"))
            .count(),
        1
    );
}

/// On a narrow window what is wide scrolls by itself; else the whole page would, and its text be cut.
#[test]
fn what_is_wide_scrolls_by_itself() {
    let text = text(&demo());
    let page = parsed(&text);
    let wide: Vec<_> = page
        .descendants()
        .filter(|node| ["svg", "table"].contains(&node.tag_name().name()))
        .collect();
    assert_eq!(wide.len(), 1 + 3 * 2);
    for node in wide {
        assert!(has_class(&node.parent().unwrap(), "wide"), "{node:?}");
    }
}

/// Every key of the legend has a colour.
#[test]
fn the_legend_is_drawn() {
    let text = text(&demo());
    let page = parsed(&text);
    let keys: Vec<_> = page.descendants().filter(|node| has_class(node, "key")).collect();
    assert_eq!(keys.len(), LEGEND.len());
    for (class, _) in LEGEND {
        assert!(STYLE.contains(&format!(".key.{class} {{")), "{class}");
    }
}

#[test]
fn bars_of_one_lane_never_overlap() {
    let text = text(&demo());
    let page = parsed(&text);
    for lane in page.descendants().filter(|node| has_class(node, "lane")) {
        let mut places: Vec<(f64, f64, f64)> = lane
            .children()
            .filter(|node| has_class(node, "bar"))
            .map(|bar| {
                let rect = bar.children().find(|node| node.has_tag_name("rect")).unwrap();
                let number = |name| rect.attribute(name).unwrap().parse::<f64>().unwrap();
                (number("y"), number("x"), number("width"))
            })
            .collect();
        places.sort_by(|a, b| a.partial_cmp(b).unwrap());
        for pair in places.windows(2) {
            let ((y, x, width), (next_y, next_x, _)) = (pair[0], pair[1]);
            assert!(y != next_y || x + width <= next_x + 0.2, "{pair:?}");
        }
    }
}

#[test]
fn the_time_axis_is_common() {
    let text = text(&demo());
    let page = parsed(&text);
    let ticks = page.descendants().filter(|node| has_class(node, "grid"));
    let places: Vec<Vec<_>> = ticks
        .map(|grid| {
            let lines = grid.descendants().filter(|node| node.has_tag_name("line"));
            lines
                .map(|line| line.attribute("x1").unwrap().to_owned())
                .collect()
        })
        .collect();
    assert!(
        places[0].len() > 5 && places.windows(2).all(|pair| pair[0] == pair[1]),
        "{places:?}"
    );
}

#[test]
fn the_figures_are_those_of_the_json() {
    let demo = demo();
    let text = text(&demo);
    let page = parsed(&text);
    let json = serde_json::to_value(&demo).unwrap();
    let words = page
        .descendants()
        .filter_map(|node| node.text())
        .collect::<Vec<_>>()
        .join(" ");
    for row in json["policies"].as_array().unwrap() {
        let makespan = format!("{:.2} s", row["makespan_s"].as_f64().unwrap());
        assert!(
            words.contains(&format!("{}: {makespan}", row["policy"].as_str().unwrap())),
            "{words}"
        );
        let tasks: usize = row["jobs"]
            .as_array()
            .unwrap()
            .iter()
            .map(|job| job["tasks"].as_array().unwrap().len())
            .sum();
        assert!(tasks >= 2 && row["samples"].as_array().unwrap().len() == 40);
    }
}

#[test]
fn nothing_comes_from_elsewhere() {
    let text = text(&demo());
    for word in ["http", "src=", "href=", "url(", "<script"] {
        assert!(!text.contains(word), "the page says {word}");
    }
}
