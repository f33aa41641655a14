//! Schedules: one row decides about their starts.

use super::{NewSubject, fixture::*};
use longhaul_core::{
    CancelMode, Event, Quota, UnixMillis,
    store::{
        CreateError, Created, NewSchedule, NewTask, ScheduleAdvance, ScheduleConflict, ScheduleCounts, ScheduleRecord,
        ScheduledStart,
    },
};

fn schedule(name: &str, plan: &str, first_at: i64) -> NewSchedule {
    NewSchedule {
        name: name.into(),
        plan: plan.into(),
        first_at: Some(UnixMillis(first_at)),
    }
}

fn advance(expected: i64, next_at: i64) -> ScheduleAdvance {
    ScheduleAdvance {
        expected: UnixMillis(expected),
        next_at: Some(UnixMillis(next_at)),
        skipped: 0,
        missed: 0,
    }
}

impl Fixture {
    /// A start of the schedule `nightly`, which has the plan `plan`.
    fn start(&self, task: &str, planned: Option<(i64, i64)>, skip_if_live: bool) -> NewTask {
        NewTask {
            schedule: Some(Box::new(ScheduledStart {
                name: "nightly".into(),
                plan: "plan".into(),
                advance: planned.map(|(expected, next_at)| advance(expected, next_at)),
                skip_if_live,
            })),
            ..new_task(task, self.node, 50)
        }
    }

    async fn put(&self, schedules: &[NewSchedule]) -> Vec<ScheduleRecord> {
        let put = self.store.put_schedules(schedules.to_vec()).await;
        put.expect("schedules are kept")
    }

    async fn nightly(&self) -> ScheduleRecord {
        let found = self.store.schedule("nightly").await.expect("a schedule is read");
        found.expect("it is known")
    }

    async fn refused(&self, new: NewTask) -> CreateError {
        let (before, id) = (self.nightly().await, new.id.clone());
        let refused = self.store.create(new).await.expect_err("it is refused");
        assert_eq!(self.nightly().await, before, "{refused}");
        let found = self.store.get_unscoped(&id).await.expect("a task is read");
        assert_eq!(found, None, "{refused}");
        refused
    }
}

/// Acknowledged is kept: the task, and that the schedule has moved on.
pub async fn a_start_and_its_schedules_row_are_one_write(new_subject: NewSubject) {
    let fixture = Fixture::new(new_subject).await;
    fixture.put(&[schedule("nightly", "plan", 10)]).await;
    let new = fixture.start("a", Some((10, 20)), true);
    let task = fixture.create(new.clone()).await;
    let fixture = fixture.restart().await;
    let started = ScheduleRecord {
        next_at: Some(UnixMillis(20)),
        last_task: Some(task.id.clone()),
        last_start: Some(UnixMillis(50)),
        counts: ScheduleCounts {
            started: 1,
            ..ScheduleCounts::default()
        },
        ..ScheduleRecord::new(&schedule("nightly", "plan", 10))
    };
    assert_eq!(fixture.nightly().await, started);
    assert_eq!(fixture.get_unscoped(&task.id).await.task, task);
    // The same planned time, by a node that has not heard of it, or after a crash.
    let refused = fixture.refused(fixture.start("b", Some((10, 20)), false)).await;
    assert_eq!(refused, ScheduleConflict::Moved.into());
}

/// Neither the task without the row nor the row without the task.
pub async fn a_refused_start_leaves_its_schedule_as_it_was(new_subject: NewSubject) {
    let fixture = Fixture::new(new_subject).await;
    fixture.put(&[schedule("nightly", "plan", 10)]).await;
    let mut other_plan = fixture.start("a", Some((10, 20)), true);
    if let Some(start) = &mut other_plan.schedule {
        start.plan = "another".into();
    }
    assert_eq!(fixture.refused(other_plan).await, ScheduleConflict::Moved.into());
    let mut full = fixture.start("b", Some((10, 20)), true);
    full.quota = Quota {
        live_in_all: Some(0),
        ..Quota::default()
    };
    let refused = fixture.refused(full).await;
    assert!(matches!(refused, CreateError::Quota(_)), "{refused}");
    let mut never_put = fixture.start("c", Some((10, 20)), true);
    never_put.header.spec = longhaul_core::SpecId::named("never put");
    let refused = fixture.refused(never_put).await;
    assert!(matches!(refused, CreateError::Store(_)), "{refused}");
    let mut unknown = fixture.start("d", Some((10, 20)), true);
    if let Some(start) = &mut unknown.schedule {
        start.name = "unknown".into();
    }
    assert_eq!(fixture.refused(unknown).await, ScheduleConflict::Moved.into());
}

