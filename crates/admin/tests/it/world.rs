//! A server with tools that do what a test tells them, and its admin address.

use longhaul::{Era, Quota, Server, ServerHandle, StepError, TaskContext, Tool, ToolResult, testing::Client};
use longhaul_admin::{
    Access, Admin, AdminKeyFile, AdminListener, AdminOptions, MeteredStore, Metrics, UpstreamReport, UpstreamSource,
    UpstreamState,
};
use longhaul_auth::same_user::SameUser;
use longhaul_core::{
    BoxFuture, Store, StoreLayer,
    store::{CreateError, Created, NewTask, StoreError},
};
use longhaul_runtime::{ExecutionEnd, Executor, ExecutorAttempt, Ports, ToolSettings};
use longhaul_server::audit::{Audit, AuditEvent, LostEvents};
use reqwest::{Method, RequestBuilder, Response};
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
    },
};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

/// Keeps what the audit log is told.
#[derive(Default)]
pub(crate) struct Recorded(Mutex<Vec<String>>, AtomicU64);

impl Audit for Recorded {
    fn record(&self, event: &AuditEvent) {
        self.0.lock().unwrap().push(event.to_json());
    }

    fn lost(&self) -> LostEvents {
        let lost = self.1.load(Ordering::Relaxed);
        LostEvents {
            at_present: lost,
            in_all: lost,
        }
    }

    fn latest(&self, most: usize) -> std::io::Result<Option<Vec<String>>> {
        Ok(Some(self.0.lock().unwrap().iter().rev().take(most).cloned().collect()))
    }
}

/// A store that can be read, and does not let tasks be created while it is told so.
struct Refusing {
    inner: Arc<dyn Store>,
    refuses: Arc<AtomicBool>,
}

impl StoreLayer for Refusing {
    fn inner(&self) -> &dyn Store {
        &*self.inner
    }

    fn create(&self, new: NewTask) -> BoxFuture<'_, Result<Created, CreateError>> {
        match self.refuses.load(Ordering::Relaxed) {
            true => Box::pin(async { Err(CreateError::Store(StoreError::Unusable("the role has lost a right"))) }),
            false => self.inner.create(new),
        }
    }
}

impl Recorded {
    /// From now on it says that so many are lost.
    pub(crate) fn lose(&self, lines: u64) {
        self.1.store(lines, Ordering::Relaxed);
    }

    /// The lines so far, without their times.
    pub(crate) fn lines(&self) -> Vec<Value> {
        let lines = self.0.lock().unwrap();
        let without_time = |line: &String| {
            let mut line: Value = serde_json::from_str(line).unwrap();
            line.as_object_mut().unwrap().remove("time");
            line
        };
        lines.iter().map(without_time).collect()
    }
}

/// Two of the tools are those of an upstream.
struct TwoUpstreams;

impl UpstreamSource for TwoUpstreams {
    fn is_empty(&self) -> bool {
        false
    }

    fn upstreams(&self) -> BoxFuture<'_, Vec<UpstreamReport>> {
        let report = |name: &str, state, tools: &[&str]| UpstreamReport {
            name: name.to_owned(),
            state,
            tools: tools.iter().map(ToString::to_string).collect(),
            left_out: match name {
                "far" => [("gated".to_owned(), "`near` has one of this name".to_owned())].into(),
                _ => BTreeMap::new(),
            },
            waiting: 3,
            concurrency: Some(4),
        };
        let down = UpstreamState::Down("connection refused".to_owned());
        Box::pin(std::future::ready(vec![
            report("near", UpstreamState::Up, &["gated", "fails"]),
            report("far", down, &[]),
        ]))
    }
}

