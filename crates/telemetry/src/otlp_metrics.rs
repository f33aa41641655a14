//! Makes OTLP of OpenMetrics text, as "Prometheus and OpenMetrics Compatibility" of the OpenTelemetry specification has it.

use crate::open_metrics::{self, MetricFamily, Sample};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// `AGGREGATION_TEMPORALITY_CUMULATIVE`.
const CUMULATIVE: u8 = 2;

/// When values were read, and since when they are counted, in nanoseconds since 1970.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Times {
    pub(crate) began: i64,
    pub(crate) now: i64,
}

/// An `ExportMetricsServiceRequest` as JSON. `resource` has the attributes of the server.
pub(crate) fn request(text: &str, resource: &[(&str, &str)], times: Times) -> Value {
    let attributes: Vec<Value> = resource.iter().map(|(key, value)| attribute(key, value)).collect();
    let metrics: Vec<Value> = open_metrics::read(text)
        .iter()
        .filter_map(|family| metric(family, times))
        .collect();
    json!({"resourceMetrics": [{
        "resource": {"attributes": attributes},
        "scopeMetrics": [{"scope": {"name": "longhaul"}, "metrics": metrics}]
    }]})
}

/// `None` for a family without values.
fn metric(family: &MetricFamily<'_>, times: Times) -> Option<Value> {
    if family.samples.is_empty() {
        return None;
    }
    let unit = match family.unit {
        "seconds" => "s",
        "bytes" => "By",
        other => other,
    };
    let mut metric = json!({"name": family.name, "description": family.help, "unit": unit});
    let (kind, data) = match family.kind {
        "counter" => {
            let points = points(family, times, true);
            (
                "sum",
                json!({"dataPoints": points, "aggregationTemporality": CUMULATIVE, "isMonotonic": true}),
            )
        }
        "histogram" => {
            let points = histograms(family, times);
            (
                "histogram",
                json!({"dataPoints": points, "aggregationTemporality": CUMULATIVE}),
            )
        }
        _ => ("gauge", json!({"dataPoints": points(family, times, false)})),
    };
    metric[kind] = data;
    Some(metric)
}

fn points(family: &MetricFamily<'_>, times: Times, is_counted: bool) -> Vec<Value> {
    let point = |sample: &Sample<'_>| {
        let mut point = point(&sample.labels, times);
        if !is_counted {
            point.as_object_mut()?.remove("startTimeUnixNano");
        }
        point["asDouble"] = json!(sample.value);
        Some(point)
    };
    family.samples.iter().filter_map(point).collect()
}

/// What is known of a histogram with the same labels.
#[derive(Default)]
struct Buckets {
    sum: f64,
    count: f64,
    /// Bounds, and how many values are not above them.
    cumulative: Vec<(f64, f64)>,
}

fn histograms(family: &MetricFamily<'_>, times: Times) -> Vec<Value> {
    let mut by_labels: BTreeMap<BTreeMap<&str, String>, Buckets> = BTreeMap::new();
    for sample in &family.samples {
        let mut labels = sample.labels.clone();
        let bound = labels.remove("le");
        let buckets = by_labels.entry(labels).or_default();
        match (sample.suffix, bound) {
            ("_sum", _) => buckets.sum = sample.value,
            ("_count", _) => buckets.count = sample.value,
            ("_bucket", Some(bound)) => {
                let bound = bound.parse().unwrap_or(f64::INFINITY);
                buckets.cumulative.push((bound, sample.value));
            }
            _ => {}
        }
    }
    let point = |(labels, mut buckets): (BTreeMap<&str, String>, Buckets)| {
        buckets.cumulative.sort_by(|one, other| one.0.total_cmp(&other.0));
        let bounds: Vec<f64> = buckets
            .cumulative
            .iter()
            .map(|(bound, _)| *bound)
            .filter(|bound| bound.is_finite())
            .collect();
        let mut below = 0.0;
        let counts = buckets.cumulative.iter().map(|(_, cumulative)| {
            let here = cumulative - below;
            below = *cumulative;
            integer(here)
        });
        let counts: Vec<String> = counts.collect();
        let mut point = point(&labels, times);
        point["count"] = json!(integer(buckets.count));
        point["sum"] = json!(buckets.sum);
        point["bucketCounts"] = json!(counts);
        point["explicitBounds"] = json!(bounds);
        point
    };
    by_labels.into_iter().map(point).collect()
}

fn point(labels: &BTreeMap<&str, String>, times: Times) -> Value {
    let attributes: Vec<Value> = labels.iter().map(|(key, value)| attribute(key, value)).collect();
    json!({
        "attributes": attributes,
        "startTimeUnixNano": times.began.to_string(),
        "timeUnixNano": times.now.to_string(),
    })
}

fn attribute(key: &str, value: &str) -> Value {
    json!({"key": key, "value": {"stringValue": value}})
}

/// Numbers of 64 bits are texts in protobuf's JSON.
fn integer(count: f64) -> String {
    format!("{count:.0}")
}
