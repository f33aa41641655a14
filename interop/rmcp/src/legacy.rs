//! Protocol version 2025-11-25. The SDK does not support its Tasks: a call blocks until its result.

use crate::{
    call::{call, text},
    session::{Server, Session},
    steps::{Deviation, Steps, ensure},
    user::User,
};
use rmcp::{
    ClientLifecycleMode,
    model::{ProtocolVersion, ReadResourceRequestParams},
};
use serde_json::json;

const ERA: &str = "2025-11-25";

pub(crate) async fn run(server: &Server, steps: &mut Steps) {
    let user = User::default();
    let connected = server.connect(user.clone(), ClientLifecycleMode::Initialize);
    let Some(session) = steps.run(ERA, "connect", connected).await else {
        return;
    };
    let session = &session;
    steps.run(ERA, "the version is agreed", version(session)).await;
    steps.run(ERA, "list tools", list(session)).await;
    steps.run(ERA, "call", greet(session)).await;
    steps.run(ERA, "a slow tool is waited for", slow(session)).await;
    steps.run(ERA, "progress", progress(session, &user)).await;
    steps.run(ERA, "answer a question", elicit(session, &user)).await;
    steps.run(ERA, "sample", sample(session)).await;
    steps.run(ERA, "read a resource", read(session)).await;
}

async fn version(session: &Session) -> Result<(), Deviation> {
    let version = session.peer_info().map(|peer| peer.protocol_version.clone());
    ensure!(version == Some(ProtocolVersion::V_2025_11_25), version);
    Ok(())
}

async fn list(session: &Session) -> Result<(), Deviation> {
    let tools = session.list_all_tools().await?;
    for name in ["greet", "slow_compute", "failing_job", "test_simple_text"] {
        ensure!(tools.iter().any(|tool| tool.name == name), name);
    }
    Ok(())
}

async fn greet(session: &Session) -> Result<(), Deviation> {
    let reply = text(&call(session, "greet", json!({"name": "Ada"})).await?);
    ensure!(reply == "Hello, Ada!", reply);
    Ok(())
}

async fn slow(session: &Session) -> Result<(), Deviation> {
    let result = call(session, "slow_compute", json!({"seconds": 1, "label": "plain"})).await?;
    ensure!(result.is_error != Some(true), result);
    Ok(())
}

async fn progress(session: &Session, user: &User) -> Result<(), Deviation> {
    call(session, "test_tool_with_progress", json!({})).await?;
    let progress = user.progress();
    ensure!(progress == [0.0, 50.0, 100.0], progress);
    Ok(())
}

async fn elicit(session: &Session, user: &User) -> Result<(), Deviation> {
    let before = user.asked().len();
    let reply = text(&call(session, "test_elicitation", json!({"message": "Who is there?"})).await?);
    ensure!(reply.contains("accept"), reply);
    let asked = user.asked().split_off(before);
    ensure!(asked == ["Who is there?"], asked);
    Ok(())
}

async fn sample(session: &Session) -> Result<(), Deviation> {
    let reply = text(
        &call(
            session,
            "test_sampling",
            json!({"prompt": "What is the capital of France?"}),
        )
        .await?,
    );
    ensure!(reply.contains("Paris"), reply);
    Ok(())
}

async fn read(session: &Session) -> Result<(), Deviation> {
    let read = session
        .read_resource(ReadResourceRequestParams::new("test://static-text"))
        .await?;
    let read = serde_json::to_value(read)?;
    let wanted = "This is the content of the static text resource.";
    ensure!(read["contents"][0]["text"] == wanted, read);
    Ok(())
}
