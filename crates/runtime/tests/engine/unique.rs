//! Of a tool with a unique value one task is live.

use crate::support::{CallOf, World, guarded, scope, settle, text};
use longhaul_core::{Json, Outcome, Principal, store::CreateError};
use longhaul_runtime::{Call, Engine, ExecutionEnd, OperatorError, ToolSettings};
use std::sync::Arc;

fn by_branch(tool: &mut ToolSettings) {
    tool.unique = Some(Arc::new(|arguments: &Json| {
        let arguments: serde_json::Value = serde_json::from_str(arguments.as_str()).unwrap();
        arguments["branch"].to_string()
    }));
}

fn deploy(engine: &Engine, arguments: &str) -> Call {
    Call {
        arguments: Json::trusted(arguments),
        ..engine.call("a")
    }
}

const MAIN: &str = r#"{"branch":"main"}"#;
const FORCED: &str = r#"{"branch":"main","force":true}"#;

/// A plain call, whose id nobody knew, is announced before a refusal names it. Its caller may go.
#[tokio::test]
async fn the_same_calls_wait_for_one_and_others_learn_of_it() {
    let world = World::in_memory().with_slots(4);
    let (engine, mut runs) = world.playing(by_branch).await;
    let first = engine.begin(deploy(&engine, MAIN)).await.unwrap();
    let (id, run) = (first.id().clone(), runs.next().await);
    first.handle().leave();
    drop(first);
    let mut again = engine.begin(deploy(&engine, r#"{ "branch": "main" }"#)).await.unwrap();
    assert_eq!(*again.id(), id);
    assert_eq!(engine.get(&scope(), &id).await, Ok(None), "it is not announced");

    let mut theirs = deploy(&engine, MAIN);
    theirs.owner.principal = Principal::named("another");
    let refused = engine.create(theirs).await;
    assert_eq!(refused, Err(CreateError::NotUnique { live: None }));
    assert_eq!(engine.get(&scope(), &id).await, Ok(None), "nothing was said of it");
    let refused = engine.begin(deploy(&engine, FORCED)).await.map(|_| ());
    let live = Some(id.clone());
    assert_eq!(refused, Err(CreateError::NotUnique { live }));
    assert!(engine.get(&scope(), &id).await.unwrap().is_some());
    assert_eq!(engine.create(deploy(&engine, MAIN)).await.unwrap().id, id);
    // A call with bad arguments is over at once, and never in the way.
    let ended = engine
        .create_ended(deploy(&engine, MAIN), Outcome::tool_error("bad"))
        .await;
    assert_ne!(ended.unwrap().id, id);
    let other = engine.create(deploy(&engine, r#"{"branch":"next"}"#)).await.unwrap();
    assert_eq!(runs.next().await.attempt.task, other.id);
    settle().await;
    assert!(runs.started().is_none());

    run.finish("deployed");
    let outcome = guarded("the end", again.ended(|_| ())).await;
    assert_eq!(outcome, Ok(text("deployed")));
    assert_ne!(engine.create(deploy(&engine, FORCED)).await.unwrap().id, id);
}

/// It would not be a retry.
#[tokio::test]
async fn a_retry_of_an_operator_joins_nothing() {
    let world = World::in_memory().with_slots(2);
    let (engine, mut runs) = world.playing(by_branch).await;
    let failed = engine.create(deploy(&engine, MAIN)).await.unwrap();
    runs.next()
        .await
        .end(ExecutionEnd::Errored(Outcome::tool_error("exit 1")));
    world.outcome(&engine, &failed.id).await;
    let live = engine.create(deploy(&engine, MAIN)).await.unwrap();
    let run = runs.next().await;
    let refused = OperatorError::Create(CreateError::NotUnique {
        live: Some(live.id.clone()),
    });
    assert_eq!(engine.retry_any(&failed.id).await, Err(refused));
    run.finish("deployed");
    world.outcome(&engine, &live.id).await;
    let retry = engine.retry_any(&failed.id).await.unwrap();
    assert_eq!(engine.retry_any(&failed.id).await.unwrap().id, retry.id, "made once");
}
