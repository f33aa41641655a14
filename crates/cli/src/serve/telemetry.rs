//! Traces of tasks, which are sent to an OpenTelemetry collector.

use longhaul_core::Store;
use longhaul_runtime::Engine;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

#[cfg(feature = "otlp")]
pub(super) use longhaul_telemetry::TracerError;

/// What the configuration refuses.
#[cfg(not(feature = "otlp"))]
#[derive(Debug, thiserror::Error)]
pub(super) enum TracerError {}

/// Sends the traces of a server, if a collector is configured.
pub(super) struct Traces {
    #[cfg(feature = "otlp")]
    tracer: Option<longhaul_telemetry::Tracer>,
}

impl Traces {
    /// For the server of this name. A configuration names no collector where the feature is off.
    #[cfg_attr(not(feature = "otlp"), expect(unused_variables, reason = "there is no collector"))]
    pub(super) fn new(collector: Option<String>, service: &str) -> Result<Self, TracerError> {
        Ok(Self {
            #[cfg(feature = "otlp")]
            tracer: match collector {
                None => None,
                Some(endpoint) => Some(longhaul_telemetry::Tracer::new(longhaul_telemetry::TracerSettings {
                    endpoint,
                    service: service.to_owned(),
                    version: env!("CARGO_PKG_VERSION").to_owned(),
                })?),
            },
        })
    }

    /// What puts a layer around the engine's store that notes what has ended.
    pub(super) fn noting(&self) -> impl FnOnce(Arc<dyn Store>) -> Arc<dyn Store> + Send + use<> {
        #[cfg(feature = "otlp")]
        let noting = self.tracer.as_ref().map(longhaul_telemetry::Tracer::noting);
        move |store| {
            #[cfg(feature = "otlp")]
            if let Some(noting) = noting {
                return noting(store);
            }
            store
        }
    }

    /// Sends until `stop`.
    #[cfg_attr(not(feature = "otlp"), expect(unused_variables, reason = "there is no collector"))]
    pub(super) async fn send(self, engine: Engine, stop: CancellationToken) {
        #[cfg(feature = "otlp")]
        if let Some(tracer) = self.tracer {
            tracer.run(engine, stop).await;
        }
    }
}
