//! A picture of bars: for each mix a group, in it a bar a policy.

use crate::markup::Element;
use crate::measure::page::scale::{LEFT, PLOT, place};

/// Heights in the drawing's own units.
const BAR: f64 = 14.0;
const GAP: f64 = 10.0;
const AXIS: f64 = 20.0;

/// A bar: a policy, its value, and whether it can be compared.
#[derive(Clone, Debug)]
pub struct Bar {
    /// The policy whose bar this is.
    pub policy: String,
    /// The value that the bar shows.
    pub value: f64,
    /// False for one that comes of failed jobs: it is drawn hollow.
    pub comparable: bool,
}

/// Groups of bars, with a mark of the bound's own value where there is one.
pub fn picture(what: &str, groups: &[(String, Vec<Bar>, Option<f64>)]) -> Element {
    let values = groups
        .iter()
        .flat_map(|(_, bars, bound)| bars.iter().map(|bar| bar.value).chain(*bound));
    let most = values.fold(1.0, f64::max);
    let x = |value: f64| LEFT + value / most * (PLOT - 180.0);
    let mut y = GAP;
    let mut parts = Vec::new();
    for (mix, bars, bound) in groups {
        let height = bars.len() as f64 * BAR;
        parts.push(
            Element::new("text")
                .with("x", LEFT - 6.0)
                .with("y", y + 11.0)
                .with("text-anchor", "end")
                .text(mix),
        );
        parts.extend(
            bars.iter()
                .enumerate()
                .map(|(index, one)| bar(mix, one, y + index as f64 * BAR, x(one.value))),
        );
        if let Some(bound) = bound {
            let at = place(x(*bound));
            parts.push(
                Element::new("line")
                    .class("capacity")
                    .with("x1", &at)
                    .with("x2", &at)
                    .with("y1", place(y))
                    .with("y2", place(y + height)),
            );
        }
        y += height + GAP;
    }
    let one = place(x(1.0));
    let base = Element::new("g").class("grid").child(
        Element::new("line")
            .with("x1", &one)
            .with("x2", &one)
            .with("y1", 0)
            .with("y2", place(y)),
    );
    let label = Element::new("g").class("grid").child(
        Element::new("text")
            .with("x", &one)
            .with("y", place(y + 12.0))
            .text("1, as sa"),
    );
    let width = LEFT + PLOT;
    Element::new("svg")
        .with("viewBox", format!("0 0 {width} {}", place(y + AXIS)))
        .with("role", "img")
        .with("aria-label", what)
        .child(base)
        .child(label)
        .children(parts)
}

fn bar(mix: &str, bar: &Bar, y: f64, right: f64) -> Element {
    let mark = if bar.comparable { "" } else { " (jobs failed)" };
    let words = format!("{} {:.2}{mark}", bar.policy, bar.value);
    Element::new("g")
        .class(if bar.comparable { "ratio" } else { "ratio hollow" })
        .with("data-mix", mix)
        .with("data-policy", &bar.policy)
        .child(Element::new("title").text(format!("{mix}: {words}")))
        .child(
            Element::new("rect")
                .with("x", LEFT)
                .with("y", place(y + 1.0))
                .with("width", place(right - LEFT))
                .with("height", BAR - 2.0),
        )
        .child(
            Element::new("text")
                .with("x", place(right + 5.0))
                .with("y", place(y + 11.0))
                .text(words),
        )
}
