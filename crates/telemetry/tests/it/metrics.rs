//! Metrics, as a collector reads them.

use super::collector::Collector;
use longhaul_runtime::Ports;
use longhaul_telemetry::{CollectorSettings, MetricsSender};
use opentelemetry_proto::tonic::{
    common::v1::KeyValue,
    metrics::v1::{AggregationTemporality, Metric, metric::Data, number_data_point::Value},
};
use std::{
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};
use tokio_util::sync::CancellationToken;

/// As `/metrics` has it.
const TEXT: &str = "# HELP longhaul_tasks_created Tasks that were created.
# TYPE longhaul_tasks_created counter
longhaul_tasks_created_total{tool=\"build\"} 3
longhaul_tasks_created_total{tool=\"a \\\"b\\\"\"} 1
# HELP longhaul_open_streams Streams.
# TYPE longhaul_open_streams gauge
longhaul_open_streams 7
# HELP longhaul_upstream_up Nobody.
# TYPE longhaul_upstream_up gauge
# HELP longhaul_task_duration_seconds How long.
# TYPE longhaul_task_duration_seconds histogram
# UNIT longhaul_task_duration_seconds seconds
longhaul_task_duration_seconds_sum{tool=\"build\"} 4.5
longhaul_task_duration_seconds_count{tool=\"build\"} 6
longhaul_task_duration_seconds_bucket{le=\"0.5\",tool=\"build\"} 1
longhaul_task_duration_seconds_bucket{le=\"1.0\",tool=\"build\"} 4
longhaul_task_duration_seconds_bucket{le=\"+Inf\",tool=\"build\"} 6
# EOF
";

fn settings(collector: &Collector) -> CollectorSettings {
    CollectorSettings {
        endpoint: collector.url.clone(),
        service: "measured".to_owned(),
        version: "1.0.0".to_owned(),
    }
}

fn labels(attributes: &[KeyValue]) -> Vec<String> {
    attributes
        .iter()
        .map(|label| format!("{}={:?}", label.key, label.value))
        .collect()
}

/// Sent at intervals, and once more at the end. A reading that fails is left out.
#[tokio::test]
async fn a_collector_gets_what_the_metrics_say() {
    let collector = Collector::start().await;
    let stop = CancellationToken::new();
    let readings = AtomicU32::new(0);
    let ports = Ports::system();
    let sending = async {
        let read = async || match readings.fetch_add(1, Ordering::Relaxed) {
            0 => Err("the store is busy".to_owned()),
            _ => Ok(TEXT.to_owned()),
        };
        let sender = MetricsSender::new(settings(&collector)).unwrap();
        sender.run(&ports, Duration::from_millis(1), read, stop.clone()).await;
    };
    let received = async {
        let received = collector.metrics(2).await;
        stop.cancel();
        received
    };
    let ((), received) = tokio::join!(sending, received);
    assert!(readings.into_inner() > 3, "a failed one, two, and the last");
    let resource = received[1].resource.as_ref().unwrap();
    assert!(labels(&resource.attributes)[0].contains("measured"), "{resource:?}");
    let metrics = &received[1].scope_metrics[0].metrics;
    let names: Vec<&str> = metrics.iter().map(|metric| &*metric.name).collect();
    assert_eq!(
        names,
        [
            "longhaul_tasks_created",
            "longhaul_open_streams",
            "longhaul_task_duration_seconds"
        ]
    );
    let [created, streams, took] = &metrics[..] else {
        unreachable!()
    };
    assert_eq!((&*created.description, &*took.unit), ("Tasks that were created.", "s"));
    counted(created);
    let Some(Data::Gauge(gauge)) = &streams.data else {
        panic!("{streams:?}")
    };
    assert_eq!(gauge.data_points[0].value, Some(Value::AsDouble(7.0)));
    distributed(took);
}

fn counted(metric: &Metric) {
    let Some(Data::Sum(sum)) = &metric.data else {
        panic!("{metric:?}")
    };
    assert!(sum.is_monotonic);
    assert_eq!(sum.aggregation_temporality(), AggregationTemporality::Cumulative);
    let [build, other] = &sum.data_points[..] else {
        panic!("{sum:?}")
    };
    assert_eq!(build.value, Some(Value::AsDouble(3.0)));
    assert!(labels(&other.attributes)[0].contains(r#"a \"b\""#), "{other:?}");
    assert!(0 < build.start_time_unix_nano && build.start_time_unix_nano <= build.time_unix_nano);
}

fn distributed(metric: &Metric) {
    let Some(Data::Histogram(histogram)) = &metric.data else {
        panic!("{metric:?}")
    };
    let [point] = &histogram.data_points[..] else {
        panic!("{histogram:?}")
    };
    assert_eq!((point.count, point.sum), (6, Some(4.5)));
    assert_eq!(
        (&point.bucket_counts[..], &point.explicit_bounds[..]),
        (&[1, 3, 2][..], &[0.5, 1.0][..])
    );
    assert_eq!(point.attributes.len(), 1, "the bound is no label: {point:?}");
}

#[tokio::test]
async fn a_url_that_is_none_is_refused() {
    let settings = CollectorSettings {
        endpoint: "nowhere".to_owned(),
        service: "measured".to_owned(),
        version: "1.0.0".to_owned(),
    };
    let refused = MetricsSender::new(settings).err().unwrap().to_string();
    assert!(refused.starts_with("cannot send to nowhere/v1/metrics: "), "{refused}");
}
