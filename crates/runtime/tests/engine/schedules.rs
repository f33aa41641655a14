//! Schedules, on a clock that the test moves: each planned time is started once, or passes once.

use crate::support::{Process, Script, World, guarded, home, settle, tool};
use longhaul_core::{
    Clock, Json, Principal, State, UnixMillis,
    store::{CreateError, ScheduleRecord, SearchOrder, TaskFilter, TaskSearch},
};
use longhaul_runtime::{CatchUp, Cron, Engine, Overlap, Recurrence, Schedule, ToolSettings, TriggerError};
use longhaul_store::MemoryStore;
use std::sync::Arc;

const MINUTE: i64 = 60_000;

fn schedule(name: &str, recurrence: Recurrence) -> Schedule {
    Schedule {
        name: name.into(),
        tool: "a".into(),
        arguments: Json::trusted("{}"),
        principal: Principal::named("reports"),
        recurrence,
        jitter: 0,
        catch_up: CatchUp::None,
        overlap: Overlap::Queue,
    }
}

fn every_minute(name: &str) -> Schedule {
    schedule(name, Recurrence::Every(MINUTE as u64))
}

async fn row(world: &World, name: &str) -> ScheduleRecord {
    world.store.schedule(name).await.unwrap().expect("it is known")
}

/// When the tasks of the schedules' principal were created, oldest first.
async fn starts(world: &World) -> Vec<i64> {
    let search = TaskSearch {
        filter: TaskFilter {
            principal: Some(Principal::named("reports")),
            ..TaskFilter::default()
        },
        order: SearchOrder::OldestFirst,
        after: None,
        limit: 1_000,
        most_examined: 1_000,
    };
    let found = world.store.search(search).await.unwrap();
    found.tasks.iter().map(|task| task.created_at.0).collect()
}

/// Lets time pass in seconds, so that everything that becomes due is looked at.
async fn pass(world: &World, millis: i64) {
    for _ in 0..millis / 1_000 {
        world.clock.advance(1_000);
        settle().await;
    }
}

#[tokio::test]
async fn each_planned_time_is_started_once() {
    let world = World::in_memory();
    let (engine, _runs) = world.scripted().await;
    let began = world.clock.now().0;
    engine.set_schedules(vec![every_minute("minutely")]).await.unwrap();
    pass(&world, 3 * MINUTE).await;
    assert_eq!(starts(&world).await, [1, 2, 3].map(|nth| began + nth * MINUTE));
    // The file is read again, with one that was changed and one that is gone.
    let half = schedule("minutely", Recurrence::Every(MINUTE as u64 / 2));
    engine.set_schedules(vec![half]).await.unwrap();
    pass(&world, MINUTE).await;
    assert_eq!(starts(&world).await.len(), 5);
    engine.set_schedules(Vec::new()).await.unwrap();
    pass(&world, 2 * MINUTE).await;
    assert_eq!(starts(&world).await.len(), 5);
    assert_eq!(world.store.schedule("minutely").await.unwrap(), None);
}

#[tokio::test]
async fn a_cron_goes_by_the_systems_clock_and_a_distance_does_not() {
    let world = World::in_memory();
    let (engine, _runs) = world.scripted().await;
    // The clock of the test begins at 2023-11-14T22:13:20Z.
    let at_eleven = Recurrence::Cron(Cron::parse("0 23 * * *", "UTC").unwrap());
    let distance = schedule("distance", Recurrence::Every(10 * MINUTE as u64));
    engine
        .set_schedules(vec![schedule("cron", at_eleven), distance])
        .await
        .unwrap();
    world.clock.jump(45 * MINUTE);
    pass(&world, 2 * MINUTE).await;
    let started = |row: ScheduleRecord| row.counts.started;
    assert_eq!(
        (
            started(row(&world, "cron").await),
            started(row(&world, "distance").await)
        ),
        (1, 0)
    );
    // It does not come again when the clock is set back over it.
    world.clock.jump(-30 * MINUTE);
    pass(&world, 40 * MINUTE).await;
    assert_eq!(
        (
            started(row(&world, "cron").await),
            started(row(&world, "distance").await)
        ),
        (1, 4)
    );
}

#[tokio::test]
async fn a_live_task_is_not_overtaken_unless_the_schedule_says_so() {
    let world = World::in_memory();
    let (engine, mut runs) = world.scripted().await;
    let skipping = Schedule {
        overlap: Overlap::Skip,
        ..every_minute("skipping")
    };
    engine.set_schedules(vec![skipping]).await.unwrap();
    pass(&world, 3 * MINUTE).await;
    let counts = row(&world, "skipping").await.counts;
    assert_eq!((counts.started, counts.skipped, counts.missed), (1, 2, 0));
    let refused = engine.trigger_schedule("skipping").await;
    assert!(matches!(refused, Err(TriggerError::Create(_))), "{refused:?}");
    let first = row(&world, "skipping").await.last_task.unwrap();
    runs.next().await.finish("done");
    world
        .reaches(&engine, &first, State::Done(longhaul_core::Verdict::Succeeded))
        .await;
    pass(&world, MINUTE).await;
    assert_eq!(row(&world, "skipping").await.counts.started, 2);
}

