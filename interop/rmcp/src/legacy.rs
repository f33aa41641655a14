//! The era of 2025-11-25. This SDK has no Tasks there: a plain call waits.

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
    steps.run(ERA, "the version is agreed", agreed(session)).await;
    steps.run(ERA, "list tools", list(session)).await;
    steps.run(ERA, "call", greet(session)).await;
    steps.run(ERA, "a slow tool is waited for", slow(session)).await;
    steps.run(ERA, "progress", progress(session, &user)).await;
    steps.run(ERA, "answer a question", elicit(session, &user)).await;
    steps.run(ERA, "sample", sample(session)).await;
    steps.run(ERA, "read a resource", read(session)).await;
}

async fn agreed(session: &Session) -> Result<(), Deviation> {
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
    let said = text(&call(session, "greet", json!({"name": "Ada"})).await?);
    ensure!(said == "Hello, Ada!", said);
    Ok(())
}

async fn slow(session: &Session) -> Result<(), Deviation> {
    let result = call(session, "slow_compute", json!({"seconds": 1, "label": "plain"})).await?;
    ensure!(result.is_error != Some(true), result);
    Ok(())
}

async fn progress(session: &Session, user: &User) -> Result<(), Deviation> {
    call(session, "test_tool_with_progress", json!({})).await?;
    let seen = user.progress();
    ensure!(seen == [0.0, 50.0, 100.0], seen);
    Ok(())
}

async fn elicit(session: &Session, user: &User) -> Result<(), Deviation> {
    let before = user.asked().len();
    let said = text(&call(session, "test_elicitation", json!({"message": "Who is there?"})).await?);
    ensure!(said.contains("accept"), said);
    let asked = user.asked().split_off(before);
    ensure!(asked == ["Who is there?"], asked);
    Ok(())
}

async fn sample(session: &Session) -> Result<(), Deviation> {
    let said = text(
        &call(
            session,
            "test_sampling",
            json!({"prompt": "What is the capital of France?"}),
        )
        .await?,
    );
    ensure!(said.contains("Paris"), said);
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
