//! Tasks in every state, as a store would return them.

use longhaul_core::{
    BlockReason, Blocked, Failure, Input, InputKey, InputState, Json, NodeId, Origin, Outcome, Owner, Principal,
    RpcFailure, SpecId, State, Task, TaskHeader, TaskId, UnixMillis, Verdict,
    store::{NewTask, Record},
};
use longhaul_wire::{CacheHints, CacheScope, Message, Request, ServerInfo, jsonrpc::write_result};
use serde_json::{Value, json};
use std::sync::Arc;

/// 2026-11-20T09:00:00Z
pub(crate) const NINE: UnixMillis = UnixMillis(1_795_165_200_000);

pub(crate) fn at(hms: &str) -> UnixMillis {
    let moment: jiff::Timestamp = format!("2026-11-20T{hms}Z").parse().unwrap();
    UnixMillis(moment.as_millisecond())
}

pub(crate) fn task(id: &str, ttl: u64) -> Task {
    let new = NewTask {
        header: TaskHeader {
            id: id.parse::<TaskId>().unwrap(),
            owner: Owner {
                principal: Principal::local(),
                session: None,
            },
            tool: "render_video".into(),
            spec: SpecId::named("spec"),
            origin: Origin::Legacy,
            accepted_by: NodeId(1),
            created_at: NINE,
            deadline: None,
            queue_timeout: None,
            retention: ttl,
            lineage: None,
            labels: longhaul_core::Labels::default(),
            group: None,
        },
        announced: true,
        in_memory: false,
        priority: longhaul_core::Priority::default(),
        arguments: Json::trusted("{}"),
        requestor: Json::trusted("{}"),
        claim: None,
        confirmation: None,
        outcome: None,
        idempotency: None,
        unique: None,
        quota: longhaul_core::Quota::default(),
        parent: None,
        history: None,
        replaces: None,
        schedule: None,
    };
    new.task().0
}

pub(crate) fn with_status(mut task: Task, status: &str) -> Task {
    task.status = Some(status.into());
    task
}

pub(crate) fn updated(mut task: Task, hms: &str) -> Task {
    task.updated_at = at(hms);
    task
}

pub(crate) fn live(task: Task) -> Record {
    Record {
        task,
        outcome: None,
        inputs: Vec::new(),
    }
}

pub(crate) fn asking(mut task: Task, requests: &[(&str, Value)]) -> Record {
    let inputs: Vec<Input> = requests
        .iter()
        .map(|(key, request)| Input {
            key: InputKey::named(*key),
            name: None,
            request: Json::from(request),
            state: InputState::Open,
            asked_at: NINE,
            settled_at: None,
            answered_by: None,
        })
        .collect();
    task.open_inputs = inputs.iter().map(|input| input.key.clone()).collect();
    task.state = State::Suspended;
    Record {
        task,
        outcome: None,
        inputs,
    }
}

/// The same, blocked after five crashes.
pub(crate) fn blocked(mut record: Record) -> Record {
    let history = Vec::new();
    let Outcome::RpcError(failure) = Outcome::from(Failure::Poisoned { attempts: 5, history }) else {
        panic!("a failure is an error");
    };
    record.task.state = State::Blocked;
    record.task.blocked = Some(Arc::new(Blocked {
        reason: BlockReason::Poisoned,
        failure,
        codes: vec!["v1".into()],
        since: NINE,
        until: at("10:00:00"),
        tries: 0,
    }));
    record
}

pub(crate) fn done(mut task: Task, outcome: Outcome) -> Record {
    task.state = State::Done(outcome.verdict());
    task.ended_at = Some(task.updated_at);
    Record {
        task,
        outcome: Some(outcome),
        inputs: Vec::new(),
    }
}

pub(crate) fn result(json: &Value) -> Outcome {
    Outcome::result(Json::from(json))
}

pub(crate) fn rpc_error(code: i32, message: &str, data: Option<Value>) -> Outcome {
    Outcome::RpcError(RpcFailure {
        code,
        message: message.into(),
        data: data.map(Json::from),
    })
}

pub(crate) fn cancelled(mut task: Task) -> Record {
    task.state = State::Done(Verdict::Cancelled);
    Record {
        task,
        outcome: Some(Outcome::Cancelled),
        inputs: Vec::new(),
    }
}

pub(crate) fn server_info() -> ServerInfo {
    ServerInfo::new("acme-tasks", "0.3.0").with_instructions("Slow tools run as tasks.")
}

/// With all there is to show in a handshake, and nowhere else.
pub(crate) fn detailed_server_info() -> ServerInfo {
    let icons = r#"[{"src":"https://acme.example/i.png"}]"#;
    server_info().with_details(Some("Acme"), Some("https://acme.example"), Some(icons))
}

/// What of it every result shows.
pub(crate) fn short_info() -> Value {
    json!({"name": "acme-tasks", "version": "0.3.0"})
}

pub(crate) fn request(text: &str) -> Request<'_> {
    match Message::parse(text.as_bytes()) {
        Ok(Message::Request(request)) => request,
        other => panic!("{text}: {other:?}"),
    }
}

/// Runs a writer and reads what it wrote.
pub(crate) fn written(write: impl FnOnce(&mut String)) -> Value {
    let mut out = String::new();
    write(&mut out);
    serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out}"))
}

/// Runs a writer of results and reads the response.
pub(crate) fn respond(write: impl FnOnce(&mut String)) -> Value {
    let asking = request(r#"{"jsonrpc":"2.0","id":1,"method":"m"}"#);
    written(|out| write_result(out, asking.id, write))
}

/// The caching hints of the tests' modern results.
pub(crate) const FRESH: CacheHints = CacheHints {
    ttl_ms: 5,
    scope: CacheScope::Private,
};
