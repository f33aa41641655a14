//! Protocol version 2026-07-28, with the Tasks of the extension.

use crate::{
    call::{call, text},
    session::{Server, Session},
    steps::{Deviation, Steps, ensure},
    user::User,
};
use rmcp::{
    ClientLifecycleMode, ServiceError,
    model::{
        CallToolRequestParams, CallToolResponse, CallToolResult, CancelTaskParams, ErrorCode, GetTaskParams,
        InputRequest, ProtocolVersion, SubscriptionFilter, TaskPayload, UpdateTaskParams,
    },
};
use serde_json::{Value, json};
use std::time::Duration;

const ERA: &str = "2026-07-28";

pub(crate) async fn run(server: &Server, steps: &mut Steps) {
    let user = User::default();
    let lifecycle = ClientLifecycleMode::Discover {
        preferred_versions: vec![ProtocolVersion::V_2026_07_28],
    };
    let connected = server.connect(user.clone(), lifecycle);
    let Some(session) = steps.run(ERA, "connect", connected).await else {
        return;
    };
    let session = &session;
    steps.run(ERA, "list tools", list(session)).await;
    steps.run(ERA, "call", greet(session)).await;
    steps.run(ERA, "a header repeats an argument", mirror(session)).await;
    steps
        .run(ERA, "answer a question in a round", input_required(session, &user))
        .await;
    steps.run(ERA, "poll to the result", poll(session)).await;
    steps.run(ERA, "a tool that says no", tool_error(session)).await;
    steps.run(ERA, "an error of the call", protocol_error(session)).await;
    steps
        .run(ERA, "answer a question of a task", elicit(session, &user))
        .await;
    steps
        .run(ERA, "answer two questions of a task", elicit_twice(session, &user))
        .await;
    steps
        .run(ERA, "a round before the task", round_before(session, &user))
        .await;
    steps.run(ERA, "cancel", cancel(session)).await;
    steps.run(ERA, "an unknown task is an error", unknown(session)).await;
    steps.run(ERA, "hear that the tools changed", listen(session)).await;
}

async fn list(session: &Session) -> Result<(), Deviation> {
    let tools = session.list_all_tools().await?;
    for name in ["greet", "slow_compute", "failing_job", "test_simple_text"] {
        ensure!(tools.iter().any(|tool| tool.name == name), name);
    }
    Ok(())
}

async fn greet(session: &Session) -> Result<(), Deviation> {
    let result = call(session, "greet", json!({"name": "Ada"})).await?;
    ensure!(text(&result) == "Hello, Ada!", result);
    Ok(())
}

async fn mirror(session: &Session) -> Result<(), Deviation> {
    let task = create(session, "test_mirrored_argument", json!({"region": "Zürich"})).await?;
    let result = completed(poll_until_end(session, &task, &User::default()).await?)?;
    ensure!(text(&result) == "Looking in Zürich.", result);
    Ok(())
}

async fn input_required(session: &Session, user: &User) -> Result<(), Deviation> {
    let result = call(session, "test_input_required_result_elicitation", json!({})).await?;
    ensure!(text(&result) == "Hello, Ada!", result);
    ensure!(
        user.asked().last().is_some_and(|asked| asked == "What is your name?"),
        user.asked()
    );
    Ok(())
}

async fn poll(session: &Session) -> Result<(), Deviation> {
    let task = create(session, "slow_compute", json!({"seconds": 1, "label": "poll"})).await?;
    let result = completed(poll_until_end(session, &task, &User::default()).await?)?;
    ensure!(result.is_error != Some(true) && !text(&result).is_empty(), result);
    Ok(())
}

async fn tool_error(session: &Session) -> Result<(), Deviation> {
    let task = create(session, "failing_job", json!({})).await?;
    let result = completed(poll_until_end(session, &task, &User::default()).await?)?;
    ensure!(result.is_error == Some(true), result);
    Ok(())
}

async fn protocol_error(session: &Session) -> Result<(), Deviation> {
    let task = create(session, "protocol_error_job", json!({})).await?;
    let end = poll_until_end(session, &task, &User::default()).await?;
    ensure!(
        matches!(&end, TaskPayload::Failed { error } if error["code"].is_i64()),
        end
    );
    Ok(())
}

async fn elicit(session: &Session, user: &User) -> Result<(), Deviation> {
    let before = user.asked().len();
    let task = create(session, "confirm_delete", json!({"filename": "ask.txt"})).await?;
    let result = completed(poll_until_end(session, &task, user).await?)?;
    ensure!(text(&result) == "Deleted ask.txt.", result);
    ensure!(user.asked().len() == before + 1, user.asked());
    Ok(())
}

