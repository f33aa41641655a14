//! The cases by name.

use super::{World, plain_id};
use crate::contract::fixture::{answered, asked, block, fence, finished, host, step};
use longhaul_core::{
    AttemptEnd, CancelMode, Event, Lineage, Outcome, StopReason, Store, UnixMillis,
    store::{Claim, Idempotency, NewTask, ParentEntry},
};

/// How many syncs each of a task's changes costs, its creation first.
#[test]
fn only_tasks_that_are_unknown_outside_cost_no_sync() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let world = World::new(false).await;
        let ended = || finished("done");
        let report = || Event::Reported {
            status: Some("line".into()),
            progress: None,
        };
        let failed = || {
            Event::AttemptEnded(AttemptEnd::Failed {
                outcome: Outcome::tool_error("no"),
                retry_at: Some(UnixMillis(2)),
                asks_again: false,
            })
        };
        let never = Event::AttemptEnded(AttemptEnd::NeverStarted { retry_at: None });
        let stopped = || Event::AttemptEnded(AttemptEnd::Stopped(StopReason::Cancel));
        let cancel = |mode| Event::CancelRequested(mode);
        let suspended = Event::AttemptEnded(AttemptEnd::Suspended { until: None, woken: 0 });
        let plain = || world.plain(0);
        let with = |change: fn(&mut NewTask)| {
            let mut new = plain();
            change(&mut new);
            new
        };
        let cases = [
            (
                "a plain call",
                plain(),
                vec![(Event::Started, 0), (report(), 0), (ended(), 0)],
                0,
            ),
            ("that fails and is tried again", plain(), vec![(failed(), 0)], 0),
            ("that could not be started", plain(), vec![(never, 0)], 0),
            ("that waits for a slot", with(|new| new.claim = None), vec![], 0),
            ("that is promoted", plain(), vec![(Event::Promoted, 1), (ended(), 1)], 0),
            (
                "that ends before it is promoted",
                plain(),
                vec![(ended(), 0), (Event::Promoted, 0)],
                0,
            ),
            (
                "that asks",
                plain(),
                vec![(asked(1), 1), (answered(1, "yes"), 1), (ended(), 1)],
                0,
            ),
            (
                "of a durable tool",
                plain(),
                vec![(Event::Journaled(step(1, "one")), 1), (ended(), 1)],
                0,
            ),
            ("that is suspended", plain(), vec![(suspended, 1)], 0),
            ("that is blocked", plain(), vec![(block("v2", 5, 9), 1)], 0),
            (
                "whose caller has disconnected",
                plain(),
                vec![(cancel(CancelMode::AtOnce), 1), (stopped(), 1)],
                0,
            ),
            (
                "that is asked to stop",
                plain(),
                vec![(cancel(CancelMode::Cooperative), 1), (stopped(), 1)],
                0,
            ),
            (
                "that passes its deadline",
                with(|new| new.header.deadline = Some(1)),
                vec![(Event::DeadlinePassed, 1), (ended(), 1)],
                0,
            ),
            (
                "of a command",
                with(|new| new.claim = Some((new.front, Some(host())))),
                vec![(Event::Started, 1), (report(), 0), (ended(), 0)],
                1,
            ),
            (
                "that can be come back for",
                with(|new| {
                    new.idempotency = Some(Idempotency {
                        key: "key".into(),
                        digest: [0; 32],
                    });
                }),
                vec![(ended(), 1)],
                1,
            ),
            (
                "a task",
                with(|new| new.announced = true),
                vec![(report(), 1), (ended(), 1)],
                1,
            ),
        ];
        for (nth, (name, mut new, changes, creation)) in cases.into_iter().enumerate() {
            new.header.id = plain_id(nth);
            let (task, syncs) = world.syncs(world.create(new)).await;
            assert_eq!(syncs, creation, "{name}: its creation");
            for (event, expected) in changes {
                let what = event.name();
                let (_, syncs) = world.syncs(world.apply(&task, event)).await;
                assert_eq!(syncs, expected, "{name}: {what}");
            }
        }
    });
}

/// Starting a child makes its parent synced; a claim leaves a task deferred.
#[test]
fn a_parent_is_synced_and_a_claimed_task_is_not() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let world = World::new(false).await;
        let (parent, syncs) = world.syncs(world.create(world.plain(1))).await;
        assert_eq!(syncs, 0);
        let mut new = world.plain(2);
        new.header.lineage = Some(Lineage {
            parent: parent.id.clone(),
            entry: 1,
            root: parent.id.clone(),
            depth: 1,
        });
        new.parent = Some(ParentEntry {
            fence: fence(&parent),
            entry: step(1, "child"),
        });
        let (child, syncs) = world.syncs(world.create(new)).await;
        assert_eq!(syncs, 1);
        for task in [child, parent] {
            assert_eq!(world.syncs(world.apply(&task, finished("done"))).await.1, 1);
        }
        let mut queued = world.plain(3);
        queued.claim = None;
        world.create(queued).await;
        let claim = Claim {
            tool: "tool".into(),
            node: world.node,
            host: None,
            limit: 9,
            at: UnixMillis(9),
        };
        let (claimed, syncs) = world.syncs(world.store.claim(claim)).await;
        let claimed = claimed.unwrap().remove(0).task;
        assert_eq!(syncs, 1);
        assert_eq!(world.syncs(world.apply(&claimed, finished("done"))).await.1, 0);

        let mut queued = world.plain(4);
        queued.claim = None;
        world.create(queued).await;
        let claim = Claim {
            tool: "tool".into(),
            node: world.node,
            host: Some(host()),
            limit: 9,
            at: UnixMillis(9),
        };
        let claimed = world.store.claim(claim).await.unwrap().remove(0).task;
        for (event, expected) in [(Event::Started, 1), (finished("done"), 0)] {
            let what = event.name();
            let (_, syncs) = world.syncs(world.apply(&claimed, event)).await;
            assert_eq!(syncs, expected, "of a command that waited for a slot: {what}");
        }
    });
}

/// A task of an earlier process is not known to be deferrable.
#[test]
fn after_a_restart_everything_is_synced() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let world = World::new(false).await;
        let task = world.create(world.plain(1)).await;
        let World { disk, store, node, .. } = world;
        drop(store);
        let store = disk.open();
        let next = store.open_node(&host(), UnixMillis(1)).await.unwrap();
        let orphaned_calls = store.orphaned_calls(next, 9).await.unwrap();
        assert_eq!(
            orphaned_calls.iter().map(|task| &task.id).collect::<Vec<_>>(),
            [&task.id]
        );
        let world = World::of(disk, store, node);
        assert_eq!(world.syncs(world.apply(&task, finished("done"))).await.1, 1);
    });
}