/// While the task before is live nothing is started, if the schedule says so; and nothing while it is paused, except by hand.
pub async fn live_tasks_and_pauses_keep_schedules_from_starting(new_subject: NewSubject) {
    let fixture = Fixture::new(new_subject).await;
    fixture.put(&[schedule("nightly", "plan", 10)]).await;
    let first = fixture.create(fixture.start("a", Some((10, 20)), true)).await;
    let refused = fixture.refused(fixture.start("b", Some((20, 30)), true)).await;
    assert_eq!(refused, ScheduleConflict::Live(first.id.clone()).into());
    let refused = fixture.refused(fixture.start("b", None, true)).await;
    assert_eq!(refused, ScheduleConflict::Live(first.id.clone()).into());
    let second = fixture.create(fixture.start("c", Some((20, 30)), false)).await;
    let cancel = Event::CancelRequested(CancelMode::AtOnce);
    fixture
        .apply(&second.id, None, vec![cancel], 60)
        .await
        .expect("a cancel");
    fixture.create(fixture.start("d", Some((30, 40)), true)).await;

    let store = &fixture.store;
    assert_eq!(store.set_schedule_paused("nightly", true).await, Ok(true));
    assert_eq!(store.set_schedule_paused("unknown", true).await, Ok(false));
    let fixture = fixture.restart().await;
    let refused = fixture.refused(fixture.start("e", Some((40, 50)), false)).await;
    assert_eq!(refused, ScheduleConflict::Paused.into());
    fixture.create(fixture.start("f", None, false)).await;
    let by_hand = fixture.nightly().await;
    assert_eq!(
        (by_hand.next_at, by_hand.counts.started),
        (Some(UnixMillis(40)), 4),
        "a start by hand changes no time"
    );
    assert_eq!(fixture.store.set_schedule_paused("nightly", false).await, Ok(true));
    fixture.create(fixture.start("g", Some((40, 50)), false)).await;
}

/// A time that passes without a start is counted once.
pub async fn a_planned_time_passes_once(new_subject: NewSubject) {
    let fixture = Fixture::new(new_subject).await;
    fixture.put(&[schedule("nightly", "plan", 10)]).await;
    let pass = |name: &'static str, plan: &'static str, expected| {
        let passing = ScheduleAdvance {
            skipped: 1,
            missed: 5,
            ..advance(expected, 20)
        };
        fixture.store.advance_schedule(name, plan, passing)
    };
    assert_eq!(pass("nightly", "another", 10).await, Ok(false));
    assert_eq!(pass("unknown", "plan", 10).await, Ok(false));
    assert_eq!(pass("nightly", "plan", 10).await, Ok(true));
    assert_eq!(pass("nightly", "plan", 10).await, Ok(false));
    let counts = fixture.nightly().await.counts;
    assert_eq!((counts.started, counts.skipped, counts.missed), (0, 1, 5));
}

/// A schedule keeps its times until it gets another plan, and everything else beyond that.
pub async fn schedules_are_kept_by_their_plans(new_subject: NewSubject) {
    let fixture = Fixture::new(new_subject).await;
    let (nightly, weekly) = (schedule("nightly", "plan", 10), schedule("weekly", "w", 70));
    fixture.put(std::slice::from_ref(&nightly)).await;
    fixture.create(fixture.start("a", Some((10, 20)), true)).await;
    assert_eq!(fixture.store.set_schedule_paused("nightly", true).await, Ok(true));
    let kept = fixture.nightly().await;
    let put = fixture.put(&[weekly.clone(), schedule("nightly", "plan", 99)]).await;
    assert_eq!(put, [ScheduleRecord::new(&weekly), kept.clone()]);
    let never = NewSchedule {
        first_at: None,
        ..schedule("nightly", "other", 0)
    };
    let replanned = ScheduleRecord {
        plan: "other".into(),
        next_at: None,
        ..kept
    };
    assert_eq!(fixture.put(&[never]).await, std::slice::from_ref(&replanned));

    let fixture = fixture.restart().await;
    let store = &fixture.store;
    let names = |found: Vec<ScheduleRecord>| {
        found
            .into_iter()
            .map(|found| found.name.to_string())
            .collect::<Vec<_>>()
    };
    assert_eq!(
        names(store.schedules(None, 9).await.expect("a list")),
        ["nightly", "weekly"]
    );
    assert_eq!(names(store.schedules(None, 1).await.expect("a list")), ["nightly"]);
    assert_eq!(
        names(store.schedules(Some("nightly"), 9).await.expect("a list")),
        ["weekly"]
    );
    let removed = vec!["nightly".into(), "unknown".into()];
    assert_eq!(store.remove_schedules(removed).await, Ok(()));
    assert_eq!(store.schedule("nightly").await, Ok(None));
    assert_eq!(names(store.schedules(None, 9).await.expect("a list")), ["weekly"]);
}

/// Of many nodes that find the same time due, one starts the task.
pub async fn of_concurrent_starts_one_is_made(new_subject: NewSubject) {
    let fixture = Fixture::new(new_subject).await;
    fixture.put(&[schedule("nightly", "plan", 10)]).await;
    let starts = ["a", "b", "c", "d", "e", "f"].map(|name| {
        let new = fixture.start(name, Some((10, 20)), false);
        fixture.store.create(new)
    });
    let (mut made, mut refused) = (0, 0);
    for answer in futures_util::future::join_all(starts).await {
        match answer {
            Ok(Created::New(_)) => made += 1,
            Err(CreateError::Schedule(ScheduleConflict::Moved)) => refused += 1,
            other => panic!("one start is made, and not {other:?}"),
        }
    }
    assert_eq!((made, refused), (1, 5));
    assert_eq!(fixture.nightly().await.counts.started, 1);
}
