//! Asking a modern client: each retry runs the handler again from its start, with all answers so far.

use super::outbox::{Outbox, OutboxItem};
use crate::interaction::{
    check_answer,
    rounds::{Round, RoundState},
};
use longhaul_core::{BoxFuture, Json};
use longhaul_runtime::{AskError, Question, RequestChannel, ToolMessage, read_answer};
use parking_lot::Mutex;
use serde_json::value::RawValue;
use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    sync::Arc,
};

/// One run of a handler.
pub(super) struct Replay {
    question_log: Mutex<QuestionLog>,
    outbox: Arc<Outbox>,
}

/// The questions of this run, and the answers to them.
#[derive(Default)]
struct QuestionLog {
    /// By name.
    answers: BTreeMap<String, Json>,
    /// The names of the answers that the handler has used.
    used: BTreeSet<String>,
    /// How often each name was asked for.
    wanted: HashMap<String, u32>,
    /// The names given.
    given: HashSet<String>,
    /// How many questions there were.
    count: u32,
}

/// A question that has no answer yet.
struct Open {
    outbox: Arc<Outbox>,
    name: String,
}

impl Drop for Open {
    fn drop(&mut self) {
        self.outbox.withdraw(&self.name);
    }
}

impl Replay {
    /// A run with the answers that `round` brings: those of the rounds before, and the new ones to what the last round asked.
    /// A first request may bring any answers, since its questions are not known yet.
    pub(super) fn of(round: &mut Round, outbox: Arc<Outbox>) -> Self {
        let mut answers = std::mem::take(&mut round.answers);
        if let Some(RoundState::Handler {
            answers: earlier,
            asked,
        }) = &round.state
        {
            answers.retain(|name, _| asked.contains(name));
            answers.extend(
                earlier
                    .iter()
                    .map(|(name, answer)| (name.clone(), Json::from(&**answer))),
            );
        }
        let question_log = QuestionLog {
            answers,
            ..QuestionLog::default()
        };
        Self {
            question_log: Mutex::new(question_log),
            outbox,
        }
    }

    /// The state for the next round, which these questions ask.
    pub(super) fn state(&self, asked: impl IntoIterator<Item = String>) -> RoundState {
        let question_log = self.question_log.lock();
        let raw = |answer: &Json| RawValue::from_string(answer.as_str().to_owned()).ok();
        let used = question_log
            .answers
            .iter()
            .filter(|(name, _)| question_log.used.contains(*name));
        RoundState::Handler {
            answers: used
                .filter_map(|(name, answer)| Some((name.clone(), raw(answer)?)))
                .collect(),
            asked: asked.into_iter().collect(),
        }
    }
}

impl QuestionLog {
    /// The name of the next question. Every run asks in the same order, so that each question has the same name in all.
    fn name(&mut self, question: &Question) -> String {
        self.count += 1;
        let wanted = match &question.name {
            Some(name) => name.to_string(),
            None => format!("in-{}", self.count),
        };
        let times = self.wanted.entry(wanted.clone()).or_insert(0);
        loop {
            *times += 1;
            let name = match *times {
                1 => wanted.clone(),
                nth => format!("{wanted}-{nth}"),
            };
            // Another question may have this name.
            if self.given.insert(name.clone()) {
                return name;
            }
        }
    }
}

impl RequestChannel for Replay {
    fn ask(&self, question: Question) -> BoxFuture<'static, Result<Json, AskError>> {
        let mut question_log = self.question_log.lock();
        let name = question_log.name(&question);
        let item = match question_log.answers.get(&name).cloned() {
            Some(answer) => match check_answer(&question.request, &answer) {
                Ok(()) => {
                    question_log.used.insert(name);
                    return Box::pin(std::future::ready(read_answer(answer)));
                }
                Err(error) => OutboxItem::InvalidAnswer(error.into()),
            },
            None => OutboxItem::InputRequired {
                name: name.clone(),
                request: question.request.as_str().to_owned(),
            },
        };
        drop(question_log);
        self.outbox.push(item);
        let open = Open {
            outbox: Arc::clone(&self.outbox),
            name,
        };
        Box::pin(async move {
            let _open = open;
            // The run ends here; the next one has the answer.
            std::future::pending().await
        })
    }

    fn send(&self, message: ToolMessage) {
        self.outbox.push_message(message);
    }
}
