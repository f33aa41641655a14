//! Quotas of live tasks and stored bytes are checked in the transaction that creates a task.

use crate::contract::{NewSubject, fixture::*};
use longhaul_core::{
    AnsweredBy, Event, InputKey, Json, Principal, Quota, QuotaExceeded, QuotaScope, Task, Usage,
    store::{CreateError, Created, NewTask},
};

fn of(who: &str, name: &str, fixture: &Fixture, quota: Quota) -> NewTask {
    let mut new = new_task(name, fixture.node, 1);
    new.header.owner.principal = Principal::named(who);
    new.quota = quota;
    new
}

async fn usage(fixture: &Fixture, who: &str) -> Usage {
    let usage = fixture.store.usage(Some(&Principal::named(who))).await;
    usage.expect("an answer")
}

async fn usage_in_all(fixture: &Fixture) -> Usage {
    fixture.store.usage(None).await.expect("an answer")
}

fn too_many_live(scope: QuotaScope, limit: u64) -> Result<Created, CreateError> {
    Err(QuotaExceeded::TooManyLive { scope, limit }.into())
}

fn too_many_bytes(scope: QuotaScope, limit: u64) -> Result<Created, CreateError> {
    Err(QuotaExceeded::TooManyBytes { scope, limit }.into())
}

/// The arguments and the requestor of a task of the fixture.
fn call_bytes(task: &NewTask) -> u64 {
    (task.arguments.as_str().len() + task.requestor.as_str().len()) as u64
}

/// Also of concurrent creates. A task that ends frees its share; a task that is over from the start needs none.
pub async fn live_tasks_are_limited(new_subject: NewSubject) {
    let fixture = Fixture::new(new_subject).await;
    let two_each = Quota {
        live_per_principal: Some(2),
        live_in_all: Some(3),
        ..Quota::default()
    };
    let create = |who, name: &str| fixture.store.create(of(who, name, &fixture, two_each));
    let made = together((0..6).map(|nth| create("alice", &format!("a{nth}"))).collect()).await;
    let (made, refused): (Vec<_>, Vec<_>) = made.into_iter().partition(Result::is_ok);
    assert_eq!((made.len(), refused.len()), (2, 4));
    assert!(
        refused
            .iter()
            .all(|answer| *answer == too_many_live(QuotaScope::Principal, 2))
    );
    assert_eq!(usage(&fixture, "alice").await.live, 2);

    create("bob", "b0").await.expect("bob has room");
    assert_eq!(create("bob", "b1").await, too_many_live(QuotaScope::All, 3));
    assert_eq!(
        fixture.store.get_unscoped(&id("b1")).await,
        Ok(None),
        "nothing was written"
    );
    let mut over = of("alice", "over", &fixture, two_each);
    over.outcome = Some(answer_text("no"));
    fixture.create(over).await;

    let mine = made[0].as_ref().expect("made").task();
    let end = vec![Event::CancelRequested(longhaul_core::CancelMode::AtOnce)];
    fixture.apply(&mine.id, None, end, 2).await.expect("it ends");
    create("alice", "a7").await.expect("there is room again");
}

