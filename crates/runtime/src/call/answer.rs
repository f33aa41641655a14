//! Clients' answers to the questions of tasks.

use crate::{Engine, QuestionReply};
use longhaul_core::{
    AnsweredBy, Event, InputKey, Json, Principal, RpcFailure, Scope, TaskId,
    store::{ApplyError, Change, Record, StoreError},
};
use std::collections::BTreeMap;

/// What [`Engine::open_question`] has found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum QuestionLookup {
    /// The question, `{"method":…,"params":…}`.
    Open(Json),
    /// The task does not ask it, or not any more.
    NotOpen,
    /// The principal has no such task.
    UnknownTask,
}

impl Engine {
    /// Gives a client's answers to a task of `scope`. Answers to questions that are not open are ignored. `None` if there is no such
    /// task.
    ///
    /// # Errors
    /// The store's; some answers may have been taken.
    pub async fn answer(
        &self,
        scope: &Scope,
        id: &TaskId,
        answers: BTreeMap<InputKey, Json>,
    ) -> Result<Option<()>, StoreError> {
        let Some(record) = self.get(scope, id).await? else {
            return Ok(None);
        };
        for (key, answer) in answers {
            if !record.task.open_inputs.contains(&key) {
                continue;
            }
            self.answer_question(id, key, answer, AnsweredBy::Client).await?;
        }
        Ok(Some(()))
    }

    /// A question that a call or a task of `principal` asks, while it is open. Unlike what
    /// [`get`](Self::get) shows, also of a call that was never announced: only the client that is asked knows its key.
    ///
    /// # Errors
    /// The store's.
    pub async fn open_question(
        &self,
        principal: &Principal,
        id: &TaskId,
        key: &InputKey,
    ) -> Result<QuestionLookup, StoreError> {
        let record = self.0.node.store.get_unscoped(id).await?;
        let record = record.map(Record::for_clients);
        let Some(record) = record.filter(|record| record.task.owner.principal == *principal) else {
            return Ok(QuestionLookup::UnknownTask);
        };
        let input = record.inputs.into_iter().find(|input| input.key == *key);
        Ok(input.map_or(QuestionLookup::NotOpen, |input| QuestionLookup::Open(input.request)))
    }

    /// Answers a question found with [`open_question`](Self::open_question); the answer is written when this completes. An answer
    /// that comes after another one, or too late, changes nothing (invariant 4).
    ///
    /// # Errors
    /// The store's.
    pub async fn answer_question(
        &self,
        id: &TaskId,
        key: InputKey,
        answer: Json,
        by: AnsweredBy,
    ) -> Result<(), StoreError> {
        let event = Event::InputAnswered { key, answer, by };
        match self.0.node.commit(Change::of(id, event, self.0.node.now())).await {
            Ok(_) => Ok(()),
            Err(ApplyError::Store(error)) => Err(error),
            // Anything but the store's failure means: answered, withdrawn or over since we looked.
            Err(_) => Ok(()),
        }
    }

    /// Refuses a question in its client's place, which cannot be asked or cannot answer.
    ///
    /// # Errors
    /// The store's.
    pub async fn refuse_question(&self, id: &TaskId, key: InputKey, why: &str) -> Result<(), StoreError> {
        let refusal = QuestionReply::Error(RpcFailure::new(-32603, why));
        self.answer_question(id, key, refusal.into_answer(), AnsweredBy::Server)
            .await
    }
}
