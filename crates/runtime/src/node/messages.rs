//! Messages between nodes: what running work sends to clients of another node, questions about files on another host, and what servers tell each other.
//!
//! They go through the store, so a node needs no address, and only who can use the store can ask. They may be lost: clients miss a message then, and a question
//! is not answered.

use super::progress_stream::{ProgressStreams, ToolMessage};
use longhaul_core::{Json, LogLevel, NodeId, Store, TaskId};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};
use tokio::sync::{mpsc, oneshot};
use tracing::debug;

/// Messages that may wait to be sent; further ones are lost.
const MAX_UNSENT: usize = 1_024;
/// Questions, and messages for the server, that may wait until this node acts on them; further ones are lost.
const MAX_RECEIVED: usize = 1_024;

/// What is to be sent, and to whom; without a node to all.
type UnsentMessages = mpsc::Receiver<(Option<NodeId>, Arc<str>)>;

/// The messages of a node.
pub(crate) struct Messages {
    me: NodeId,
    pub(super) progress_streams: Arc<ProgressStreams>,
    outbox: mpsc::Sender<(Option<NodeId>, Arc<str>)>,
    unsent: Mutex<Option<UnsentMessages>>,
    questions: mpsc::Sender<Question>,
    asked: Mutex<Option<mpsc::Receiver<Question>>>,
    for_server: mpsc::Sender<Json>,
    server_messages: Mutex<Option<mpsc::Receiver<Json>>>,
    /// What this node has asked others, by number.
    pending: Mutex<HashMap<u64, oneshot::Sender<Box<RawValue>>>>,
    next: AtomicU64,
}

/// What a node sends.
#[derive(Debug, Serialize, Deserialize)]
enum NodeMessage {
    /// From running work to those who follow it.
    FromWork {
        task: String,
        message: CarriedMessage,
    },
    /// A question, which its sender has given a number.
    Ask {
        number: u64,
        from: i64,
        question: Box<RawValue>,
    },
    Answer {
        number: u64,
        answer: Box<RawValue>,
    },
    /// From the server around a node to the one around another.
    ForServer {
        message: Box<RawValue>,
    },
    /// From the server around a node to all others.
    ForServers {
        from: i64,
        message: Box<RawValue>,
    },
}

/// A [`ToolMessage`] on its way.
#[derive(Debug, Serialize, Deserialize)]
enum CarriedMessage {
    Progress {
        current: f64,
        total: Option<f64>,
        message: Option<String>,
        relayed: Option<Box<RawValue>>,
    },
    Log {
        level: String,
        logger: Option<String>,
        data: Box<RawValue>,
        relayed: Option<Box<RawValue>>,
    },
    ElicitationComplete {
        id: String,
    },
    Begins,
    BecomesTask,
    CloseStream,
}

/// A question of another node.
pub(crate) struct Question {
    pub(crate) text: Box<RawValue>,
    number: u64,
    from: NodeId,
}

impl Messages {
    pub(super) fn new(me: NodeId) -> Arc<Self> {
        let (outbox, unsent) = mpsc::channel(MAX_UNSENT);
        let (questions, asked) = mpsc::channel(MAX_RECEIVED);
        let (for_server, server_messages) = mpsc::channel(MAX_RECEIVED);
        Arc::new(Self {
            me,
            progress_streams: Arc::default(),
            outbox,
            unsent: Mutex::new(Some(unsent)),
            questions,
            asked: Mutex::new(Some(asked)),
            for_server,
            server_messages: Mutex::new(Some(server_messages)),
            pending: Mutex::default(),
            next: AtomicU64::new(0),
        })
    }

    /// Sends what is to be sent, in order, until the node stops.
    pub(crate) async fn send_all(&self, store: &dyn Store) {
        let unsent = self.unsent.lock().take();
        let Some(mut unsent) = unsent else { return };
        while let Some((to, text)) = unsent.recv().await {
            if let Err(error) = store.send(to, text).await {
                debug!(%error, ?to, "a message to another server was lost");
            }
        }
    }

    /// The next question of another node; `None` if this is called a second time.
    pub(crate) fn take_questions(&self) -> Option<mpsc::Receiver<Question>> {
        self.asked.lock().take()
    }

    /// The next message for the server of this node; `None` if this is called a second time.
    pub(crate) fn take_server_messages(&self) -> Option<mpsc::Receiver<Json>> {
        self.server_messages.lock().take()
    }

    /// Sends a message to the server of another node.
    pub(crate) fn tell_server(&self, to: NodeId, message: Box<RawValue>) {
        self.send(Some(to), &NodeMessage::ForServer { message });
    }

    /// Sends a message to the servers of all other nodes.
    pub(crate) fn broadcast_to_servers(&self, message: Box<RawValue>) {
        let from = self.me.0;
        self.send(None, &NodeMessage::ForServers { from, message });
    }

    /// Passes a message of running work on to the node whose clients follow it.
    pub(crate) fn pass_on(&self, to: NodeId, task: &TaskId, message: &ToolMessage) {
        self.send(
            Some(to),
            &NodeMessage::FromWork {
                task: task.to_string(),
                message: CarriedMessage::of(message),
            },
        );
    }

    /// Asks another node. The answer may never come.
    pub(crate) fn ask(self: &Arc<Self>, to: NodeId, question: Box<RawValue>) -> PendingAnswer {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let (tell, answer) = oneshot::channel();
        self.pending.lock().insert(number, tell);
        let from = self.me.0;
        self.send(Some(to), &NodeMessage::Ask { number, from, question });
        PendingAnswer {
            messages: Arc::clone(self),
            number,
            answer,
        }
    }

