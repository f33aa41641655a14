//! Asking a modern client: the handler is run again from its start each time its client comes back, with all answers so far (U-10).

use super::outbox::{Outbox, OutboxItem};
use crate::interaction::{
    input_requests,
    rounds::{Round, State},
};
use longhaul_core::{BoxFuture, Json};
use longhaul_runtime::{AskError, Question, RequestChannel, ToolMessage, read_answer};
use parking_lot::{Mutex, MutexGuard};
use serde_json::value::RawValue;
use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    sync::Arc,
};

/// One run of a handler.
pub(super) struct Replay {
    book: Mutex<Book>,
    outbox: Arc<Outbox>,
}

/// What is known of the questions of this run.
#[derive(Default)]
struct Book {
    /// By name.
    answers: BTreeMap<String, Json>,
    /// The names of those that the handler has used.
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
    /// In a first request that is anything, since nobody knows yet what will be asked.
    pub(super) fn of(round: &mut Round, outbox: Arc<Outbox>) -> Self {
        let mut answers = std::mem::take(&mut round.answers);
        if let Some(State::Handler {
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
        let book = Book {
            answers,
            ..Book::default()
        };
        Self {
            book: Mutex::new(book),
            outbox,
        }
    }

    /// The state for the next round, which these questions ask.
    pub(super) fn state(&self, asked: impl IntoIterator<Item = String>) -> State {
        let book = self.lock();
        let raw = |answer: &Json| RawValue::from_string(answer.as_str().to_owned()).ok();
        let used = book.answers.iter().filter(|(name, _)| book.used.contains(*name));
        State::Handler {
            answers: used
                .filter_map(|(name, answer)| Some((name.clone(), raw(answer)?)))
                .collect(),
            asked: asked.into_iter().collect(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Book> {
        self.book.lock()
    }
}

impl Book {
    /// The name of the next question. The order of asking is the same in every run, so the names are.
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
        let mut book = self.lock();
        let name = book.name(&question);
        let line = match book.answers.get(&name).cloned() {
            Some(answer) => match input_requests::check(&question.request, &answer) {
                Ok(()) => {
                    book.used.insert(name);
                    return Box::pin(std::future::ready(read_answer(answer)));
                }
                Err(error) => OutboxItem::InvalidAnswer(error),
            },
            None => OutboxItem::InputRequired {
                name: name.clone(),
                request: question.request.as_str().to_owned(),
            },
        };
        drop(book);
        self.outbox.push(line);
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

    fn send(&self, said: ToolMessage) {
        self.outbox.say(said);
    }
}
