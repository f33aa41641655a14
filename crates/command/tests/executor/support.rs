//! What the tests of the executor share: a server's store and folder, and waiting for tasks.

use super::fixtures::{launcher, until};
use longhaul_command::{
    Attempts, CommandDefinition, CommandProvider, DEFINITION_VERSION, HarmlessValues, KIND, Launcher, OutputKind,
};
use longhaul_core::{
    HostId, Json, Millis, Origin, Outcome, Owner, Principal, Retry, Scope, Store, Task, TaskId, TaskPolicy,
    store::Record,
};
use longhaul_runtime::{Call, Catalog, Engine, EngineOptions, Ports, Tool, ToolSettings};
use longhaul_store::MemoryStore;
use serde_json::Value;
use std::{path::PathBuf, sync::Arc};

/// A server's store and folder, over which engines come and go.
pub(crate) struct Server {
    pub(crate) files: tempfile::TempDir,
    pub(crate) attempts: Attempts,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) definition: CommandDefinition,
    pub(crate) retry: Retry,
    pub(crate) deadline: Option<Millis>,
    pub(crate) kill_grace: Millis,
    pub(crate) least_free: u64,
    pub(crate) ports: Ports,
    pub(crate) max_running: Option<usize>,
}

impl Server {
    pub(crate) fn running(script: &str) -> Self {
        let files = tempfile::tempdir().unwrap();
        let script = &script.replace('{', "{{").replace('}', "}}");
        let definition = CommandDefinition {
            version: DEFINITION_VERSION,
            command: ["sh", "-c", script, "sh", "{word}"].map(Into::into).to_vec(),
            env: Default::default(),
            env_templates: Default::default(),
            env_from: Default::default(),
            env_file: None,
            cwd: files.path().canonicalize().unwrap(),
            cwd_template: None,
            stdin: String::new(),
            stdin_json: false,
            defaults: Default::default(),
            allow_leading_dash: Default::default(),
            allow_placeholders_in_scripts: false,
            secrets: Default::default(),
            integers: Default::default(),
            optional: ["word".to_owned()].into(),
            output: OutputKind::Text,
            output_schema: None,
            progress: None,
            max_output: 1000,
            max_log: 100_000,
            success: Default::default(),
            timeout_ms: None,
            stop: Default::default(),
            artifacts: None,
        };
        let attempts = Attempts::open(files.path().join("attempts")).unwrap();
        let store = Arc::new(MemoryStore::new());
        Self {
            files,
            attempts,
            store,
            definition,
            retry: Retry::default(),
            deadline: None,
            kill_grace: 200,
            least_free: 0,
            ports: Ports::system(),
            max_running: None,
        }
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.files.path().join(name)
    }

    pub(crate) async fn start(&self) -> Engine {
        self.start_with(launcher()).await
    }

    pub(crate) async fn start_with(&self, launcher: Launcher) -> Engine {
        let provider = CommandProvider::new(self.attempts.clone(), launcher, self.ports.clone());
        let provider = provider
            .with_kill_grace(self.kill_grace)
            .with_least_free(self.least_free);
        let executor = provider
            .executor(self.definition.clone(), None, &HarmlessValues::default())
            .unwrap();
        let tool = Tool::new(ToolSettings {
            policy: TaskPolicy::Always,
            deadline: self.deadline,
            retry: self.retry.clone(),
            ..ToolSettings::new("tool", KIND, executor.definition(), executor)
        });
        let options = EngineOptions {
            store: Arc::clone(&self.store),
            ports: self.ports.clone(),
            node: HostId("here".into()).into(),
            lost_after: longhaul_runtime::HOST_LOST_AFTER,
            catalog: Catalog::new([tool.unwrap()]).unwrap(),
            providers: vec![Arc::new(provider)],
            max_running: self.max_running,
            quota: longhaul_core::Quota::default(),
            suspend_after: longhaul_runtime::SUSPEND_AFTER,
            build: longhaul_runtime::BuildId::named("test"),
            step_observer: None,
            may_begin: None,
            cipher: None,
        };
        Engine::start(options).await.unwrap().0
    }

    pub(crate) async fn run(&self, arguments: Value) -> Outcome {
        let engine = self.start().await;
        let task = create(&engine, arguments).await;
        outcome(&engine, &task.id).await
    }

    /// The only supervisor there is.
    pub(crate) fn supervisor(&self, task: &TaskId) -> i32 {
        until("the supervisor runs", || {
            std::fs::read_dir("/proc").unwrap().flatten().find_map(|entry| {
                let pid = entry.file_name().to_str()?.parse().ok()?;
                let line = std::fs::read(entry.path().join("cmdline")).ok()?;
                let line = String::from_utf8_lossy(&line).into_owned();
                (line.starts_with("longhaul-supervisor") && line.contains(task.as_str())).then_some(pid)
            })
        })
    }
}

pub(crate) fn scope() -> Scope {
    Scope::of(Principal::local())
}

pub(crate) async fn create(engine: &Engine, arguments: Value) -> Task {
    engine.create(call(engine, arguments)).await.unwrap()
}

pub(crate) fn call(engine: &Engine, arguments: Value) -> Call {
    Call {
        tool: engine.catalog().tool("tool").unwrap(),
        arguments: Json::from(arguments),
        owner: Owner {
            principal: Principal::local(),
            session: None,
        },
        origin: Origin::Modern,
        requestor: Arc::default(),
        idempotency_key: None,
        ttl: None,
        priority: None,
        cancel_if_caller_leaves: false,
    }
}

/// Waits until a task is as it should be.
pub(crate) async fn becomes(engine: &Engine, id: &TaskId, good: impl Fn(&Record) -> bool) -> Record {
    let mut watch = engine.watch(id);
    loop {
        let record = engine.get(&scope(), id).await.unwrap().unwrap();
        if good(&record) {
            return record;
        }
        watch.changed().await;
    }
}

pub(crate) async fn outcome(engine: &Engine, id: &TaskId) -> Outcome {
    let over = |record: &Record| record.task.is_done() && record.task.active_attempt().is_none();
    becomes(engine, id, over).await.outcome.unwrap()
}

pub(crate) fn result(outcome: &Outcome) -> (Value, bool) {
    match outcome {
        Outcome::Result { json, is_error } => {
            let value: Value = serde_json::from_str(json.as_str()).unwrap();
            assert_eq!(value["isError"], *is_error);
            (value, *is_error)
        }
        other => panic!("{other:?}"),
    }
}

pub(crate) fn text(outcome: &Outcome) -> (String, bool) {
    let (value, is_error) = result(outcome);
    (value["content"][0]["text"].as_str().unwrap().to_owned(), is_error)
}

pub(crate) fn reason(outcome: &Outcome) -> (i32, String, Value) {
    match outcome {
        Outcome::RpcError(failure) => {
            let data: Value = serde_json::from_str(failure.data.as_ref().unwrap().as_str()).unwrap();
            (failure.code, failure.message.to_string(), data["reason"].clone())
        }
        other => panic!("{other:?}"),
    }
}