    pub(crate) fn answer(&self, asked: &Question, answer: Box<RawValue>) {
        let number = asked.number;
        self.send(Some(asked.from), &NodeMessage::Answer { number, answer });
    }

    fn send(&self, to: Option<NodeId>, message: &NodeMessage) {
        match serde_json::to_string(message) {
            Ok(text) => drop(self.outbox.try_send((to, text.into()))),
            Err(error) => debug!(%error, "a message to another server cannot be written"),
        }
    }

    /// Acts on a message. Messages that a later release has sent are ignored.
    pub(super) fn receive(&self, to: Option<NodeId>, text: &str) {
        if to.is_some_and(|to| to != self.me) {
            return;
        }
        match serde_json::from_str(text) {
            Ok(NodeMessage::FromWork { task, message }) => {
                if let (Ok(task), Some(message)) = (task.parse(), message.into_message()) {
                    self.progress_streams.publish(&task, message);
                }
            }
            Ok(NodeMessage::Ask { number, from, question }) => {
                let from = NodeId(from);
                let text = question;
                let _ = self.questions.try_send(Question { text, number, from });
            }
            Ok(NodeMessage::Answer { number, answer }) => {
                if let Some(tell) = self.pending.lock().remove(&number) {
                    let _ = tell.send(answer);
                }
            }
            Ok(NodeMessage::ForServers { from, .. }) if from == self.me.0 => {}
            Ok(NodeMessage::ForServer { message } | NodeMessage::ForServers { message, .. }) => {
                drop(self.for_server.try_send(Json::from(&*message)));
            }
            Err(error) => debug!(%error, "a message of another server cannot be read"),
        }
    }
}

/// A question to another node that is not answered yet. Dropping it forgets the question.
pub(crate) struct PendingAnswer {
    messages: Arc<Messages>,
    number: u64,
    answer: oneshot::Receiver<Box<RawValue>>,
}

impl PendingAnswer {
    /// The answer. Never completes if none comes.
    pub(crate) async fn wait(mut self) -> Box<RawValue> {
        match (&mut self.answer).await {
            Ok(answer) => answer,
            Err(_) => std::future::pending().await,
        }
    }
}

impl Drop for PendingAnswer {
    fn drop(&mut self) {
        self.messages.pending.lock().remove(&self.number);
    }
}

impl CarriedMessage {
    fn of(message: &ToolMessage) -> Self {
        let raw = |json: &Json| RawValue::from_string(json.as_str().to_owned()).unwrap_or_default();
        match message {
            ToolMessage::Progress {
                current,
                total,
                message,
                relayed,
            } => Self::Progress {
                current: *current,
                total: *total,
                message: message.as_deref().map(str::to_owned),
                relayed: relayed.as_ref().map(raw),
            },
            ToolMessage::Log {
                level,
                logger,
                data,
                relayed,
            } => Self::Log {
                level: level.as_str().to_owned(),
                logger: logger.as_deref().map(str::to_owned),
                data: raw(data),
                relayed: relayed.as_ref().map(raw),
            },
            ToolMessage::ElicitationComplete { id } => Self::ElicitationComplete { id: id.to_string() },
            ToolMessage::Begins => Self::Begins,
            ToolMessage::BecomesTask => Self::BecomesTask,
            ToolMessage::CloseStream => Self::CloseStream,
        }
    }

    /// `None` if it has a level that is not known here.
    fn into_message(self) -> Option<ToolMessage> {
        let json = |raw: Box<RawValue>| Json::from(&*raw);
        Some(match self {
            Self::Progress {
                current,
                total,
                message,
                relayed,
            } => ToolMessage::Progress {
                current,
                total,
                message: message.map(Into::into),
                relayed: relayed.map(json),
            },
            Self::Log {
                level,
                logger,
                data,
                relayed,
            } => ToolMessage::Log {
                level: LogLevel::parse(&level)?,
                logger: logger.map(Into::into),
                data: json(data),
                relayed: relayed.map(json),
            },
            Self::ElicitationComplete { id } => ToolMessage::ElicitationComplete { id: id.into() },
            Self::Begins => ToolMessage::Begins,
            Self::BecomesTask => ToolMessage::BecomesTask,
            Self::CloseStream => ToolMessage::CloseStream,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_of_work_arrive_as_they_were_sent() {
        let messages = Messages::new(NodeId(2));
        let task: TaskId = "t1".parse().unwrap();
        let mut stream = messages.progress_streams.subscribe(&task);
        let sent = [
            ToolMessage::Progress {
                current: 0.1,
                total: Some(3.0),
                message: Some("half".into()),
                relayed: None,
            },
            ToolMessage::Log {
                level: LogLevel::Warning,
                logger: None,
                // Bytes stay: neither the spaces nor the digits change.
                data: Json::parse("{ \"a\": 1.10000000000000000001 }").unwrap(),
                relayed: Some(Json::parse("[ 1 ]").unwrap()),
            },
            ToolMessage::ElicitationComplete { id: "e".into() },
            ToolMessage::Begins,
            ToolMessage::BecomesTask,
            ToolMessage::CloseStream,
        ];
        let mut unsent = messages.unsent.lock().take().unwrap();
        for message in &sent {
            messages.pass_on(NodeId(2), &task, message);
            let (to, text) = unsent.try_recv().unwrap();
            messages.receive(Some(NodeId(3)), &text);
            assert_eq!(stream.try_next(), None, "it was for another node");
            messages.receive(to, &text);
            assert_eq!(stream.try_next().as_ref(), Some(message));
        }
        messages.receive(Some(NodeId(2)), "{\"FromTheFuture\":1}");
    }
}
