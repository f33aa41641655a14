//! The crash budget: crashes without forward progress block a task.

use crate::durable::{not_blocked, rpc_error};
use crate::support::{CallOf, Effects, Process, World, guarded, home, program, text};
use longhaul_core::{Clock, EndedBy, Json, RetryOn};
use longhaul_runtime::{JournalError, PollPolicy, Polled, ToolSettings};

#[tokio::test]
async fn code_that_panics_at_one_point_is_blocked_with_its_history() {
    let world = World::in_memory();
    let effects = Effects::default();
    let counted = effects.clone();
    let engine = world
        .start([not_blocked(program("bad", move |cx| {
            let counted = counted.clone();
            async move {
                counted.step(&cx, "good").await?;
                counted.happen();
                panic!("always here")
            }
        }))])
        .await;
    let task = engine.create(engine.call("bad")).await.unwrap();
    let outcome = world.outcome(&engine, &task.id).await;
    let (message, data) = rpc_error(&outcome);
    assert!(message.starts_with("5 attempts failed"), "{message}");
    assert!(
        data.contains(r#""reason":"poisoned""#) && data.matches(r#"step \"good\""#).count() >= 4,
        "{data}"
    );
    assert_eq!(effects.count(), 1 + 5, "the step once, and five tries after it");
    assert_eq!(engine.running(), 0);
}

#[test]
fn the_history_shows_when_each_attempt_failed_and_why() {
    let (directory, clock) = home();
    let effects = Effects::default();
    let bad = || {
        let effects = effects.clone();
        let mut bad = program("bad", move |cx| {
            let effects = effects.clone();
            async move {
                effects.step(&cx, "good").await?;
                match effects.happen() {
                    2 => {
                        cx.status("stays here");
                        std::future::pending().await
                    }
                    3 => Err(JournalError::OutputTooLarge { bytes: 7 }.into()),
                    _ => panic!("here"),
                }
            }
        });
        bad.blocked_timeout = 0;
        bad.retry.attempts = 3;
        bad.retry.on = vec![RetryOn::Crash, RetryOn::Error];
        bad
    };
    let id = Process::run(directory.path(), &clock, async |world| {
        let engine = world.start([bad()]).await;
        let task = engine.create(engine.call("bad")).await.unwrap();
        world.until(&engine, &task.id, |_| effects.count() == 2).await;
        task.id.clone()
    });
    clock.advance(1_000);
    Process::run(directory.path(), &clock, async |world| {
        let engine = world.start([bad()]).await;
        let outcome = world.outcome(&engine, &id).await;
        let (message, data) = rpc_error(&outcome);
        let data: serde_json::Value = serde_json::from_str(&data).unwrap();
        let history = data["history"].as_array().unwrap();
        let members = |member: &str| -> Vec<String> {
            history
                .iter()
                .map(|one| one[member].as_str().unwrap().to_owned())
                .collect()
        };
        assert_eq!(members("by"), ["crash", "error", "panic"], "{data}");
        assert!(
            members("why").iter().all(|why| why.contains(r#"after step "good""#)),
            "{data}"
        );
        assert!(members("why")[1].contains("7 bytes"), "{data}");
        assert!(
            message.ends_with(r#"it panicked after step "good": here"#),
            "the panic's own message: {message}"
        );
        // The journal has the same, the last one too.
        let page = engine.history(&world.task(&id).await, 0, 100).await.unwrap();
        let kept = page
            .found
            .iter()
            .filter_map(|(_, summary)| Some((summary.at, summary.ended_by?)));
        let now = clock.now();
        let all = [EndedBy::Crash, EndedBy::Error, EndedBy::Panic].map(|by| (now, by));
        assert_eq!(kept.collect::<Vec<_>>(), all);
    });
}

#[tokio::test]
async fn code_that_makes_forward_progress_is_never_blocked() {
    let world = World::in_memory();
    let effects = Effects::default();
    let counted = effects.clone();
    let engine = world
        .start([program("slow", move |cx| {
            let counted = counted.clone();
            async move {
                for step in 0..12 {
                    let done = counted.count();
                    counted.step(&cx, &step.to_string()).await?;
                    assert_eq!(done, counted.count(), "the process dies after each step");
                }
                Ok("there".to_owned())
            }
        })])
        .await;
    let task = engine.create(engine.call("slow")).await.unwrap();
    assert_eq!(world.outcome(&engine, &task.id).await, text("there"));
    assert_eq!(effects.count(), 12);
}

/// A tool that polls for something that is ready at the tenth poll. Each attempt polls `polls` times and crashes at the next poll.
fn polls_and_crashes(polls: u32, effects: &Effects) -> ToolSettings {
    let effects = effects.clone();
    program("polls", move |cx| {
        let effects = effects.clone();
        async move {
            let policy = PollPolicy {
                first: 0,
                ..PollPolicy::default()
            };
            let mut left = polls;
            let poll = || {
                let crashes = left == 0;
                left = left.saturating_sub(1);
                let count = if crashes { 0 } else { effects.happen() };
                async move {
                    assert!(!crashes, "the process dies here");
                    let ready = || Polled::Ready(Json::trusted(count.to_string()));
                    Ok(if count < 10 { Polled::Pending(None) } else { ready() })
                }
            };
            let seen = cx.poll_until("job", policy, poll).await?;
            Ok(seen.as_str().to_owned())
        }
    })
}

/// Each attempt overwrites the poll's entry once, which is no forward progress.
#[tokio::test]
async fn a_poll_that_crashes_after_one_check_each_time_is_blocked() {
    let world = World::in_memory();
    let effects = Effects::default();
    let engine = world.start([not_blocked(polls_and_crashes(1, &effects))]).await;
    let task = engine.create(engine.call("polls")).await.unwrap();
    let outcome = guarded("the end", world.outcome(&engine, &task.id)).await;
    assert!(rpc_error(&outcome).0.starts_with("5 attempts failed"), "{outcome:?}");
    assert_eq!(effects.count(), 5, "one poll in each attempt");
}

/// A job may run for days, and servers die meanwhile: a poll after a crash is forward progress.
#[tokio::test]
async fn a_poll_that_continues_after_each_crash_is_never_blocked() {
    let world = World::in_memory();
    let effects = Effects::default();
    let mut tool = polls_and_crashes(2, &effects);
    tool.retry.attempts = 2;
    let engine = world.start([tool]).await;
    let task = engine.create(engine.call("polls")).await.unwrap();
    assert_eq!(guarded("the end", world.outcome(&engine, &task.id)).await, text("10"));
}
