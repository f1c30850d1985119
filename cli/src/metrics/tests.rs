//! What Prometheus sees of a node.

use std::collections::BTreeSet;

use mgb_probe::view::{NodeView, TaskState};

use super::families::Families;
use super::node::families;
use crate::example::view;

fn text(view: Option<&NodeView>) -> String {
    families(view).text().expect("all families can be encoded")
}

#[test]
fn without_mgbd_only_that_is_said() {
    assert_eq!(
        text(None),
        "# HELP mgb_up Whether mgbd answers.\n# TYPE mgb_up gauge\nmgb_up 0\n"
    );
}

#[test]
fn a_node_without_anything_can_be_encoded() {
    assert!(text(Some(&NodeView::default())).contains("mgb_queue_requests 0\n"));
}

/// What promtool's lint asks of names and help.
#[test]
fn names_are_as_prometheus_wants_them() {
    let text = text(Some(&view()));
    let mut seen = BTreeSet::new();
    for line in text.lines().filter_map(|line| line.strip_prefix("# TYPE ")) {
        let (name, kind) = line.split_once(' ').unwrap();
        assert!(seen.insert(name.to_owned()), "{name} twice");
        assert!(name.starts_with("mgb_"), "{name}");
        assert!(
            name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'),
            "{name}"
        );
        assert_eq!(name.ends_with("_total"), kind == "counter", "{name} is a {kind}");
        for unit in [
            "_ms",
            "_kib",
            "_mib",
            "_percent",
            "_count",
            "_sum",
            "_bucket",
            "_info_total",
        ] {
            assert!(!name.ends_with(unit), "{name} ends in {unit}");
        }
        assert!(text.contains(&format!("# HELP {name} ")), "{name}");
    }
    assert!(seen.len() > 40, "{}", seen.len());
}

/// Words of users are in labels.
#[test]
fn hostile_words_stay_within_their_label() {
    let mut view = view();
    view.gpus[0].gpu.name = "a \"GPU\"\\ \n# TYPE evil counter\nevil 1".to_owned();
    view.policy = "\u{0}\u{1b}[2J\u{fffd}é".to_owned();
    let text = text(Some(&view));
    assert!(
        !text
            .lines()
            .any(|line| line.starts_with("evil") || line == "# TYPE evil counter"),
        "{text}"
    );
    assert!(
        text.contains(r#"modelName="a \"GPU\"\\ \n# TYPE evil counter\nevil 1""#),
        "{text}"
    );
}

#[test]
fn every_state_and_largest_number_has_its_text() {
    let mut view = view();
    view.gpus[0].reserved_bytes = u64::MAX;
    view.counts.evicted_bytes = u64::MAX;
    for task in &mut view.tasks {
        task.state = TaskState::Unknown;
        task.reserved_bytes = u64::MAX;
    }
    let text = text(Some(&view));
    assert!(
        text.contains(r#"state="unknown"} 4"#)
            && text.contains("mgb_evicted_bytes_total 18446744073709552000"),
        "{text}"
    );
}

fn documented(page: &str) -> BTreeSet<String> {
    let words = page.split(|letter: char| !(letter.is_ascii_lowercase() || letter == '_'));
    words
        .filter(|word| word.starts_with("mgb_"))
        .map(str::to_owned)
        .collect()
}

fn all() -> BTreeSet<String> {
    let families: Families = families(Some(&view()));
    families.names().into_iter().collect()
}

#[test]
fn the_page_lists_each_metric_and_no_other() {
    assert_eq!(documented(include_str!("../../../docs/METRICS.md")), all());
}

#[test]
fn the_dashboard_asks_for_metrics_that_there_are() {
    let text = include_str!("../../../docs/grafana/mgb.json");
    let dashboard: serde_json::Value = serde_json::from_str(text).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let mut asked = BTreeSet::new();
    for panel in panels {
        for target in panel["targets"].as_array().into_iter().flatten() {
            asked.extend(documented(target["expr"].as_str().unwrap()));
        }
    }
    let all = all();
    let unknown: Vec<&String> = asked.difference(&all).collect();
    assert!(unknown.is_empty() && asked.len() > 10, "{unknown:?} of {asked:?}");
    let ids: BTreeSet<u64> = panels.iter().filter_map(|panel| panel["id"].as_u64()).collect();
    assert_eq!(ids.len(), panels.len(), "each panel has a number of its own");
}
