//! A set of metric families in Prometheus' text format.

use prometheus::proto::{Counter, Gauge, LabelPair, Metric, MetricFamily, MetricType};
use prometheus::{Encoder, TextEncoder};

/// What an HTTP answer with them says that it is.
pub(super) const CONTENT_TYPE: &str = prometheus::TEXT_FORMAT;

/// One value with the labels that tell it from the others of its family.
pub(super) struct LabelledValue {
    /// Names and values of the labels.
    pub(super) labels: Vec<(&'static str, String)>,
    /// The value, in the unit that the family's name has.
    pub(super) value: f64,
}

impl LabelledValue {
    /// A value that is the only one of its family.
    pub(super) fn plain(value: f64) -> LabelledValue {
        LabelledValue {
            labels: Vec::new(),
            value,
        }
    }
}

/// Families in the order in which they are printed.
#[derive(Default)]
pub(super) struct Families(Vec<MetricFamily>);

impl Families {
    /// Adds values that rise and fall. A family without values is left out.
    pub(super) fn gauge(&mut self, name: &str, help: &str, values: impl IntoIterator<Item = LabelledValue>) {
        self.add(name, help, MetricType::GAUGE, values);
    }

    /// Adds sums since mgbd's start, whose names end in `_total`.
    pub(super) fn counter(
        &mut self,
        name: &str,
        help: &str,
        values: impl IntoIterator<Item = LabelledValue>,
    ) {
        self.add(name, help, MetricType::COUNTER, values);
    }

    fn add(
        &mut self,
        name: &str,
        help: &str,
        kind: MetricType,
        values: impl IntoIterator<Item = LabelledValue>,
    ) {
        let metrics: Vec<Metric> = values.into_iter().map(|value| metric(value, kind)).collect();
        if metrics.is_empty() {
            return;
        }
        let mut family = MetricFamily::default();
        family.set_name(name.to_owned());
        family.set_help(help.to_owned());
        family.set_field_type(kind);
        family.set_metric(metrics);
        self.0.push(family);
    }

    /// The names of all families.
    #[cfg(test)]
    pub(super) fn names(&self) -> Vec<String> {
        self.0.iter().map(|family| family.name().to_owned()).collect()
    }

    /// All of them as text.
    pub(super) fn text(&self) -> prometheus::Result<String> {
        let mut text = Vec::new();
        TextEncoder::new().encode(&self.0, &mut text)?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    }
}

fn metric(value: LabelledValue, kind: MetricType) -> Metric {
    let labels = value.labels.into_iter().map(|(name, value)| {
        let mut label = LabelPair::default();
        label.set_name(name.to_owned());
        label.set_value(value);
        label
    });
    let mut metric = Metric::default();
    metric.set_label(labels.collect());
    if kind == MetricType::COUNTER {
        let mut counter = Counter::default();
        counter.set_value(value.value);
        metric.set_counter(counter);
    } else {
        let mut gauge = Gauge::default();
        gauge.set_value(value.value);
        metric.set_gauge(gauge);
    }
    metric
}
