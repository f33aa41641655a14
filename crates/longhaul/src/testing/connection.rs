//! A connection in memory: messages out, answers and notifications back.

use super::schema_check::SchemaCheck;
use crate::ServerHandle;
use parking_lot::{Mutex, MutexGuard};
use serde_json::{Map, Value, json};
use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, ReadHalf, WriteHalf},
    sync::{Notify, oneshot},
};

/// How much may be on its way.
const CAPACITY: usize = 64 * 1024;

/// A JSON-RPC error that the server answered with, or that the connection ended.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{message} ({code})")]
pub struct Failure {
    /// Its code; 0 for what is no answer of the server's.
    pub code: i64,
    /// Its message.
    pub message: String,
    /// Its data; null if it has none.
    pub data: Value,
}

impl Failure {
    pub(super) fn of(message: impl Into<String>) -> Self {
        Self {
            code: 0,
            message: message.into(),
            data: Value::Null,
        }
    }

    pub(super) fn read(error: &Value) -> Self {
        Self {
            code: error["code"].as_i64().unwrap_or_default(),
            message: error["message"].as_str().unwrap_or_default().to_owned(),
            data: error["data"].clone(),
        }
    }
}

/// Answers a question, or says why not.
pub(super) type AnswerQuestion = dyn Fn(&Value) -> Result<Value, String> + Send + Sync;

pub(super) struct Connection {
    writer: tokio::sync::Mutex<WriteHalf<DuplexStream>>,
    next_id: AtomicU64,
    inbox: Mutex<Inbox>,
    arrived: Notify,
    answer_question: Arc<AnswerQuestion>,
    pub(super) schemas: SchemaCheck,
}

#[derive(Default)]
struct Inbox {
    waiting: HashMap<u64, oneshot::Sender<Result<Value, Failure>>>,
    notifications: Vec<Value>,
    over: bool,
}

impl Connection {
    /// `None` if the server has stopped.
    pub(super) fn open(
        server: &ServerHandle,
        answer_question: Arc<AnswerQuestion>,
        schemas: SchemaCheck,
    ) -> Option<Arc<Self>> {
        let (near, far) = tokio::io::duplex(CAPACITY);
        let spawner = server.serve_stream(far)?;
        let (reader, writer) = tokio::io::split(near);
        let connection = Arc::new(Self {
            writer: tokio::sync::Mutex::new(writer),
            next_id: AtomicU64::new(1),
            inbox: Mutex::default(),
            arrived: Notify::new(),
            answer_question,
            schemas,
        });
        // Weak, so that the connection closes with its client.
        spawner.spawn(Box::pin(listen(Arc::downgrade(&connection), reader)));
        Some(connection)
    }

    fn inbox(&self) -> MutexGuard<'_, Inbox> {
        self.inbox.lock()
    }

    pub(super) async fn send(&self, message: &Value) -> Result<(), Failure> {
        self.schemas.sent(message);
        let line = format!("{message}\n");
        let written = self.writer.lock().await.write_all(line.as_bytes()).await;
        written.map_err(|error| Failure::of(error.to_string()))
    }

    pub(super) async fn request(&self, method: &str, params: Value) -> Result<Value, Failure> {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let (reply_to, answer) = oneshot::channel();
        self.inbox().waiting.insert(id, reply_to);
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))
            .await?;
        answer
            .await
            .unwrap_or_else(|_| Err(Failure::of("the connection has ended")))
    }

    pub(super) async fn notification(&self, method: &str) -> Result<Value, Failure> {
        loop {
            let arrived = self.arrived.notified();
            {
                let mut inbox = self.inbox();
                let found = inbox.notifications.iter().position(|one| one["method"] == method);
                if let Some(at) = found {
                    return Ok(inbox.notifications.remove(at)["params"].take());
                }
                if inbox.over {
                    return Err(Failure::of("the connection has ended"));
                }
            }
            arrived.await;
        }
    }

    /// The answers to the questions of one round, by key.
    pub(super) fn answers(&self, questions: &Value) -> Result<Value, Failure> {
        let questions = questions.as_object().into_iter().flatten();
        let answers =
            questions.map(|(key, question)| Ok((key.clone(), (self.answer_question)(question).map_err(Failure::of)?)));
        Ok(Value::Object(answers.collect::<Result<Map<_, _>, Failure>>()?))
    }

    async fn take(&self, message: Value) {
        self.schemas.received(&message);
        match (message.get("method"), message["id"].clone()) {
            (Some(_), Value::Null) => {
                self.inbox().notifications.push(message);
                self.arrived.notify_waiters();
            }
            (Some(method), id) => {
                let question = json!({"method": method, "params": message["params"]});
                let reply = match (self.answer_question)(&question) {
                    Ok(result) => json!({"jsonrpc": "2.0", "id": id, "result": result}),
                    Err(why) => json!({"jsonrpc": "2.0", "id": id, "error": {"code": -1, "message": why}}),
                };
                // A server that has gone needs no answer.
                let _ = self.send(&reply).await;
            }
            (None, id) => {
                let request = id.as_u64().and_then(|id| self.inbox().waiting.remove(&id));
                let answer = match message.get("error") {
                    Some(error) => Err(Failure::read(error)),
                    None => Ok(message["result"].clone()),
                };
                if let Some(reply_to) = request {
                    let _ = reply_to.send(answer);
                }
            }
        }
    }

    fn over(&self) {
        let mut inbox = self.inbox();
        inbox.over = true;
        inbox.waiting.clear();
        drop(inbox);
        self.arrived.notify_waiters();
    }
}

async fn listen(connection: std::sync::Weak<Connection>, reader: ReadHalf<DuplexStream>) {
    let mut lines = BufReader::new(reader).lines();
    while let Ok(Some(text)) = lines.next_line().await {
        let Some(connection) = connection.upgrade() else { return };
        match serde_json::from_str(&text) {
            Ok(message) => connection.take(message).await,
            Err(_) => connection.schemas.received_invalid(&text),
        }
    }
    if let Some(connection) = connection.upgrade() {
        connection.over();
    }
}