#[tokio::test]
async fn a_start_whose_unique_value_is_live_is_skipped() {
    let world = World::in_memory().with_slots(4);
    let one_at_a_time = |tool: &mut ToolSettings| tool.unique = Some(Arc::new(|_: &Json| "x".to_owned()));
    let (engine, mut runs) = world.playing(one_at_a_time).await;
    engine.set_schedules(vec![every_minute("unique")]).await.unwrap();
    pass(&world, 3 * MINUTE).await;
    let found = row(&world, "unique").await;
    assert_eq!((found.counts.started, found.counts.skipped), (1, 2));
    let refused = engine.trigger_schedule("unique").await;
    assert!(
        matches!(refused, Err(TriggerError::Create(CreateError::NotUnique { .. }))),
        "{refused:?}"
    );
    runs.next().await.finish("done");
    let first = found.last_task.unwrap();
    world
        .reaches(&engine, &first, State::Done(longhaul_core::Verdict::Succeeded))
        .await;
    pass(&world, MINUTE).await;
    assert_eq!(row(&world, "unique").await.counts.started, 2);
}

#[tokio::test]
async fn a_pause_lets_times_pass_and_a_start_by_hand_changes_none() {
    let world = World::in_memory();
    let (engine, _runs) = world.scripted().await;
    engine.set_schedules(vec![every_minute("paused")]).await.unwrap();
    assert_eq!(engine.pause_schedule("paused", true).await, Ok(true));
    assert_eq!(engine.pause_schedule("unknown", true).await, Ok(false));
    pass(&world, 2 * MINUTE).await;
    let before = row(&world, "paused").await;
    assert_eq!((before.counts.started, before.counts.skipped), (0, 2));
    let status = engine.schedule("paused").await.unwrap().unwrap();
    assert!(status.next.is_empty());
    let task = engine.trigger_schedule("paused").await.unwrap();
    assert_eq!(task.owner.principal, Principal::named("reports"));
    let after = row(&world, "paused").await;
    assert_eq!((after.next_at, after.counts.started), (before.next_at, 1));
    assert_eq!(engine.pause_schedule("paused", false).await, Ok(true));
    let status = engine.schedules(None, 10).await.unwrap().remove(0);
    let next = before.next_at.unwrap();
    assert_eq!(status.next, [0, 1, 2].map(|nth| UnixMillis(next.0 + nth * MINUTE)));
    assert_eq!(status.last.map(|last| last.id.clone()), Some(task.id.clone()));
    pass(&world, MINUTE).await;
    assert_eq!(row(&world, "paused").await.counts.started, 2);
    let unknown = engine.trigger_schedule("unknown").await;
    assert_eq!(unknown, Err(TriggerError::Unknown));
}

/// What was missed while no server ran is found at the next start, in a store on disk.
#[test]
fn missed_times_are_caught_up_after_a_restart() {
    let (directory, clock) = home();
    let schedules = || {
        let of = |name, catch_up| Schedule {
            catch_up,
            ..schedule(name, Recurrence::Every(10 * MINUTE as u64))
        };
        vec![
            of("all", CatchUp::All),
            of("last", CatchUp::Last),
            of("none", CatchUp::None),
        ]
    };
    let started = |life: i64| {
        Process::run(directory.path(), &clock, async |world| {
            let (engine, _runs) = world.scripted().await;
            engine.set_schedules(schedules()).await.unwrap();
            pass(&world, life).await;
            let mut counts = Vec::new();
            for name in ["all", "last", "none"] {
                let row = guarded("the schedules", async {
                    loop {
                        let row = row(&world, name).await;
                        if row.next_at > Some(world.clock.now()) {
                            return row;
                        }
                        settle().await;
                    }
                });
                let row = row.await;
                counts.push((row.counts.started, row.counts.missed));
            }
            engine.stop();
            counts
        })
    };
    assert_eq!(started(11 * MINUTE), [(1, 0), (1, 0), (1, 0)]);
    clock.advance(35 * MINUTE);
    assert_eq!(started(1_000), [(4, 0), (2, 2), (1, 3)]);
    // Nothing is made twice.
    assert_eq!(started(1_000), [(4, 0), (2, 2), (1, 3)]);
}

/// Two engines over one store, as two nodes: each time has one start.
#[tokio::test]
async fn of_two_nodes_one_starts() {
    let mut world = World::in_memory();
    world.store = Arc::new(MemoryStore::of_many_nodes(world.clock.clone(), 30_000));
    let (first, _runs) = world.scripted().await;
    world.host = longhaul_core::HostId("there".into());
    let (second, _others) = world.scripted().await;
    for engine in [&first, &second] {
        engine.set_schedules(vec![every_minute("shared")]).await.unwrap();
    }
    pass(&world, 5 * MINUTE).await;
    assert_eq!(row(&world, "shared").await.counts.started, 5);
    assert_eq!(starts(&world).await.len(), 5);
    // A pause at one node holds for both, and one that is deployed with another plan stops the other.
    first.pause_schedule("shared", true).await.unwrap();
    pass(&world, 2 * MINUTE).await;
    assert_eq!(starts(&world).await.len(), 5);
    first.pause_schedule("shared", false).await.unwrap();
    let hourly = schedule("shared", Recurrence::Every(60 * MINUTE as u64));
    second.set_schedules(vec![hourly]).await.unwrap();
    pass(&world, 5 * MINUTE).await;
    assert_eq!(starts(&world).await.len(), 5);
}

/// A start that fails is tried again, and is not lost.
#[tokio::test]
async fn a_start_is_tried_again_until_its_tool_is_there() {
    let world = World::in_memory();
    let engine: Engine = world.start([tool("other", Script::new().0)]).await;
    let patient = Schedule {
        catch_up: CatchUp::Last,
        ..every_minute("patient")
    };
    engine.set_schedules(vec![patient]).await.unwrap();
    pass(&world, 5 * MINUTE).await;
    assert!(starts(&world).await.is_empty());
    let added = longhaul_runtime::Tool::new(tool("a", Script::new().0)).unwrap();
    engine.put_tool(added).await.unwrap();
    pass(&world, 6_000).await;
    let counts = row(&world, "patient").await.counts;
    assert_eq!((counts.started, counts.missed), (1, 4));
}
