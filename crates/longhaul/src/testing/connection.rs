//! A connection in memory: sends messages, and receives responses and notifications.

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
use tokio_util::sync::{CancellationToken, DropGuard};

/// How many bytes each direction may buffer.
const CAPACITY: usize = 64 * 1024;

/// A request failed: the server answered with a JSON-RPC error, or the connection ended.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{message} ({code})")]
pub struct RequestError {
    /// The error code; 0 if the server did not answer.
    pub code: i64,
    /// The error message.
    pub message: String,
    /// The error's data; null if it has none.
    pub data: Value,
}

impl RequestError {
    pub(super) fn new(message: impl Into<String>) -> Self {
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
    /// Dropped with this, which closes the stream: the task that reads holds the other half of it.
    _open: DropGuard,
}

#[derive(Default)]
struct Inbox {
    pending: HashMap<u64, oneshot::Sender<Result<Value, RequestError>>>,
    notifications: Vec<Value>,
    closed: bool,
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
        let dropped = CancellationToken::new();
        let connection = Arc::new(Self {
            writer: tokio::sync::Mutex::new(writer),
            next_id: AtomicU64::new(1),
            inbox: Mutex::default(),
            arrived: Notify::new(),
            answer_question,
            schemas,
            _open: dropped.clone().drop_guard(),
        });
        let reading = read_messages(Arc::downgrade(&connection), reader);
        spawner.spawn(Box::pin(async move {
            dropped.run_until_cancelled_owned(reading).await;
        }));
        Some(connection)
    }

    fn inbox(&self) -> MutexGuard<'_, Inbox> {
        self.inbox.lock()
    }

    pub(super) async fn send(&self, message: &Value) -> Result<(), RequestError> {
        self.schemas.sent(message);
        let line = format!("{message}\n");
        let written = self.writer.lock().await.write_all(line.as_bytes()).await;
        written.map_err(|error| RequestError::new(error.to_string()))
    }

    pub(super) async fn request(&self, method: &str, params: Value) -> Result<Value, RequestError> {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let (reply_to, answer) = oneshot::channel();
        self.inbox().pending.insert(id, reply_to);
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))
            .await?;
        answer
            .await
            .unwrap_or_else(|_| Err(RequestError::new("the connection has ended")))
    }

    pub(super) async fn notification(&self, method: &str) -> Result<Value, RequestError> {
        loop {
            let arrived = self.arrived.notified();
            {
                let mut inbox = self.inbox();
                let found = inbox.notifications.iter().position(|one| one["method"] == method);
                if let Some(at) = found {
                    return Ok(inbox.notifications.remove(at)["params"].take());
                }
                if inbox.closed {
                    return Err(RequestError::new("the connection has ended"));
                }
            }
            arrived.await;
        }
    }

    /// The answers to the questions of one round, by key.
    pub(super) fn answers(&self, questions: &Value) -> Result<Value, RequestError> {
        let questions = questions.as_object().into_iter().flatten();
        let answers = questions.map(|(key, question)| {
            Ok((
                key.clone(),
                (self.answer_question)(question).map_err(RequestError::new)?,
            ))
        });
        Ok(Value::Object(answers.collect::<Result<Map<_, _>, RequestError>>()?))
    }

    async fn receive(&self, message: Value) {
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
                // A stopped server needs no answer.
                let _ = self.send(&reply).await;
            }
            (None, id) => {
                let request = id.as_u64().and_then(|id| self.inbox().pending.remove(&id));
                let answer = match message.get("error") {
                    Some(error) => Err(RequestError::read(error)),
                    None => Ok(message["result"].clone()),
                };
                if let Some(reply_to) = request {
                    let _ = reply_to.send(answer);
                }
            }
        }
    }

    fn close(&self) {
        let mut inbox = self.inbox();
        inbox.closed = true;
        inbox.pending.clear();
        drop(inbox);
        self.arrived.notify_waiters();
    }
}

async fn read_messages(connection: std::sync::Weak<Connection>, reader: ReadHalf<DuplexStream>) {
    let mut lines = BufReader::new(reader).lines();
    while let Ok(Some(text)) = lines.next_line().await {
        let Some(connection) = connection.upgrade() else { return };
        match serde_json::from_str(&text) {
            Ok(message) => connection.receive(message).await,
            Err(_) => connection.schemas.received_invalid(&text),
        }
    }
    if let Some(connection) = connection.upgrade() {
        connection.close();
    }
}
