//! Which questions of this node clients answer with tasks of their own.
//!
//! The node that has put a question polls the client's task. It does not put the question again meanwhile. A client may have another stream at another
//! node, which knows nothing of its task and puts the question there, too: the first answer counts, and takes the other one back.

use longhaul_core::{InputKey, SessionKey, TaskId};
use parking_lot::Mutex;
use std::{collections::HashMap, sync::Arc};

/// A question of a task to a session.
pub(crate) type Key = (SessionKey, TaskId, InputKey);

/// The questions that clients answer with tasks.
#[derive(Clone, Default)]
pub(crate) struct HostedQuestions(Arc<Mutex<HashMap<Key, HostedTask>>>);

/// A client's task that this node polls.
struct HostedTask {
    /// The client's name for its task.
    theirs: String,
    /// The client is asked again without a task.
    is_lost: bool,
}

/// Why a client's task is not polled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Duplicate {
    /// It is already: the client has named it twice.
    Same,
    /// Another one is: the client has answered two deliveries with a task each.
    Other,
}

impl HostedQuestions {
    /// Whether the client works on the question.
    pub(crate) fn is_working_on(&self, key: &Key) -> bool {
        self.0.lock().get(key).is_some_and(|hosted| !hosted.is_lost)
    }

    /// Whether the client's task was lost, so that the client is asked again without a task.
    pub(crate) fn must_ask_without_task(&self, key: &Key) -> bool {
        self.0.lock().get(key).is_some_and(|hosted| hosted.is_lost)
    }

    /// Registers a client's task, unless it has made one for the question already.
    pub(super) fn enter(&self, key: Key, theirs: &str) -> Result<Registration, Duplicate> {
        let mut table = self.0.lock();
        match table.get(&key) {
            Some(hosted) if !hosted.is_lost && hosted.theirs == theirs => return Err(Duplicate::Same),
            Some(_) => return Err(Duplicate::Other),
            None => {}
        }
        let hosted = HostedTask {
            theirs: theirs.to_owned(),
            is_lost: false,
        };
        table.insert(key.clone(), hosted);
        Ok(Registration {
            questions: self.clone(),
            key,
        })
    }
}

/// Keeps a question in the table until dropped.
pub(super) struct Registration {
    questions: HostedQuestions,
    key: Key,
}

impl Registration {
    /// The client's task is lost.
    pub(super) fn mark_lost(&self) {
        if let Some(hosted) = self.questions.0.lock().get_mut(&self.key) {
            hosted.is_lost = true;
        }
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.questions.0.lock().remove(&self.key);
    }
}