async fn elicit_twice(session: &Session, user: &User) -> Result<(), Deviation> {
    let before = user.asked().len();
    let task = create(session, "multi_input", json!({})).await?;
    let result = completed(poll_until_end(session, &task, user).await?)?;
    ensure!(text(&result) == "File: true, backup: true.", result);
    ensure!(user.asked().len() == before + 2, user.asked());
    Ok(())
}

async fn round_before(session: &Session, user: &User) -> Result<(), Deviation> {
    let mut params = CallToolRequestParams::new("test_tool_with_task");
    let first = session.call_tool_once(params.clone()).await?;
    let CallToolResponse::InputRequired(input_required) = first else {
        return Err(format!("expected a question, but saw {first:?}").into());
    };
    let mut answers = rmcp::model::InputResponses::new();
    for (key, question) in input_required.input_requests.unwrap_or_default() {
        answers.insert(key, answer(user, &question)?);
    }
    params.input_responses = Some(answers);
    params.request_state = input_required.request_state;
    let task = created(session.call_tool_once(params).await?)?;
    let result = completed(poll_until_end(session, &task, user).await?)?;
    ensure!(text(&result).contains("Ada"), result);
    Ok(())
}

async fn cancel(session: &Session) -> Result<(), Deviation> {
    let task = create(session, "slow_compute", json!({"seconds": 60, "label": "cancel"})).await?;
    session.cancel_task(CancelTaskParams::new(task.clone())).await?;
    let end = poll_until_end(session, &task, &User::default()).await?;
    ensure!(end == TaskPayload::Cancelled, end);
    // A second cancellation, of an ended task, is no error either.
    Ok(session.cancel_task(CancelTaskParams::new(task)).await?)
}

async fn unknown(session: &Session) -> Result<(), Deviation> {
    let answer = session.get_task(GetTaskParams::new("nothing")).await;
    ensure!(
        matches!(&answer, Err(ServiceError::McpError(error)) if error.code == ErrorCode::INVALID_PARAMS),
        answer
    );
    Ok(())
}

async fn listen(session: &Session) -> Result<(), Deviation> {
    let filter = SubscriptionFilter::builder().tools_list_changed().build();
    let mut subscription = session.listen(filter).await?;
    let task = create(session, "test_trigger_tool_change", json!({})).await?;
    completed(poll_until_end(session, &task, &User::default()).await?)?;
    let heard = subscription.next().await?;
    ensure!(heard.is_some(), heard);
    Ok(subscription.cancel().await?)
}

/// Calls a tool that becomes a task. Returns the id of the task.
pub(crate) async fn create(session: &Session, name: &'static str, arguments: Value) -> Result<String, Deviation> {
    let mut params = CallToolRequestParams::new(name);
    params.arguments = arguments.as_object().cloned();
    created(session.call_tool_once(params).await?)
}

fn created(answer: CallToolResponse) -> Result<String, Deviation> {
    match answer {
        CallToolResponse::Task(created) => Ok(created.task.task_id),
        other => Err(format!("expected a task, but saw {other:?}").into()),
    }
}

/// Polls a task until it ends, and answers each of its input requests once.
#[expect(clippy::disallowed_methods, reason = "a test peer has no ports")]
pub(crate) async fn poll_until_end(session: &Session, task: &str, user: &User) -> Result<TaskPayload, Deviation> {
    let mut answered = Vec::new();
    loop {
        let seen = session.get_task(GetTaskParams::new(task)).await?.task;
        if seen.status().is_terminal() {
            return Ok(seen.payload);
        }
        if let TaskPayload::InputRequired { input_requests } = seen.payload {
            let mut answers = rmcp::model::InputResponses::new();
            for (key, question) in input_requests {
                if !answered.contains(&key) {
                    answers.insert(key.clone(), answer(user, &question)?);
                    answered.push(key);
                }
            }
            session.update_task(UpdateTaskParams::new(task, answers)).await?;
        }
        let pause = seen.task.poll_interval_ms.unwrap_or(500);
        tokio::time::sleep(Duration::from_millis(pause)).await;
    }
}

fn answer(user: &User, question: &InputRequest) -> Result<Value, Deviation> {
    match question {
        InputRequest::Elicitation(request) => Ok(serde_json::to_value(user.answer(&request.params))?),
        other => Err(format!("expected a form, but saw {other:?}").into()),
    }
}

/// The result of a task that completed.
pub(crate) fn completed(end: TaskPayload) -> Result<CallToolResult, Deviation> {
    match end {
        TaskPayload::Completed { result } => Ok(serde_json::from_value(result.into())?),
        other => Err(format!("expected it to complete, but saw {other:?}").into()),
    }
}
