//! Traces of tasks, and metrics, which are sent to an OpenTelemetry collector.

use longhaul_core::Store;
use longhaul_runtime::Engine;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

#[cfg(feature = "otlp")]
pub(super) use longhaul_telemetry::CollectorError;
#[cfg(feature = "otlp")]
use longhaul_telemetry::{CollectorSettings, MetricsSender, Tracer};

/// How often metrics are sent, in milliseconds, unless the environment says otherwise.
#[cfg(feature = "otlp")]
const INTERVAL: u64 = 60_000;

/// What the configuration refuses.
#[cfg(not(feature = "otlp"))]
#[derive(Debug, thiserror::Error)]
pub(super) enum CollectorError {}

/// Sends the traces and metrics of a server, if a collector is configured.
pub(super) struct Telemetry {
    #[cfg(feature = "otlp")]
    senders: Option<(Tracer, MetricsSender)>,
}

impl Telemetry {
    /// For the server of this name. A configuration names no collector where the feature is off.
    #[cfg_attr(not(feature = "otlp"), expect(unused_variables, reason = "there is no collector"))]
    pub(super) fn new(collector: Option<String>, service: &str) -> Result<Self, CollectorError> {
        Ok(Self {
            #[cfg(feature = "otlp")]
            senders: match collector {
                None => None,
                Some(endpoint) => {
                    let settings = CollectorSettings {
                        endpoint,
                        service: service.to_owned(),
                        version: env!("CARGO_PKG_VERSION").to_owned(),
                    };
                    Some((Tracer::new(settings.clone())?, MetricsSender::new(settings)?))
                }
            },
        })
    }

    /// What puts a layer around the engine's store that notes what has ended.
    pub(super) fn noting(&self) -> impl FnOnce(Arc<dyn Store>) -> Arc<dyn Store> + Send + use<> {
        #[cfg(feature = "otlp")]
        let noting = self.senders.as_ref().map(|(tracer, _)| tracer.noting());
        move |store| {
            #[cfg(feature = "otlp")]
            if let Some(noting) = noting {
                return noting(store);
            }
            store
        }
    }

    /// Sends until `stop`. `metrics` reads them as OpenMetrics text.
    #[cfg_attr(not(feature = "otlp"), expect(unused_variables, reason = "there is no collector"))]
    pub(super) async fn send(
        self,
        engine: &Engine,
        metrics: impl AsyncFn() -> Result<String, String>,
        stop: &CancellationToken,
    ) {
        #[cfg(feature = "otlp")]
        if let Some((tracer, sender)) = self.senders {
            tokio::join!(
                tracer.run(engine.clone(), stop.clone()),
                sender.run(engine.ports(), interval(), metrics, stop.clone())
            );
        }
    }
}

/// Of the variable that OpenTelemetry has for it.
#[cfg(feature = "otlp")]
fn interval() -> std::time::Duration {
    let millis = std::env::var("OTEL_METRIC_EXPORT_INTERVAL").ok();
    let millis = millis
        .and_then(|millis| millis.parse().ok())
        .filter(|millis| *millis > 0);
    std::time::Duration::from_millis(millis.unwrap_or(INTERVAL))
}
