//! Questions as requests to a legacy client.

use super::push_task_ref;
use crate::{
    envelope::{write_notification, write_request},
    error::RpcError,
    json,
    meta::RELATED_TASK,
    params::TaskWish,
    question::Question,
    splice::{Edit, splice},
};
use longhaul_core::{Json, TaskId};

/// One delivery of a question. What sends a person to a URL has an `elicitationId`, under which its end is announced
/// ([`write_elicitation_complete`], C-32): its own if it has one, else the request's id.
#[derive(Debug, Clone, Copy)]
pub struct Delivery<'a> {
    /// The request's id, fresh for each delivery: unguessable where an answer comes on a connection of its own (C-51).
    pub id: &'a str,
    /// The question, `{"method":…,"params":…}`.
    pub question: &'a str,
    /// The task that asks; none for a call that is not one (G1-36).
    pub task: Option<&'a TaskId>,
    /// Lets the client make a task of it, if it has declared that it can (G1-57). Not for roots.
    pub hosted: Option<TaskWish>,
}

impl Delivery<'_> {
    /// Appends the request.
    ///
    /// # Errors
    /// −32603 if the question is none; nothing is appended then.
    pub fn write(&self, out: &mut String) -> Result<(), RpcError> {
        let broken = || RpcError::internal("A question of the tool cannot be asked");
        let question = Question::read(self.question).map_err(|_| broken())?;
        let (mut related, mut wish, mut elicitation) = (String::new(), String::new(), String::new());
        let mut edits = Vec::with_capacity(3);
        let tie;
        if let Some(task) = self.task {
            push_task_ref(&mut related, task);
            tie = [Edit::Set(RELATED_TASK, &related)];
            edits.push(Edit::Within("_meta", &tie));
        }
        edits.push(match self.hosted {
            Some(TaskWish { ttl }) => {
                push_wish(&mut wish, ttl);
                Edit::Set("task", &wish)
            }
            None => Edit::Remove("task"),
        });
        if question.is_url() {
            json::push_string(&mut elicitation, self.id);
            edits.push(Edit::Default("elicitationId", &elicitation));
        }
        let start = out.len();
        let mut sound = Ok(());
        write_request(out, self.id, question.method(), |out| {
            sound = splice(out, question.params(), &edits);
        });
        sound.map_err(|_| {
            out.truncate(start);
            broken()
        })
    }
}

fn push_wish(out: &mut String, ttl: Option<u64>) {
    out.push('{');
    if let Some(ttl) = ttl {
        out.push_str(r#""ttl":"#);
        json::push_int(out, ttl);
    }
    out.push('}');
}

/// Takes a client's answer apart from the task it names, so that it is kept as any generation would have given it (C-23).
///
/// # Errors
/// −32602 if the answer is no object.
pub fn strip_related_task(answer: &str) -> Result<Json, RpcError> {
    let mut out = String::with_capacity(answer.len());
    splice(
        &mut out,
        answer,
        &[Edit::Within("_meta", &[Edit::Remove(RELATED_TASK)])],
    )
    .map_err(|_| RpcError::invalid_params("An answer must be an object"))?;
    Ok(Json::trusted(out))
}

/// Appends `notifications/elicitation/complete`: the flow behind a URL has ended.
pub fn write_elicitation_complete(out: &mut String, elicitation_id: &str) {
    write_notification(out, "notifications/elicitation/complete", |out| {
        out.push_str(r#"{"elicitationId":"#);
        json::push_string(out, elicitation_id);
        out.push('}');
    });
}
