//! Makes spans of what has ended, and sends them.

use crate::{
    collector::{CollectorError, CollectorSettings, TIMEOUT, prepare_cryptography},
    complaints::Complaints,
    ids, operations,
    span::span,
    trace::TraceOfTask,
    traced_store::{EndedWork, Notes, TracedStore},
};
use longhaul_core::{AttemptOutcome, State, Store, Verdict, store::StoreError};
use longhaul_runtime::Engine;
use opentelemetry::{
    KeyValue,
    trace::{SpanKind, Status},
};
use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig as _};
use opentelemetry_sdk::{
    Resource,
    error::OTelSdkError,
    trace::{SpanData, SpanExporter as _},
};
use std::{sync::Arc, time::Duration};
use tokio::sync::mpsc::Receiver;
use tokio_util::sync::CancellationToken;

/// What has ended meanwhile is sent together, up to so many.
const TOGETHER: usize = 256;
/// How long sending may take once the server stops.
const LAST_SENDING: Duration = Duration::from_secs(2);

/// Sends spans to a collector. See the [crate](crate).
///
/// ```no_run
/// use longhaul::Server;
/// use longhaul_telemetry::{CollectorSettings, Tracer};
/// use tokio_util::sync::CancellationToken;
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let tracer = Tracer::new(CollectorSettings {
///     endpoint: "http://127.0.0.1:4318".into(),
///     service: "jobs".into(),
///     version: "1.0.0".into(),
/// })?;
/// let server = Server::new("jobs", "1.0.0").data_dir("jobs-data").wrap_engine_store(tracer.noting()).start().await?;
/// let engine = server.engine().ok_or("it has stopped")?;
/// tracer.run(engine, CancellationToken::new()).await;
/// # Ok(())
/// # }
/// ```
pub struct Tracer {
    exporter: SpanExporter,
    notes: Notes,
    ended: Receiver<EndedWork>,
    complaints: Complaints,
}

impl Tracer {
    /// Sends what has ended, once it [runs](Self::run).
    ///
    /// # Errors
    /// [`CollectorError`] for a URL that is none. Whether a collector is there is seen later.
    pub fn new(settings: CollectorSettings) -> Result<Self, CollectorError> {
        prepare_cryptography();
        let endpoint = settings.address("/v1/traces");
        let exporter = SpanExporter::builder()
            .with_http()
            .with_protocol(Protocol::HttpBinary)
            .with_endpoint(&endpoint)
            .with_timeout(TIMEOUT)
            .build();
        let mut exporter = match exporter {
            Ok(exporter) => exporter,
            Err(error) => return Err(CollectorError::new(endpoint, error.to_string())),
        };
        exporter.set_resource(
            &Resource::builder_empty()
                .with_service_name(settings.service)
                .with_attribute(KeyValue::new("service.version", settings.version))
                .build(),
        );
        let (notes, ended) = Notes::new();
        Ok(Self {
            exporter,
            notes,
            ended,
            complaints: Complaints::about(endpoint),
        })
    }

    /// What puts a layer around the engine's store that notes what has ended.
    pub fn noting(&self) -> impl FnOnce(Arc<dyn Store>) -> Arc<dyn Store> + Send + use<> {
        let notes = self.notes.clone();
        move |store| Arc::new(TracedStore::around(store, notes))
    }

    /// Sends until `stop`, then for two seconds what has ended before. Nothing waits for a collector: what it does not take in time is dropped and logged.
    pub async fn run(mut self, engine: Engine, stop: CancellationToken) {
        let mut ended = Vec::new();
        loop {
            let received = stop.run_until_cancelled(self.ended.recv_many(&mut ended, TOGETHER));
            match received.await {
                Some(_) => self.send(&engine, std::mem::take(&mut ended)).await,
                None => break,
            }
        }
        let rest = async {
            while let Ok(one) = self.ended.try_recv() {
                self.send(&engine, vec![one]).await;
            }
        };
        engine.ports().within(LAST_SENDING, rest).await;
    }

    async fn send(&mut self, engine: &Engine, ended: Vec<EndedWork>) {
        let mut spans = Vec::with_capacity(ended.len());
        for one in &ended {
            match spans_of(engine, one).await {
                Ok(found) => spans.extend(found),
                Err(error) => self.complain(engine, &format!("a task cannot be read: {error}")),
            }
        }
        if !spans.is_empty()
            && let Err(error) = self.exporter.export(spans).await
        {
            let why = match error {
                OTelSdkError::AlreadyShutdown => return,
                error => error.to_string(),
            };
            self.complain(engine, &why);
        }
        let dropped = self.notes.take_dropped();
        if dropped > 0 {
            self.complain(engine, &format!("the collector is slow: {dropped} spans were dropped"));
        }
    }

    fn complain(&mut self, engine: &Engine, why: &str) {
        self.complaints.log(&*engine.ports().clock, why, "traces were not sent");
    }
}

/// The spans of what has ended; none if its caller does not want it to be recorded.
async fn spans_of(engine: &Engine, ended: &EndedWork) -> Result<Vec<SpanData>, StoreError> {
    let task = match ended {
        EndedWork::Task(task) | EndedWork::Attempt { task, .. } => task,
    };
    let Some(trace) = TraceOfTask::of(&**engine.store(), task).await? else {
        return Ok(Vec::new());
    };
    let now = engine.ports().clock.read();
    let whose = |span: &mut SpanData| {
        span.attributes = vec![
            KeyValue::new("gen_ai.tool.name", task.tool.to_string()),
            KeyValue::new("longhaul.task", task.id.short().to_owned()),
        ];
    };
    match ended {
        EndedWork::Attempt { began, at, how, .. } => {
            let epoch = task.attempt.as_ref().map_or(0, |attempt| attempt.epoch);
            let mut span = span(
                trace.span(ids::of_attempt(&task.id, epoch)),
                ids::of_task(&task.id),
                format!("attempt {epoch}"),
                (now.in_the_world(*began), now.in_the_world(*at)),
            );
            whose(&mut span);
            span.attributes
                .push(KeyValue::new("longhaul.attempt", i64::from(epoch)));
            span.attributes
                .push(KeyValue::new("longhaul.attempt.outcome", how.as_str()));
            span.status = match how {
                AttemptOutcome::Failed | AttemptOutcome::Blocked => Status::error(how.as_str()),
                _ => Status::Unset,
            };
            Ok(vec![span])
        }
        EndedWork::Task(_) => {
            let mut spans = operations::spans(engine, task, &trace, now).await?;
            let ended_at = task.ended_at.unwrap_or(task.updated_at);
            let mut span = span(
                trace.span(ids::of_task(&task.id)),
                trace.parent,
                format!("tools/call {}", task.tool),
                (now.in_the_world(task.created_at), now.in_the_world(ended_at)),
            );
            span.span_kind = SpanKind::Server;
            span.parent_span_is_remote = trace.parent_is_remote;
            whose(&mut span);
            let state = match task.state {
                State::Done(Verdict::Succeeded) => "succeeded",
                State::Done(Verdict::Cancelled) => "cancelled",
                _ => "failed",
            };
            span.attributes.push(KeyValue::new("mcp.method.name", "tools/call"));
            span.attributes.push(KeyValue::new("longhaul.task.state", state));
            if state == "failed" {
                // The status line may have parts of a result.
                span.status = Status::error("the tool failed");
            }
            spans.push(span);
            Ok(spans)
        }
    }
}
