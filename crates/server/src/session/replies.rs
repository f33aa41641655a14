//! Requests of ours to legacy clients, and the responses that come back for them.
//!
//! The id of such a request is one of two kinds, which differ in their dots:
//!
//! - `<task>.<key>.<n>`, written with [`PendingReplies::delivery`]: a delivery of a question that a call or a task has open in the store.
//!   `n` differs for each delivery, and the first response to any of them counts. Nothing is kept here: the
//!   response may reach another process than the one that asked. It is written before it is accepted.
//! - 32 hex digits and the node, from [`PendingReplies::expect`]: any other request. Its response is awaited in memory, in [`PendingReply::reply`]; dropping the [`PendingReply`] ends the wait.
//!
//! Both end with the node that has sent the request, in 19 digits. What only that node can take is passed on to it (`session/other_nodes.rs`).
//!
//! A response to the first kind is taken only from the principal that the task belongs to, one to the second only from the
//! session that was asked; neither id can be guessed. Responses that are not awaited are accepted and ignored: the wait
//! may just have ended.

use longhaul_core::{Entropy, InputKey, NodeId, SessionKey, TaskId, UnixMillis};
use longhaul_runtime::QuestionReply;
use parking_lot::Mutex;
use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};
use tokio::sync::oneshot;

type Key = (SessionKey, String);

/// The digits of a node's number at the end of an id: all that the largest one has.
const NODE_DIGITS: usize = 19;

/// The responses that are awaited on this node.
pub(crate) struct PendingReplies {
    me: NodeId,
    awaited: Arc<Mutex<HashMap<Key, oneshot::Sender<QuestionReply>>>>,
    /// The number of the next delivery.
    next: AtomicU64,
}

/// A response that is awaited.
pub(crate) struct PendingReply {
    awaited: Arc<Mutex<HashMap<Key, oneshot::Sender<QuestionReply>>>>,
    key: Key,
    reply: oneshot::Receiver<QuestionReply>,
}

impl PendingReplies {
    /// Deliveries are numbered from `now` on, so that a session does not see a number again that an earlier process gave it.
    pub(crate) fn new(me: NodeId, now: UnixMillis) -> Self {
        Self {
            me,
            awaited: Arc::default(),
            next: AtomicU64::new(now.0.unsigned_abs()),
        }
    }

    /// Awaits the response to a request that is about to be sent to `session` under [`PendingReply::id`].
    pub(crate) fn expect(&self, session: &SessionKey, entropy: &dyn Entropy) -> PendingReply {
        let mut bytes = [0u8; 16];
        entropy.fill(&mut bytes);
        let key = (
            session.clone(),
            format!("{:032x}{:0NODE_DIGITS$}", u128::from_be_bytes(bytes), self.me.0),
        );
        let (sender, reply) = oneshot::channel();
        self.awaited.lock().insert(key.clone(), sender);
        PendingReply {
            awaited: Arc::clone(&self.awaited),
            key,
            reply,
        }
    }

    /// The id under which an open question is sent once.
    pub(crate) fn delivery_id(&self, task: &TaskId, key: &InputKey) -> String {
        let nth = self.next.fetch_add(1, Ordering::Relaxed);
        let me = self.me.0;
        format!("{}.{}.{nth}{me:0NODE_DIGITS$}", task.as_str(), key.as_str())
    }

    /// The other node that has sent the request with this id, if one has.
    pub(crate) fn other_sender(&self, id: &str) -> Option<NodeId> {
        let digits = id.get(id.len().checked_sub(NODE_DIGITS)?..)?;
        let node = NodeId(digits.parse().ok()?);
        (node != self.me && node.0 > 0).then_some(node)
    }

    /// Hands a response to whoever awaits it; returns whether someone does.
    pub(crate) fn take(&self, session: &SessionKey, id: String, reply: QuestionReply) -> bool {
        let awaited = self.awaited.lock().remove(&(session.clone(), id));
        // The wait may just have ended.
        awaited.is_some_and(|awaited| awaited.send(reply).is_ok())
    }
}

impl PendingReply {
    /// The request's id.
    pub(crate) fn id(&self) -> &str {
        &self.key.1
    }

