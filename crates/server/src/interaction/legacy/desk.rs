//! A [`Desk`] is a table in memory of the questions that this process has put to legacy clients. It holds two things: the ids of the deliveries
//! (a [`Delivery`] is a question on one stream) that have no response yet, and the questions that a client answers with a task of its own.
//!
//! The node that has put a question polls the client's task. It does not put the question again meanwhile. A client may have another stream at another
//! node, which knows nothing of its task and puts the question there, too: the first answer counts, and takes the other one back.

use longhaul_core::{InputKey, SessionKey, TaskId};
use longhaul_wire::{RequestId, RpcError, legacy::input_request::LegacyInputRequest, notification};
use parking_lot::Mutex;
use serde_json::value::to_raw_value;
use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

/// A question of a task to a session.
pub(crate) type Key = (SessionKey, TaskId, InputKey);

/// The questions that this process has put to legacy clients. Those of tasks and plain calls are rows of the store, so all that is here can be lost.
#[derive(Clone, Default)]
pub(crate) struct Desk(Arc<Mutex<Table>>);

#[derive(Default)]
struct Table {
    /// The ids of the deliveries without a response: only those are cancelled.
    unanswered: HashSet<String>,
    hosted: HashMap<Key, HostedTask>,
}

/// A client's task that this node polls.
struct HostedTask {
    /// The client's name for its task.
    theirs: String,
    /// The client is asked again without a task.
    is_lost: bool,
}

/// A question that was put on one stream. It is dropped with the stream.
pub(crate) struct Delivery {
    desk: Desk,
    id: String,
    /// Whether the client may answer it with a task of its own.
    offers_task: bool,
}

/// Why a client's task is not polled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Duplicate {
    /// It is already: the client has named it twice.
    Same,
    /// Another one is: the client has answered two deliveries with a task each.
    Other,
}

impl Desk {
    /// Whether a question of a task is to be put on a stream, which has put it as `before` if it has.
    pub(crate) fn must_put(&self, question: &Key, before: Option<&Delivery>) -> bool {
        match (self.0.lock().hosted.get(question), before) {
            (Some(hosted), _) if !hosted.is_lost => false,
            (_, None) => true,
            // This time the client is asked without a task.
            (lost, Some(before)) => lost.is_some() && before.offers_task,
        }
    }

    /// Whether the client may answer with a task of its own: not if it has lost one.
    pub(crate) fn may_offer_task(&self, question: &Key) -> bool {
        self.0.lock().hosted.get(question).is_none_or(|hosted| !hosted.is_lost)
    }

    /// Puts a question: the delivery, and the message to be sent.
    ///
    /// # Errors
    /// −32603 if the question is invalid.
    pub(crate) fn put(&self, request: LegacyInputRequest<'_>) -> Result<(Delivery, String), RpcError> {
        let mut text = String::new();
        request.write(&mut text)?;
        self.0.lock().unanswered.insert(request.id.to_owned());
        let delivery = Delivery {
            desk: self.clone(),
            id: request.id.to_owned(),
            offers_task: request.client_task.is_some(),
        };
        Ok((delivery, text))
    }

    /// The client has responded to the delivery with this id. Whether it was the first response.
    pub(super) fn responded(&self, id: &str) -> bool {
        self.0.lock().unanswered.remove(id)
    }

    /// Registers a client's task, unless it has made one for the question already.
    pub(super) fn enter(&self, question: Key, theirs: &str) -> Result<Registration, Duplicate> {
        let mut table = self.0.lock();
        match table.hosted.get(&question) {
            Some(hosted) if !hosted.is_lost && hosted.theirs == theirs => return Err(Duplicate::Same),
            Some(_) => return Err(Duplicate::Other),
            None => {}
        }
        let hosted = HostedTask {
            theirs: theirs.to_owned(),
            is_lost: false,
        };
        table.hosted.insert(question.clone(), hosted);
        Ok(Registration {
            desk: self.clone(),
            question,
        })
    }
}

impl Delivery {
    /// The notification that cancels the request, if it has no response.
    pub(crate) fn take_back(self) -> Option<String> {
        if !self.desk.responded(&self.id) {
            return None;
        }
        let mut text = String::new();
        let raw = to_raw_value(&self.id).unwrap_or_default();
        if let Some(id) = RequestId::from_raw(&raw) {
            notification::write_cancelled(&mut text, id, Some("The question is settled"));
        }
        Some(text)
    }
}

impl Drop for Delivery {
    fn drop(&mut self) {
        self.desk.responded(&self.id);
    }
}

/// Keeps a client's task on the desk until dropped.
pub(super) struct Registration {
    desk: Desk,
    question: Key,
}

impl Registration {
    /// The client's task is lost.
    pub(super) fn mark_lost(&self) {
        if let Some(hosted) = self.desk.0.lock().hosted.get_mut(&self.question) {
            hosted.is_lost = true;
        }
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.desk.0.lock().hosted.remove(&self.question);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use longhaul_wire::params::TaskMetadata;

    fn question() -> Key {
        (SessionKey::named("s"), "t1".parse().unwrap(), InputKey::nth(1))
    }

    fn put(desk: &Desk, id: &str, client_task: Option<TaskMetadata>) -> Delivery {
        let request = LegacyInputRequest {
            id,
            request: r#"{"method":"roots/list","params":{}}"#,
            task: None,
            client_task,
        };
        desk.put(request).unwrap().0
    }

    #[test]
    fn only_a_delivery_without_a_response_is_cancelled() {
        let desk = Desk::default();
        let cancelled = put(&desk, "1", None).take_back().unwrap();
        assert!(cancelled.contains("notifications/cancelled") && cancelled.contains(r#""1""#));
        let answered = put(&desk, "2", None);
        assert!(desk.responded("2"));
        assert_eq!(answered.take_back(), None);
        drop(put(&desk, "3", None));
        assert!(desk.0.lock().unanswered.is_empty(), "its stream has closed");
    }

    #[test]
    fn a_question_is_put_again_without_a_task_once_the_clients_task_is_lost() {
        let (desk, question) = (Desk::default(), question());
        assert!(desk.must_put(&question, None) && desk.may_offer_task(&question));
        let first = put(&desk, "1", Some(TaskMetadata { ttl: None }));
        assert!(!desk.must_put(&question, Some(&first)), "it was put");
        let registration = desk.enter(question.clone(), "x").ok().unwrap();
        assert!(!desk.must_put(&question, None), "the client works on it");
        assert_eq!(desk.enter(question.clone(), "x").err(), Some(Duplicate::Same));
        assert_eq!(desk.enter(question.clone(), "y").err(), Some(Duplicate::Other));
        registration.mark_lost();
        assert!(desk.must_put(&question, None) && desk.must_put(&question, Some(&first)));
        assert!(!desk.may_offer_task(&question));
        let again = put(&desk, "2", None);
        assert!(!desk.must_put(&question, Some(&again)), "it was put without a task");
        assert_eq!(desk.enter(question.clone(), "x").err(), Some(Duplicate::Other));
        drop(registration);
        assert!(!desk.must_put(&question, Some(&first)) && desk.may_offer_task(&question));
    }
}
