//! A collector: keeps what it is sent.

use axum::{Json, Router, body::Bytes, routing::post};
use opentelemetry_proto::tonic::{
    collector::{
        metrics::v1::{ExportMetricsServiceRequest, ExportMetricsServiceResponse},
        trace::v1::{ExportTraceServiceRequest, ExportTraceServiceResponse},
    },
    common::v1::any_value::Value,
    metrics::v1::ResourceMetrics,
    trace::v1::{ResourceSpans, Span},
};
use prost::Message as _;
use std::{sync::Arc, time::Duration};
use tokio::{net::TcpListener, sync::watch};

pub(crate) struct Collector {
    pub(crate) url: String,
    received: watch::Receiver<Vec<ResourceSpans>>,
    metrics: watch::Receiver<Vec<ResourceMetrics>>,
}

impl Collector {
    pub(crate) async fn start() -> Self {
        let (sender, received) = watch::channel(Vec::new());
        let sender = Arc::new(sender);
        let take = move |body: Bytes| {
            let sender = Arc::clone(&sender);
            async move {
                let request = ExportTraceServiceRequest::decode(body).unwrap();
                sender.send_modify(|received: &mut Vec<ResourceSpans>| received.extend(request.resource_spans));
                ExportTraceServiceResponse::default().encode_to_vec()
            }
        };
        let (measured, metrics) = watch::channel(Vec::new());
        let measured = Arc::new(measured);
        let measure = move |Json(request): Json<ExportMetricsServiceRequest>| {
            let measured = Arc::clone(&measured);
            async move {
                measured.send_modify(|received: &mut Vec<ResourceMetrics>| received.extend(request.resource_metrics));
                Json(ExportMetricsServiceResponse::default())
            }
        };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let router = Router::new()
            .route("/v1/traces", post(take))
            .route("/v1/metrics", post(measure));
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self { url, received, metrics }
    }

    /// What the first `count` requests with metrics had.
    pub(crate) async fn metrics(&self, count: usize) -> Vec<ResourceMetrics> {
        let mut metrics = self.metrics.clone();
        let met = metrics.wait_for(|received| received.len() >= count);
        let met = tokio::time::timeout(Duration::from_secs(30), met).await;
        met.expect("metrics").unwrap()[..count].to_vec()
    }

    fn spans(received: &[ResourceSpans]) -> Vec<Span> {
        let scopes = received.iter().flat_map(|resource| &resource.scope_spans);
        scopes.flat_map(|scope| scope.spans.clone()).collect()
    }

    /// The spans so far, once they fit.
    pub(crate) async fn until(&self, is_met: impl Fn(&[Span]) -> bool) -> Vec<Span> {
        let mut received = self.received.clone();
        let met = received.wait_for(|received| is_met(&Self::spans(received)));
        let met = tokio::time::timeout(Duration::from_secs(30), met).await;
        match met {
            Ok(received) => Self::spans(&received.unwrap()),
            Err(_) => panic!(
                "waited in vain for spans; there are {:#?}",
                Self::spans(&self.received.borrow())
            ),
        }
    }

    /// The names of the services that sent something, each once.
    pub(crate) fn services(&self) -> Vec<String> {
        let received = self.received.borrow();
        let attributes = received.iter().filter_map(|spans| spans.resource.as_ref());
        let names = attributes.flat_map(|resource| &resource.attributes);
        let mut names: Vec<String> = names
            .filter(|attribute| attribute.key == "service.name")
            .filter_map(|attribute| match attribute.value.as_ref()?.value.as_ref()? {
                Value::StringValue(name) => Some(name.clone()),
                _ => None,
            })
            .collect();
        names.dedup();
        names
    }
}