pub(crate) struct World {
    pub(crate) server: ServerHandle,
    pub(crate) client: Client,
    pub(crate) address: SocketAddr,
    pub(crate) admin_key: String,
    pub(crate) metrics_key: String,
    pub(crate) audit: Arc<Recorded>,
    pub(crate) stop: CancellationToken,
    /// A permit for each call of `gated` that may end.
    pub(crate) gate: Arc<Semaphore>,
    /// Whether no task can be created.
    pub(crate) refuses: Arc<AtomicBool>,
    http: reqwest::Client,
    /// Completes when the address is not served any more.
    pub(crate) served: Option<tokio::task::JoinHandle<()>>,
    directory: tempfile::TempDir,
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
pub(crate) struct Text {
    text: String,
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Secret {
    #[schemars(extend("writeOnly" = true))]
    key: String,
    #[expect(dead_code, reason = "it is only shown")]
    user: String,
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Choice {
    sure: bool,
    count: u32,
}

async fn fails(text: Text) -> ToolResult<String> {
    Err(text.text.into())
}

/// How many steps have run in this process.
static STEPS: AtomicU32 = AtomicU32::new(0);

/// Two steps. With the text `fails` it fails after them.
async fn stepped(cx: TaskContext, Text { text }: Text) -> ToolResult<String> {
    let step = || async { Ok::<_, StepError>(STEPS.fetch_add(1, Ordering::Relaxed) + 1) };
    let first: u32 = cx.step("first", step).await?;
    let second: u32 = cx.step("second", step).await?;
    match text == "fails" {
        true => Err("no".into()),
        false => Ok(format!("{first} {second}")),
    }
}

async fn asks(cx: TaskContext) -> ToolResult<String> {
    let choice: Choice = cx.elicit("Are you <b>sure</b>?").await?;
    Ok(format!("sure: {}, {} times", choice.sure, choice.count))
}

/// A tool of an upstream.
struct OfUpstream(Arc<dyn Executor>, &'static str);

impl Executor for OfUpstream {
    fn upstream(&self) -> Option<&str> {
        Some(self.1)
    }

    fn run(
        self: Arc<Self>,
        attempt: ExecutorAttempt,
        cx: longhaul_runtime::TaskContext,
    ) -> BoxFuture<'static, ExecutionEnd> {
        Arc::clone(&self.0).run(attempt, cx)
    }
}

/// Makes a tool that is offered one of an upstream.
async fn offer_of(server: &ServerHandle, name: &str, upstream: &'static str) {
    let engine = server.engine().unwrap();
    let offered = engine.catalog().tool(name).unwrap();
    let of = offered.settings();
    let executor: Arc<dyn Executor> = Arc::new(OfUpstream(Arc::clone(&of.executor), upstream));
    let settings = ToolSettings {
        description: of.description.clone(),
        input_schema: of.input_schema.clone(),
        policy: of.policy,
        concurrency: of.concurrency,
        ..ToolSettings::new(
            Arc::clone(&of.name),
            Arc::clone(&of.kind),
            of.definition.clone(),
            executor,
        )
    };
    engine
        .put_tool(longhaul_runtime::Tool::new(settings).unwrap())
        .await
        .unwrap();
}

impl World {
    /// With processes of this user admitted, or not.
    pub(crate) async fn new(same_user: bool) -> Self {
        Self::build(same_user, Quota::default(), None).await
    }

    /// With processes of this user admitted, and so many slots.
    pub(crate) async fn with_slots(slots: usize) -> Self {
        Self::build(true, Quota::default(), Some(slots)).await
    }

    /// With processes of this user admitted, and a quota.
    pub(crate) async fn with_quota(quota: Quota) -> Self {
        Self::build(true, quota, None).await
    }

    async fn build(same_user: bool, quota: Quota, slots: Option<usize>) -> Self {
        let ports = Ports::system();
        let refuses = Arc::<AtomicBool>::default();
        let told = Arc::clone(&refuses);
        let (metrics, gate) = (
            Arc::new(Metrics::of_labels(["env".to_owned()].into())),
            Arc::new(Semaphore::new(0)),
        );
        let (counted, clock, opened) = (Arc::clone(&metrics), Arc::clone(&ports.clock), Arc::clone(&gate));
        let gated = move |cx: TaskContext, text: Text| {
            let opened = Arc::clone(&opened);
            async move {
                cx.status(text.text);
                opened.acquire().await.unwrap().forget();
                ToolResult::Ok("through".to_owned())
            }
        };
        let server = Server::new("operated", "1.0.0")
            .tool(Tool::new("gated", gated).concurrency(2))
            .tool(Tool::new("fails", fails))
            .tool(Tool::new("signs", async |secret: Secret| secret.key.len().to_string()))
            .tool(Tool::new("asks", asks))
            .tool(
                Tool::durable("stepped", stepped)
                    .label("text", "{text}")
                    .label("env", "prod"),
            )
            .quota(quota)
            .max_running(slots.unwrap_or(usize::MAX))
            .wrap_engine_store(move |inner| {
                let refusing = Refusing { inner, refuses: told };
                Arc::new(MeteredStore::around(Arc::new(refusing), counted, clock))
            })
            .start()
            .await
            .unwrap();
        for name in ["gated", "fails"] {
            offer_of(&server, name, "near").await;
        }
        let client = Client::connect(&server, Era::Modern).await.unwrap();
        let directory = tempfile::tempdir().unwrap();
        let key = |name, prefix| AdminKeyFile::in_data_dir(directory.path(), name, prefix, &*ports.entropy).unwrap();
        let (admin, of_metrics) = (key("admin.key", "lha_"), key("metrics.key", "lhm_"));
        let (admin_key, metrics_key) = (admin.read().unwrap(), of_metrics.read().unwrap());
        let same_user = same_user.then(|| SameUser::new().unwrap());
        let access = Access {
            same_user: same_user.is_some(),
            admin_key: admin,
            metrics_key: Some(of_metrics),
            allowed_hosts: vec!["ops.example.com".parse().unwrap()],
        };
        let listener = AdminListener::bind("127.0.0.1:0".parse().unwrap(), same_user, &ports.clock)
            .await
            .unwrap();
        let (address, audit, stop) = (
            listener.address().unwrap(),
            Arc::<Recorded>::default(),
            CancellationToken::new(),
        );
        let admin = Admin::new(AdminOptions {
            data_dir: None,
            name: "operated".to_owned(),
            engine: server.engine().unwrap(),
            metrics,
            access,
            audit: Some(Arc::clone(&audit) as Arc<dyn Audit>),
            protocol: server.protocol(),
            upstreams: Some(Arc::new(TwoUpstreams)),
            drain_timeout: std::time::Duration::ZERO,
            reads_only: None,
            stop: stop.clone(),
        });
        let stopped = stop.clone();
        let served = tokio::spawn(async move { admin.serve(listener, stopped).await });
        // Another test of this process may have been first.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let http = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none());
        Self {
            server,
            client,
            address,
            admin_key,
            metrics_key,
            audit,
            stop,
            gate,
            refuses,
            http: http.build().unwrap(),
            served: Some(served),
            directory,
        }
    }

    /// Offers a new tool of an upstream.
    pub(crate) async fn offer_of(&self, name: &'static str, upstream: &'static str) {
        let tool = Tool::new(name, async |text: Text| text.text);
        self.server.put_tool(tool).await.unwrap();
        offer_of(&self.server, name, upstream).await;
    }

    pub(crate) fn key_path(&self) -> std::path::PathBuf {
        self.directory.path().join("admin.key")
    }

    pub(crate) fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.http.request(method, format!("http://{}{path}", self.address))
    }

    pub(crate) async fn get(&self, path: &str) -> Response {
        self.request(Method::GET, path).send().await.unwrap()
    }

    /// The answer to a request that is granted.
    pub(crate) async fn json(&self, path: &str) -> Value {
        let answer = self.get(path).await;
        assert_eq!(answer.status(), 200, "{path}");
        serde_json::from_str(&answer.text().await.unwrap()).unwrap()
    }

    /// The status and the answer of an action.
    pub(crate) async fn act(&self, path: &str) -> (u16, Value) {
        answered(self.request(Method::POST, path)).await
    }

    /// A task that has ended so.
    pub(crate) async fn ended(&self, tool: &str, arguments: Value) -> String {
        let task = self.client.start(tool, arguments).await.unwrap();
        let _ = task.wait().await;
        task.id().to_owned()
    }

    /// A task of `gated`, once it has reported.
    pub(crate) async fn running(&self, text: &str) -> String {
        let task = self.client.start("gated", json!({"text": text})).await.unwrap();
        loop {
            if task.get().await.unwrap()["statusMessage"] == text {
                return task.id().to_owned();
            }
            tokio::task::yield_now().await;
        }
    }

    /// A task of `asks`, once it asks; with the key of its question.
    pub(crate) async fn asking(&self) -> (String, String) {
        let task = self.client.start("asks", json!({})).await.unwrap();
        let questions = task.questions().await.unwrap();
        (task.id().to_owned(), questions.keys().next().unwrap().clone())
    }

    /// Waits until the task is in this state.
    pub(crate) async fn state(&self, id: &str, state: &str) -> Value {
        loop {
            let task = self.json(&format!("/api/tasks/{id}")).await;
            if task["state"] == state {
                return task;
            }
            tokio::task::yield_now().await;
        }
    }
}

pub(crate) async fn answered(request: RequestBuilder) -> (u16, Value) {
    let answer = request.send().await.unwrap();
    let status = answer.status().as_u16();
    let text = answer.text().await.unwrap();
    (status, serde_json::from_str(&text).unwrap_or(Value::String(text)))
}
