//! Which questions clients answer with tasks of their own, at this node and at others.
//!
//! The node that has put a question polls the client's task. A client may have another stream at another node, so each node says which questions of its own
//! are answered like that: nobody else puts them again meanwhile. It says so every [`RENEW_AFTER`], and is believed for [`CLAIM`].
//!
//! As on one node, a question is put on the stream of `tasks/result` rather than on a push stream: so a push stream waits for [`HEAD_START`], and where the client is asked on
//! `tasks/result`, its node says so.
//!
//! If two nodes have put a question at the same moment, and the client has made two tasks of it, the node with the lower id keeps its task.

use crate::session::other_nodes::HostedState;
use longhaul_core::{InputKey, NodeId, SessionKey, TaskId, UnixMillis};
use parking_lot::Mutex;
use std::{collections::HashMap, sync::Arc, time::Duration};
use tokio_util::sync::CancellationToken;

/// How often a node says that a client works on a question.
pub(crate) const RENEW_AFTER: Duration = Duration::from_secs(10);
/// How long that is believed, in milliseconds.
const CLAIM: u64 = 30_000;
/// How long a node is believed that has put a question, in milliseconds.
const ASKED: u64 = 10_000;
/// For how long other nodes may put a question on `tasks/result` before it is put on a push stream, in milliseconds.
pub(crate) const HEAD_START: u64 = 250;

/// A question of a task to a session.
pub(crate) type Key = (SessionKey, TaskId, InputKey);

/// The questions that clients answer with tasks.
#[derive(Clone, Default)]
pub(crate) struct HostedQuestions(Arc<Mutex<Table>>);

#[derive(Default)]
struct Table {
    here: HashMap<Key, HostedTask>,
    elsewhere: HashMap<Key, Claim>,
    /// When the claims that have expired are removed.
    purge_at: UnixMillis,
}

/// A client's task that this node polls.
struct HostedTask {
    state: HostedState,
    /// The client's name for its task.
    theirs: String,
    superseded: CancellationToken,
}

/// What another node says.
struct Claim {
    state: HostedState,
    until: UnixMillis,
}

/// Why a client's task is not polled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Duplicate {
    /// It is already: the client has named it twice.
    Same,
    /// Another one is, here or at another node: the client has answered two deliveries with a task each.
    Other,
}

/// What a claim of another node changes here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ClaimEffect {
    /// Nothing.
    None,
    /// The question may be asked again.
    MayAsk,
    /// The task that this node polls comes first: the other node has to be told.
    Tell,
}

impl HostedQuestions {
    /// Whether the client works on the question.
    pub(crate) fn is_working_on(&self, key: &Key, now: UnixMillis) -> bool {
        self.is(key, HostedState::Working, now)
    }

    /// Whether the client's task was lost, so that the client is asked again without a task.
    pub(crate) fn must_ask_without_task(&self, key: &Key, now: UnixMillis) -> bool {
        self.is(key, HostedState::Lost, now)
    }

    fn is(&self, key: &Key, state: HostedState, now: UnixMillis) -> bool {
        let table = self.0.lock();
        let here = table.here.get(key).is_some_and(|hosted| hosted.state == state);
        here || table.claim(key, now).is_some_and(|claim| claim.state == state)
    }

    /// What another node says of the question, and until when it is believed.
    pub(crate) fn claimed(&self, key: &Key, now: UnixMillis) -> Option<(HostedState, UnixMillis)> {
        let table = self.0.lock();
        table.claim(key, now).map(|claim| (claim.state, claim.until))
    }

    /// Registers a client's task, unless it has made one for the question already.
    pub(super) fn enter(&self, key: Key, theirs: &str, now: UnixMillis) -> Result<Registration, Duplicate> {
        let mut table = self.0.lock();
        match table.here.get(&key) {
            Some(hosted) if hosted.state == HostedState::Working && hosted.theirs == theirs => {
                return Err(Duplicate::Same);
            }
            Some(_) => return Err(Duplicate::Other),
            None if table
                .claim(&key, now)
                .is_some_and(|claim| claim.state != HostedState::Asked) =>
            {
                return Err(Duplicate::Other);
            }
            None => {}
        }
        let superseded = CancellationToken::new();
        let hosted = HostedTask {
            state: HostedState::Working,
            theirs: theirs.to_owned(),
            superseded: superseded.clone(),
        };
        table.here.insert(key.clone(), hosted);
        Ok(Registration {
            questions: self.clone(),
            key,
            superseded,
        })
    }

    /// The node `other` says what has become of the question; this one is `me`.
    pub(crate) fn claim(
        &self,
        key: Key,
        state: HostedState,
        (me, other): (NodeId, NodeId),
        now: UnixMillis,
    ) -> ClaimEffect {
        let mut table = self.0.lock();
        if let Some(hosted) = table.here.get(&key)
            && hosted.state == HostedState::Working
            && state == HostedState::Working
        {
            if me < other {
                return ClaimEffect::Tell;
            }
            hosted.superseded.cancel();
        }
        table.purge(now);
        let until = match state {
            HostedState::Asked if table.claim(&key, now).is_some() => return ClaimEffect::None,
            HostedState::Asked => now.plus(ASKED),
            HostedState::Working | HostedState::Lost => now.plus(CLAIM),
        };
        let before = table.elsewhere.insert(key, Claim { state, until });
        let was_working = before.is_some_and(|claim| claim.state == HostedState::Working);
        match state {
            HostedState::Lost if was_working => ClaimEffect::MayAsk,
            _ => ClaimEffect::None,
        }
    }
}

