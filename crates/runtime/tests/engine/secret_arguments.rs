//! Secret arguments: the store never has them in the clear, and each attempt has them.

use crate::support::{CallOf, Runs, World, retry};
use longhaul_core::{Failure, Json, Outcome, RetryOn, State, TaskId, store::CreateError};
use longhaul_runtime::{ArgumentCipher, Call, DecryptError, Engine, ExecutionEnd, OperatorError};
use std::sync::Arc;

/// Writes each character as its number, behind the number of its key and its context.
struct Numbers(u8);

impl ArgumentCipher for Numbers {
    fn encrypt(&self, value: &str, context: &[u8]) -> String {
        let numbers: Vec<_> = value
            .bytes()
            .chain(context.iter().copied())
            .map(|byte| byte.to_string())
            .collect();
        format!("{} {} {}", self.0, value.len(), numbers.join(" "))
    }

    fn decrypt(&self, encrypted: &str, context: &[u8]) -> Result<String, DecryptError> {
        let wrong = || DecryptError("another key".to_owned());
        let numbers: Option<Vec<usize>> = encrypted.split(' ').map(|number| number.parse().ok()).collect();
        let Some([key, length, bytes @ ..]) = numbers.as_deref() else {
            return Err(wrong());
        };
        let (value, with) = bytes.split_at_checked(*length).ok_or_else(wrong)?;
        let read = |bytes: &[usize]| {
            bytes
                .iter()
                .map(|byte| u8::try_from(*byte).unwrap())
                .collect::<Vec<_>>()
        };
        match *key == usize::from(self.0) && read(with) == context {
            true => Ok(String::from_utf8(read(value)).unwrap()),
            false => Err(wrong()),
        }
    }
}

const FIRST: &str = r#"{"note":"n","token":"tok-1"}"#;
const OTHER: &str = r#"{"note":"n","token":"tok-2"}"#;

fn world() -> World {
    let mut world = World::in_memory();
    world.cipher = Some(Arc::new(Numbers(1)));
    world
}

/// A server whose tool `a` has the secret argument `token`.
async fn start(world: &World) -> (Engine, Runs) {
    let play = world.playing(|settings| {
        settings.secrets = ["token".to_owned()].into();
        settings.retry = retry(3, 0, [RetryOn::Crash]);
        settings.input_schema =
            serde_json::json!({"type": "object", "properties": {"note": {}, "token": {"type": "string"}}});
    });
    play.await
}

fn call(engine: &Engine, arguments: &str, key: Option<&str>) -> Call {
    Call {
        arguments: Json::trusted(arguments),
        idempotency_key: key.map(Into::into),
        ..engine.call("a")
    }
}

async fn stored(world: &World, task: &TaskId) -> String {
    let stored = world.store.arguments(task).await.unwrap().unwrap();
    assert!(!stored.as_str().contains("tok-"), "{stored:?}");
    stored.as_str().to_owned()
}

fn done() -> ExecutionEnd {
    ExecutionEnd::Finished(Outcome::tool_error("no"))
}

#[tokio::test]
async fn each_attempt_has_them_and_the_store_has_them_encrypted() {
    let world = world();
    let (engine, mut runs) = start(&world).await;
    let task = engine.create(call(&engine, FIRST, None)).await.unwrap();
    assert!(stored(&world, &task.id).await.contains(r#""note":"n""#));
    let run = runs.next().await;
    assert_eq!(run.attempt.arguments.as_str(), FIRST);
    run.end(ExecutionEnd::Crashed);
    let run = runs.next().await;
    assert_eq!((run.attempt.epoch, run.attempt.arguments.as_str()), (2, FIRST));
    run.end(done());
    world.until(&engine, &task.id, longhaul_core::Task::is_done).await;

    // Made again by an operator it is another task, which has them encrypted for itself.
    let again = engine.retry_any(&task.id).await.unwrap();
    assert_ne!(stored(&world, &again.id).await, stored(&world, &task.id).await);
    assert_eq!(runs.next().await.attempt.arguments.as_str(), FIRST);
    assert_eq!(engine.retry_any(&task.id).await.unwrap().id, again.id);
    // A call that is only waited for, which no store would have.
    let waiting = engine.begin(call(&engine, OTHER, None)).await.unwrap();
    assert_eq!(runs.next().await.attempt.arguments.as_str(), OTHER);
    drop(waiting);
}

#[tokio::test]
async fn a_call_made_again_is_known_by_its_secrets_too() {
    let world = world();
    let (engine, mut runs) = start(&world).await;
    let first = engine.create(call(&engine, FIRST, Some("k"))).await.unwrap();
    let _run = runs.next().await;
    let local = longhaul_core::Principal::local();
    let find = async |arguments: &str| {
        let found = engine.find_repeated(&local, "a", "k", &Json::trusted(arguments)).await;
        found.unwrap().map(|task| task.id.clone())
    };
    assert_eq!(find(FIRST).await.as_ref(), Some(&first.id));
    assert_eq!(find(OTHER).await, None);
    assert_eq!(find(r#"{"note":"n"}"#).await, None);
    // Whether the tool is still there, and whatever it says of its arguments now.
    engine.remove_tool("a");
    assert_eq!(find(FIRST).await.as_ref(), Some(&first.id));
    assert_eq!(find(OTHER).await, None);
    let (engine, _runs) = start(&world).await;
    let same = engine.create(call(&engine, FIRST, Some("k"))).await.unwrap();
    assert_eq!(same.id, first.id);
    for (kind, made) in [
        ("task", engine.create(call(&engine, OTHER, Some("k"))).await.map(drop)),
        ("call", engine.begin(call(&engine, OTHER, Some("k"))).await.map(drop)),
    ] {
        assert_eq!(made, Err(CreateError::IdempotencyKeyConflict), "{kind}");
    }
}

#[tokio::test]
async fn arguments_that_were_refused_are_stored_as_little() {
    let world = world();
    let (engine, _runs) = start(&world).await;
    let wrong = call(&engine, r#"{"note":1,"token":"tok-1","tokn":"tok-2"}"#, None);
    let task = engine.create_ended(wrong, Outcome::tool_error("no")).await.unwrap();
    assert!(stored(&world, &task.id).await.contains(r#""note":1"#));
}

#[tokio::test]
async fn without_the_key_an_attempt_does_not_begin() {
    let mut world = world();
    let (engine, mut runs) = start(&world).await;
    let task = engine.create(call(&engine, FIRST, None)).await.unwrap();
    runs.next().await.end(ExecutionEnd::NeverStarted("later".to_owned()));
    world.reaches(&engine, &task.id, State::Queued).await;
    engine.stop();
    world.cipher = Some(Arc::new(Numbers(2)));
    let (engine, mut runs) = start(&world).await;
    world.clock.advance(3_600_000);
    let why = "its secret argument `token` cannot be decrypted: another key";
    let outcome = world.outcome(&engine, &task.id).await;
    assert_eq!(outcome, Failure::Unavailable(why.to_owned()).into());
    assert!(matches!(
        engine.retry_any(&task.id).await,
        Err(OperatorError::NotNow(_))
    ));
    let newer = engine.create(call(&engine, OTHER, None)).await.unwrap();
    assert_eq!(runs.next().await.attempt.task, newer.id);
}
