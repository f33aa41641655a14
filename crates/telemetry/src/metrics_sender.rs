//! Sends metrics.

use crate::{
    collector::{CollectorError, CollectorSettings, TIMEOUT, headers, prepare_cryptography},
    complaints::Complaints,
    otlp_metrics::{self, Times},
};
use longhaul_core::UnixMillis;
use longhaul_runtime::Ports;
use reqwest::{
    StatusCode,
    header::{CONTENT_TYPE, HeaderMap},
};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// How long the last sending may take once the server stops.
const LAST_SENDING: Duration = Duration::from_secs(2);

/// Sends what `/metrics` says to a collector, from time to time. See the [crate](crate).
pub struct MetricsSender {
    http: reqwest::Client,
    headers: HeaderMap,
    settings: CollectorSettings,
    complaints: Complaints,
}

impl MetricsSender {
    /// Sends once it [runs](Self::run).
    ///
    /// # Errors
    /// [`CollectorError`] for a URL or headers that cannot be used. Whether a collector is there is seen later.
    pub fn new(settings: CollectorSettings) -> Result<Self, CollectorError> {
        prepare_cryptography();
        let endpoint = settings.address("/v1/metrics");
        let failed = |why: String| CollectorError::new(endpoint.clone(), why);
        reqwest::Url::parse(&endpoint).map_err(|error| failed(error.to_string()))?;
        let http = reqwest::Client::builder().timeout(TIMEOUT).build();
        Ok(Self {
            http: http.map_err(|error| failed(error.to_string()))?,
            headers: headers().map_err(failed)?,
            complaints: Complaints::about(endpoint),
            settings,
        })
    }

    /// Reads the metrics as OpenMetrics text and sends them, `every` so often until `stop`, and then once more. A reading or a request that fails is logged,
    /// once a minute; the next one has all that it had.
    pub async fn run(
        mut self,
        ports: &Ports,
        every: Duration,
        read: impl AsyncFn() -> Result<String, String>,
        stop: CancellationToken,
    ) {
        let began = ports.clock.wall();
        while stop.run_until_cancelled(ports.clock.sleep(every)).await.is_some() {
            self.send(ports, began, &read).await;
        }
        ports.within(LAST_SENDING, self.send(ports, began, &read)).await;
    }

    async fn send(&mut self, ports: &Ports, began: UnixMillis, read: impl AsyncFn() -> Result<String, String>) {
        let sent = async {
            let text = read().await?;
            let times = Times {
                began: nanoseconds(began),
                now: nanoseconds(ports.clock.wall()),
            };
            let resource = [
                ("service.name", self.settings.service.as_str()),
                ("service.version", self.settings.version.as_str()),
            ];
            let body = otlp_metrics::request(&text, &resource, times).to_string();
            let request = self
                .http
                .post(self.complaints.collector())
                .headers(self.headers.clone());
            let sent = request.header(CONTENT_TYPE, "application/json").body(body).send().await;
            let status = sent.map_err(|error| error.to_string())?.status();
            match status {
                status if status.is_success() => Ok(()),
                StatusCode::NOT_FOUND => Err("it takes no metrics there: 404".to_owned()),
                status => Err(format!("it answers {status}")),
            }
        };
        if let Err(why) = sent.await {
            self.complaints.log(&*ports.clock, &why, "metrics were not sent");
        }
    }
}

fn nanoseconds(at: UnixMillis) -> i64 {
    at.0.saturating_mul(1_000_000)
}
