//! Who may speak for an attempt.

use crate::support::{CallOf, Script, World, guarded, settle, text, tool};
use longhaul_core::{Json, State};

#[tokio::test]
async fn invariant_3_a_stale_worker_is_refused() {
    let world = World::in_memory();
    let ((older_script, mut older_runs), (newer_script, mut newer_runs)) = (Script::new(), Script::new());
    let older = world.start([tool("a", older_script)]).await;
    let task = older.create(older.call("a")).await.unwrap();
    let stale = older_runs.next().await;
    let (newer, recovered) = world.start_and_recover([tool("a", newer_script)]).await;
    assert_eq!(recovered.attempts, 1);
    let run = newer_runs.next().await;
    assert!(run.resumed && run.attempt.epoch == stale.attempt.epoch);

    stale.cx.status("I am still here");
    assert!(guarded("a refusal", stale.cx.ask(Json::trusted("{}"))).await.is_err());
    stale.finish("stale");
    settle().await;
    let now = world.task(&task.id).await;
    let expected = (State::Running, None, 0);
    assert_eq!((now.state, now.status, now.open_inputs.len()), expected);

    run.finish("fresh");
    assert_eq!(world.outcome(&newer, &task.id).await, text("fresh"));
    assert_eq!(older.running(), 0, "the older one has let go");
}