impl Table {
    fn claim(&self, key: &Key, now: UnixMillis) -> Option<&Claim> {
        self.elsewhere.get(key).filter(|claim| claim.until > now)
    }

    fn purge(&mut self, now: UnixMillis) {
        if now >= self.purge_at {
            self.elsewhere.retain(|_, claim| claim.until > now);
            self.purge_at = now.plus(CLAIM);
        }
    }
}

/// Keeps a question in the table until dropped.
pub(super) struct Registration {
    questions: HostedQuestions,
    key: Key,
    superseded: CancellationToken,
}

impl Registration {
    /// The client's task is lost.
    pub(super) fn mark_lost(&self) {
        if let Some(hosted) = self.questions.0.lock().here.get_mut(&self.key) {
            hosted.state = HostedState::Lost;
        }
    }

    /// What has become of the client's task.
    pub(super) fn state(&self) -> HostedState {
        let table = self.questions.0.lock();
        table
            .here
            .get(&self.key)
            .map_or(HostedState::Lost, |hosted| hosted.state)
    }

    /// Completes when the client's task at another node comes before this one.
    pub(super) async fn superseded(&self) {
        self.superseded.cancelled().await;
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.questions.0.lock().here.remove(&self.key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    const NODES: (NodeId, NodeId) = (NodeId(2), NodeId(3));
    const START: UnixMillis = UnixMillis(1_000);

    fn key() -> Key {
        (SessionKey::named("s"), "t1".parse().unwrap(), InputKey::nth(1))
    }

    #[test]
    fn a_claim_of_another_node_holds_until_it_is_silent_for_too_long() {
        let questions = HostedQuestions::default();
        assert_eq!(
            questions.claim(key(), HostedState::Working, NODES, START),
            ClaimEffect::None
        );
        let last = START.plus(CLAIM - 1);
        assert!(questions.is_working_on(&key(), last));
        assert_eq!(questions.enter(key(), "x", last).err(), Some(Duplicate::Other));
        questions.claim(key(), HostedState::Working, NODES, last);
        let claimed = |now| questions.claimed(&key(), now);
        assert_eq!(claimed(last), Some((HostedState::Working, last.plus(CLAIM))));
        let over = last.plus(CLAIM);
        assert!(!questions.is_working_on(&key(), over));
        assert_eq!(claimed(over), None);
        assert!(questions.enter(key(), "x", over).is_ok());
        let other = (SessionKey::named("other"), key().1, key().2);
        questions.claim(other.clone(), HostedState::Working, NODES, over);
        let kept = questions.0.lock();
        assert_eq!(
            kept.elsewhere.keys().collect::<Vec<_>>(),
            [&other],
            "expired ones are removed"
        );
    }

    #[test]
    fn that_a_question_was_put_elsewhere_takes_no_answer_and_no_task_away() {
        let questions = HostedQuestions::default();
        let claim = |state| questions.claim(key(), state, NODES, START);
        claim(HostedState::Asked);
        let claimed = || questions.claimed(&key(), START);
        assert_eq!(claimed(), Some((HostedState::Asked, START.plus(ASKED))));
        assert!(!questions.is_working_on(&key(), START));
        assert!(questions.enter(key(), "x", START).is_ok(), "it was asked here, too");
        claim(HostedState::Working);
        claim(HostedState::Asked);
        assert_eq!(claimed(), Some((HostedState::Working, START.plus(CLAIM))));
    }

    #[test]
    fn of_two_tasks_the_one_of_the_lower_node_is_kept() {
        let questions = HostedQuestions::default();
        let mine = questions.enter(key(), "x", START).ok().unwrap();
        let claim = |nodes| questions.claim(key(), HostedState::Working, nodes, START);
        assert_eq!(claim((NodeId(2), NodeId(3))), ClaimEffect::Tell);
        assert!(mine.superseded().now_or_never().is_none());
        assert_eq!(claim((NodeId(2), NodeId(1))), ClaimEffect::None);
        assert!(mine.superseded().now_or_never().is_some());
        drop(mine);
        assert!(questions.is_working_on(&key(), START), "at the other node");
    }

    #[test]
    fn a_task_that_is_lost_at_another_node_is_asked_for_without_one() {
        let questions = HostedQuestions::default();
        questions.claim(key(), HostedState::Working, NODES, START);
        let lost = || questions.claim(key(), HostedState::Lost, NODES, START);
        assert_eq!(lost(), ClaimEffect::MayAsk);
        assert_eq!(lost(), ClaimEffect::None, "it is known");
        assert!(!questions.is_working_on(&key(), START) && questions.must_ask_without_task(&key(), START));
    }
}
