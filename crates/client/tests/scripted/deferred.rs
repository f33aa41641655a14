//! Questions of legacy tasks that are answered by their handles, without a journal.
#![expect(clippy::disallowed_methods, reason = "real sockets are not simulated")]

use crate::{
    legacy_questions::{Script, said, server},
    peer::Peer,
};
use futures_util::StreamExt;
use longhaul_client::{
    CallError, CallStatus, Client, InputHandler, InputResponse, Inputs, Outcome, RequestError, RunningCall, TaskHandle,
};
use serde_json::{Value, json};
use std::{
    pin::pin,
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::sync::Semaphore;

const PATIENCE: Duration = Duration::from_secs(60);

async fn within<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, work).await.expect("bounded time")
}

async fn start(peer: &Peer, inputs: impl Into<Arc<dyn InputHandler>>) -> RunningCall {
    let inputs = inputs.into();
    let (connection, _) = peer.connection_with(|options| options.inputs = Some(inputs));
    Client::new(connection).start("optional", Value::Null).await.unwrap()
}

/// Answers each question that the status shows with its number.
async fn answer_all(call: &RunningCall) {
    let (mut status, mut answered) = (pin!(call.status()), Vec::new());
    while let Some(status) = status.next().await {
        let CallStatus::Task(task) = status else { continue };
        for question in &task.input_requests {
            let key = question.key.clone().unwrap();
            if !answered.contains(&key) {
                let said = json!({"said": answered.len()});
                call.answer(&key, InputResponse::accept(said)).await.unwrap();
                answered.push(key);
            }
        }
    }
}

#[tokio::test]
async fn the_status_of_a_call_shows_what_a_legacy_task_asks_and_the_call_answers_it() {
    let script = Script::asking(&[(None, "Next file?"), (Some(json!(7)), "Proceed?"), (None, "Next file?")]);
    let peer = server("t-1", &script);
    let call = start(&peer, Inputs::deferred()).await;
    within(answer_all(&call)).await;
    assert!(matches!(call.result().await, Ok(Outcome::Result { .. })));
    assert_eq!(said(&script), [json!(0), json!(1), json!(2)]);
}

/// The questions of the task, once there are any.
async fn questions(task: &TaskHandle) -> Vec<(String, String)> {
    loop {
        let asked = task.questions().await.unwrap();
        if !asked.is_empty() {
            let shown = asked
                .iter()
                .map(|question| (question.key.clone().unwrap(), question.message().to_owned()));
            return shown.collect();
        }
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn the_handle_of_a_legacy_task_lists_what_it_asks_and_answers_it() {
    let script = Script::asking(&[(None, "Proceed?")]);
    let peer = server("t-1", &script);
    let call = start(&peer, Inputs::deferred()).await;
    let task = within(call.task()).await.unwrap();
    let asked = within(questions(&task)).await;
    assert_eq!(asked, [("q1".to_owned(), "Proceed?".to_owned())]);
    let answer = async |key: &str| {
        let answered = call.answer(key, InputResponse::accept(json!({"said": "yes"})));
        within(answered).await
    };
    let error = answer("q2").await.unwrap_err();
    assert!(
        matches!(error, CallError::Request(RequestError::NotAsked { .. })),
        "{error}"
    );
    answer("q1").await.unwrap();
    assert!(matches!(within(call.result()).await, Ok(Outcome::Result { .. })));
    assert_eq!(said(&script), [json!("yes")]);
}

/// The server says why it does not take an answer, and asks again.
#[tokio::test]
async fn an_answer_that_the_server_refuses_is_an_error() {
    let script = Script::asking(&[(None, "Proceed?")]);
    script.lock().unwrap().refuse(Some(400));
    let peer = server("t-1", &script);
    let call = start(&peer, Inputs::deferred()).await;
    let task = within(call.task()).await.unwrap();
    let asked = within(questions(&task)).await;
    let refused = within(task.answer(&asked[0].0, InputResponse::accept(json!({"said": 1})))).await;
    assert!(
        matches!(refused, Err(RequestError::Http { status: 400, .. })),
        "{refused:?}"
    );
    script.lock().unwrap().refuse(None);
    within(answer_all(&call)).await;
    assert_eq!(said(&script), [json!(0)]);
}

#[tokio::test]
async fn an_answer_by_the_handle_ends_what_the_handler_does() {
    let script = Script::asking(&[(None, "Proceed?")]);
    let peer = server("t-1", &script);
    let asked = Arc::new(Mutex::new(0));
    let seen = Arc::clone(&asked);
    let never = Inputs::new().elicit(move |_| {
        *seen.lock().unwrap() += 1;
        std::future::pending()
    });
    let call = start(&peer, never).await;
    within(answer_all(&call)).await;
    assert!(matches!(within(call.result()).await, Ok(Outcome::Result { .. })));
    assert_eq!((said(&script), *asked.lock().unwrap()), (vec![json!(0)], 1));
}

/// The server may end the task before it responds to the message with the answer.
#[tokio::test]
async fn an_answer_that_ends_its_task_is_reported_as_taken() {
    let script = Script::asking(&[(None, "Proceed?")]);
    let responds = Arc::new(Semaphore::new(0));
    script.lock().unwrap().hold(Arc::clone(&responds));
    let peer = server("t-1", &script);
    let call = start(&peer, Inputs::deferred()).await;
    let task = within(call.task()).await.unwrap();
    let asked = within(questions(&task)).await;
    let answer = task.answer(&asked[0].0, InputResponse::accept(json!({"said": 1})));
    let ended = async {
        let ended = within(call.result()).await;
        responds.add_permits(1);
        ended
    };
    let (answered, ended) = tokio::join!(within(answer), ended);
    assert!(matches!(ended, Ok(Outcome::Result { .. })), "{ended:?}");
    answered.unwrap();
}