    /// The client's response, however long it takes. Asked for once.
    pub(crate) async fn reply(&mut self) -> QuestionReply {
        match (&mut self.reply).await {
            Ok(reply) => reply,
            // The sender is in the table for as long as we are, or was used.
            Err(_) => std::future::pending().await,
        }
    }
}

impl Drop for PendingReply {
    fn drop(&mut self) {
        self.awaited.lock().remove(&self.key);
    }
}

/// The question that the id of a delivery names; `None` for any other id.
pub(crate) fn question_of(id: &str) -> Option<(TaskId, InputKey)> {
    let (question, nth) = id.rsplit_once('.')?;
    let (task, key) = question.split_once('.')?;
    let numbered = !nth.is_empty() && nth.bytes().all(|byte| byte.is_ascii_digit());
    numbered.then_some(())?;
    Some((task.parse().ok()?, InputKey::named(key)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use longhaul_core::Json;

    struct CountingEntropy(AtomicU64);
    impl Entropy for CountingEntropy {
        fn fill(&self, bytes: &mut [u8]) {
            bytes.fill(0);
            bytes[0] = u8::try_from(self.0.fetch_add(1, Ordering::Relaxed)).unwrap();
        }
    }

    fn reply(words: &str) -> QuestionReply {
        QuestionReply::Result(Json::trusted(words))
    }

    #[tokio::test]
    async fn a_response_reaches_only_the_request_of_its_session() {
        let replies = PendingReplies::new(NodeId(3), UnixMillis(7));
        let entropy = CountingEntropy(AtomicU64::new(1));
        let (mine, other) = (SessionKey::named("mine"), SessionKey::named("other"));
        let mut first = replies.expect(&mine, &entropy);
        let mut second = replies.expect(&mine, &entropy);
        assert_ne!(first.id(), second.id());
        let (first_id, second_id) = (first.id().to_owned(), second.id().to_owned());
        replies.take(&other, first_id.clone(), reply("{}"));
        replies.take(&mine, second_id, reply(r#"{"b":1}"#));
        replies.take(&mine, first_id.clone(), reply(r#"{"a":1}"#));
        replies.take(&mine, first_id, reply(r#"{"again":1}"#));
        assert_eq!(first.reply().await, reply(r#"{"a":1}"#));
        assert_eq!(second.reply().await, reply(r#"{"b":1}"#));
        drop((first, replies.expect(&mine, &entropy)));
        assert!(replies.awaited.lock().is_empty(), "a wait that ended leaves nothing");
    }

    #[test]
    fn an_id_names_the_node_that_has_sent_its_request() {
        let (task, key): (TaskId, _) = ("a-task_1".parse().unwrap(), InputKey::nth(3));
        let (largest, other) = (NodeId(i64::MAX), NodeId(3));
        let of = |node| PendingReplies::new(node, UnixMillis(7));
        for node in [largest, other] {
            let session = SessionKey::named("s");
            let expected = of(node).expect(&session, &CountingEntropy(AtomicU64::new(1)));
            for id in [expected.id(), &of(node).delivery_id(&task, &key)] {
                assert_eq!(of(NodeId(4)).other_sender(id), Some(node), "{id}");
                assert_eq!(of(node).other_sender(id), None, "{id}");
            }
        }
        // Those of releases that named no node, and what no server has sent.
        let unnamed = ["a-task_1.in-3.1764187263000", "00ff00ff00ff00ff00ff00ff00ff00ff"];
        for id in unnamed.into_iter().chain(["", "é"]) {
            assert_eq!(of(other).other_sender(id), None, "{id}");
        }
    }

    #[test]
    fn the_two_kinds_of_ids_are_distinguished() {
        let replies = PendingReplies::new(NodeId(3), UnixMillis(7));
        let (task, key): (TaskId, _) = ("a-task_1".parse().unwrap(), InputKey::nth(3));
        assert_eq!(replies.delivery_id(&task, &key), "a-task_1.in-3.70000000000000000003");
        assert_eq!(question_of(&replies.delivery_id(&task, &key)), Some((task, key)));
        let short = ["", ".", "..", "a.in-1", "a.in-1.", "a.in-1.x", ".in-1.2"];
        for other in short.into_iter().chain(["0123456789abcdef"]) {
            assert_eq!(question_of(other), None, "{other}");
        }
    }
}