/// Arguments, requestors, outcomes, questions and answers count from when they are written until their task is deleted.
pub async fn stored_bytes_are_limited(new_subject: NewSubject) {
    let fixture = Fixture::new(new_subject).await;
    let mut expected = 0;
    let step = async |more: u64, expected: &mut u64| {
        *expected += more;
        assert_eq!(usage(&fixture, "alice").await.bytes, *expected);
        assert_eq!(usage_in_all(&fixture).await.bytes, *expected);
    };
    let first = of("alice", "a", &fixture, Quota::default());
    fixture.create(first.clone()).await;
    step(call_bytes(&first), &mut expected).await;
    let claimed = fixture.claim("tool", 1, 2).await;
    let fence = fence(&claimed[0].task);
    let question = asked(1);
    let Event::InputRequested { request, .. } = &question else {
        unreachable!("a question")
    };
    let request = request.as_str().len() as u64;
    fixture
        .apply(&id("a"), Some(fence), vec![question], 3)
        .await
        .expect("a question");
    step(request, &mut expected).await;
    let answer = Json::trusted(r#""\u00e4 and more""#);
    let event = Event::InputAnswered {
        key: InputKey::nth(1),
        answer: answer.clone(),
        by: AnsweredBy::Client,
    };
    fixture.apply(&id("a"), None, vec![event], 4).await.expect("an answer");
    step(answer.as_str().len() as u64, &mut expected).await;
    fixture
        .apply(&id("a"), Some(fence), vec![asked(2)], 5)
        .await
        .expect("a question");
    step(request, &mut expected).await;
    // The open question is withdrawn, and kept.
    let done = fixture
        .apply(&id("a"), Some(fence), vec![finished("done \u{1F40C}")], 6)
        .await;
    let done = done.expect("it ends");
    let record = fixture.get_unscoped(&id("a")).await;
    let Some(longhaul_core::Outcome::Result { json, .. }) = record.outcome else {
        panic!("it has an outcome")
    };
    step(json.as_str().len() as u64, &mut expected).await;
    fits_to_the_byte(&fixture, expected).await;

    let delete_at = done.delete_at().expect("it is over");
    assert_eq!(fixture.store.delete(&host(), vec![id("a")], delete_at).await, Ok(1));
    let rest = call_bytes(&of("alice", "b", &fixture, Quota::default()));
    assert_eq!(usage(&fixture, "alice").await, Usage { live: 1, bytes: rest });
    assert_eq!(usage_in_all(&fixture).await, Usage { live: 1, bytes: rest });
}

/// One byte too many is refused; exactly full is not.
async fn fits_to_the_byte(fixture: &Fixture, has: u64) {
    let needs = call_bytes(&of("alice", "b", fixture, Quota::default()));
    let full = has + needs;
    let mine = Quota {
        bytes_per_principal: Some(full - 1),
        ..Quota::default()
    };
    let refused = fixture.store.create(of("alice", "b", fixture, mine)).await;
    assert_eq!(refused, too_many_bytes(QuotaScope::Principal, full - 1));
    let all = Quota {
        bytes_in_all: Some(full - 1),
        ..Quota::default()
    };
    let refused = fixture.store.create(of("alice", "b", fixture, all)).await;
    assert_eq!(refused, too_many_bytes(QuotaScope::All, full - 1));
    let exact = Quota {
        bytes_per_principal: Some(full),
        bytes_in_all: Some(full),
        ..Quota::default()
    };
    fixture.create(of("alice", "b", fixture, exact)).await;
}

/// Counts are stored with what they count.
pub async fn counts_survive_reopening(new_subject: NewSubject) {
    let fixture = Fixture::new(new_subject).await;
    fixture.create(of("alice", "a", &fixture, Quota::default())).await;
    fixture.create(of("bob", "b", &fixture, Quota::default())).await;
    let before = (usage(&fixture, "alice").await, usage_in_all(&fixture).await);
    assert_eq!((before.0.live, before.1.live), (1, 2));
    let fixture = fixture.restart().await;
    assert_eq!((usage(&fixture, "alice").await, usage_in_all(&fixture).await), before);
    assert_eq!(usage(&fixture, "carol").await, Usage::default());
}

/// A task that was accepted may write everything, even over its quota.
pub async fn a_quota_refuses_creates_and_nothing_else(new_subject: NewSubject) {
    let fixture = Fixture::new(new_subject).await;
    let mut new = of("alice", "a", &fixture, Quota::default());
    new.quota = Quota {
        live_per_principal: Some(1),
        bytes_per_principal: Some(call_bytes(&new)),
        ..Quota::default()
    };
    let quota = new.quota;
    new.claim = Some((fixture.node, None));
    let task: Task = fixture.create(new).await;
    let events = vec![asked(1), answered(1, "yes"), finished(&"long ".repeat(100))];
    let done = fixture
        .apply(&task.id, Some(fence(&task)), events, 2)
        .await
        .expect("it ends");
    assert!(done.is_done());
    let limit = quota.bytes_per_principal.expect("a limit");
    assert!(usage(&fixture, "alice").await.bytes > limit);
    let refused = fixture.store.create(of("alice", "b", &fixture, quota)).await;
    assert_eq!(refused, too_many_bytes(QuotaScope::Principal, limit));
}
