//! A user who answers everything, and remembers what was asked.

use longhaul_client::{FieldKind, FormField, InputRequest, InputResponse, Inputs};
use parking_lot::Mutex;
use serde_json::{Map, Value, json};
use std::sync::Arc;
use tokio::sync::watch;

/// A user who answers everything.
#[derive(Clone, Default)]
pub(crate) struct User(Arc<State>);

struct State {
    asked: Mutex<Vec<InputRequest>>,
    declines: Mutex<bool>,
    /// How many questions were asked, and how many there must be before one is answered.
    count: watch::Sender<usize>,
    wanted: Mutex<usize>,
    /// How many questions of tasks are open.
    open: watch::Sender<usize>,
}

/// A question of a task, until it is answered or withdrawn.
struct OpenQuestion(Arc<State>);

impl OpenQuestion {
    fn new(state: &Arc<State>) -> Self {
        state.open.send_modify(|open| *open += 1);
        Self(Arc::clone(state))
    }
}

impl Drop for OpenQuestion {
    fn drop(&mut self) {
        self.0.open.send_modify(|open| *open -= 1);
    }
}

impl Default for State {
    fn default() -> Self {
        Self {
            asked: Mutex::default(),
            declines: Mutex::default(),
            count: watch::Sender::new(0),
            wanted: Mutex::default(),
            open: watch::Sender::new(0),
        }
    }
}

impl User {
    pub(crate) fn inputs(&self) -> Inputs {
        let user = self.clone();
        Inputs::new()
            .elicit(move |question| {
                let user = user.clone();
                async move { Ok(user.answer(question).await) }
            })
            .sample(false, |_| async {
                let content = json!({"type": "text", "text": "Paris"});
                let answer =
                    json!({"role": "assistant", "model": "a-model", "stopReason": "endTurn", "content": content});
                Ok(InputResponse::result(answer))
            })
            .roots([("file:///srv/data", "data")])
    }

    /// Forgets what was asked. From now on the user declines, or agrees; and answers nothing before there are `together` questions.
    pub(crate) fn expect(&self, declines: bool, together: usize) {
        self.0.asked.lock().clear();
        *self.0.declines.lock() = declines;
        *self.0.wanted.lock() = together;
        self.0.count.send_replace(0);
    }

    /// The questions since then.
    pub(crate) fn asked(&self) -> Vec<InputRequest> {
        self.0.asked.lock().clone()
    }

    /// Waits for the first question.
    pub(crate) async fn is_asked(&self) {
        let _ = self.0.count.subscribe().wait_for(|count| *count > 0).await;
    }

    /// Waits until every question that names its task is answered or withdrawn.
    pub(crate) async fn has_no_open_question(&self) {
        let _ = self.0.open.subscribe().wait_for(|open| *open == 0).await;
    }

    async fn answer(&self, question: InputRequest) -> InputResponse {
        let _open = question.task.is_some().then(|| OpenQuestion::new(&self.0));
        self.0.asked.lock().push(question.clone());
        self.0.count.send_modify(|count| *count += 1);
        let wanted = *self.0.wanted.lock();
        let _ = self.0.count.subscribe().wait_for(|count| *count >= wanted).await;
        match *self.0.declines.lock() {
            true => InputResponse::decline(),
            false => InputResponse::accept(filled_in(&question)),
        }
    }
}

/// An answer that fits the form: its defaults, or else the simplest values.
fn filled_in(question: &InputRequest) -> Map<String, Value> {
    let mut content = question.defaults();
    let fields = question.form().and_then(Result::ok).map(|form| &form.fields[..]);
    for field in fields.into_iter().flatten().filter(|field| field.is_required) {
        content.entry(field.name.clone()).or_insert_with(|| value_for(field));
    }
    content
}

fn value_for(field: &FormField) -> Value {
    match &field.kind {
        FieldKind::Boolean => json!(true),
        FieldKind::Integer | FieldKind::Number => json!(5),
        FieldKind::Choices(_) => json!([]),
        FieldKind::Choice(choices) | FieldKind::NamedChoice(choices) => json!(choices[0].value),
        FieldKind::Text { .. } => json!("Ada"),
    }
}
