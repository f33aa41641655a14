//! The journal keeps the results of a tool's operations.

use crate::contract::{NewSubject, fixture::*};
use longhaul_core::{
    AnsweredBy, AttemptEnd, Entry, EntryKey, EntryKind, Event, Fence, Input, InputKey, InputState, Json, NodeId,
    Principal, Reason, TaskId, UnixMillis,
    store::{ApplyError, History, NewTask},
};

/// Acknowledged entries stay, unchanged and in order, after a failed attempt and after a restart.
pub async fn invariant_10_journal_entries_stay(new_subject: NewSubject) {
    let fixture = Fixture::new(new_subject).await;
    let (task, fence) = fixture.running("a", 1).await;
    let (other, others) = fixture.running("b", 1).await;
    let entries: Vec<Entry> = (1..)
        .zip(EntryKind::ALL)
        .map(|(seq, kind)| of_kind(seq, kind))
        .collect();
    for entry in &entries {
        let event = Event::Journaled(entry.clone());
        let after = fixture.apply(&task.id, Some(fence), vec![event], 3).await;
        assert_eq!(after.expect("an entry").journaled, entry.seq);
        // Another task's journal in between is another task's.
        let event = Event::Journaled(step(entry.seq, "of another"));
        fixture
            .apply(&other.id, Some(others), vec![event], 3)
            .await
            .expect("an entry");
    }
    let failed = AttemptEnd::Failed {
        outcome: answer_text("no"),
        retry_at: Some(UnixMillis(4)),
        asks_again: false,
    };
    fixture
        .apply(&task.id, Some(fence), vec![Event::AttemptEnded(failed)], 4)
        .await
        .expect("queued again");
    assert_eq!(fixture.journal(&task.id).await, entries);
    let fixture = fixture.restart().await;
    assert_eq!(fixture.journal(&task.id).await, entries);
    assert_eq!(
        fixture.store.journal(&task.id, 2, 3).await,
        Ok(entries[2..5].to_vec()),
        "a part of it"
    );
    let last = entries.last().map_or(0, |entry| entry.seq);
    assert_eq!(fixture.store.journal(&task.id, last, 3).await, Ok(vec![]));
    assert_eq!(fixture.store.journal(&id("nobody"), 0, 3).await, Ok(vec![]));
}

/// Writing an entry again replaces its value, and nothing else.
pub async fn an_existing_entry_takes_another_value(new_subject: NewSubject) {
    let fixture = Fixture::new(new_subject).await;
    let (task, fence) = fixture.running("a", 1).await;
    let write = async |entry: Entry| {
        let event = Event::Journaled(entry);
        fixture
            .apply(&task.id, Some(fence), vec![event], 2)
            .await
            .expect("an entry")
    };
    let first = of_kind(1, EntryKind::Poll);
    write(first.clone()).await;
    write(step(2, "build")).await;
    let mut again = of_kind(1, EntryKind::Step);
    again.value = Json::trusted(r#""twice""#);
    again.at = UnixMillis(99);
    again.key.name = "another".into();
    assert_eq!(write(again.clone()).await.journaled, 2);
    let expected = Entry {
        value: again.value,
        ..first
    };
    assert_eq!(fixture.journal(&task.id).await, [expected, step(2, "build")]);
}

/// In order, after any entry, also after a rewrite, without entries of other kinds or tasks.
pub async fn output_is_found_among_other_entries(new_subject: NewSubject) {
    let fixture = Fixture::new(new_subject).await;
    let (task, fence) = fixture.running("a", 1).await;
    let (other, others) = fixture.running("b", 1).await;
    let kinds = EntryKind::ALL.into_iter().cycle().take(4 * EntryKind::ALL.len());
    for (seq, kind) in (1..).zip(kinds) {
        let entry = vec![Event::Journaled(of_kind(seq, kind))];
        fixture.apply(&task.id, Some(fence), entry, 3).await.expect("an entry");
        let entry = vec![Event::Journaled(of_kind(seq, EntryKind::Emit))];
        fixture
            .apply(&other.id, Some(others), entry, 3)
            .await
            .expect("an entry");
    }
    let mut all = fixture.journal(&task.id).await;
    all.retain(|entry| entry.key.kind == EntryKind::Emit);
    let again = Entry {
        value: Json::trusted(r#""again""#),
        ..all[1].clone()
    };
    all[1] = again.clone();
    fixture
        .apply(
            &task.id,
            Some(fence),
            vec![Event::Journaled(again), finished("done")],
            4,
        )
        .await
        .expect("written over");
    let fixture = fixture.restart().await;
    let emitted = async |id: &TaskId, after, limit| {
        let found = fixture.store.emitted(id, after, limit).await;
        found.expect("what was emitted is read")
    };
    assert_eq!(all.len(), 4);
    assert_eq!(emitted(&task.id, 0, 100).await, all);
    assert_eq!(emitted(&task.id, 0, 3).await, all[..3]);
    for (nth, entry) in all.iter().enumerate() {
        assert_eq!(emitted(&task.id, entry.seq - 1, 1).await, std::slice::from_ref(entry));
        assert_eq!(emitted(&task.id, entry.seq, 100).await, all[nth + 1..]);
    }
    assert_eq!(emitted(&id("nobody"), 0, 3).await, []);
    let over = fixture.get_unscoped(&task.id).await.task.announced_until;
    assert_eq!(fixture.store.delete(&host(), vec![task.id.clone()], over).await, Ok(1));
    assert_eq!(emitted(&task.id, 0, 100).await, []);
}

/// A gap, a stale worker or a missing fence refuses the whole change.
pub async fn entries_come_in_order_and_from_their_worker(new_subject: NewSubject) {
    let fixture = Fixture::new(new_subject).await;
    let (task, fence) = fixture.running("a", 1).await;
    let one = Event::Journaled(step(1, "one"));
    fixture
        .apply(&task.id, Some(fence), vec![one], 2)
        .await
        .expect("an entry");
    let before = (fixture.get_unscoped(&task.id).await, fixture.journal(&task.id).await);
    let again = Event::Journaled(Entry {
        value: Json::trusted("7"),
        ..step(1, "one")
    });
    let two = Event::Journaled(step(2, "two"));
    let gap = Event::Journaled(step(4, "four"));
    let refused = fixture
        .apply(
            &task.id,
            Some(fence),
            vec![again.clone(), two.clone(), asked(1), gap],
            3,
        )
        .await;
    assert!(matches!(refused, Err(ApplyError::Illegal(illegal)) if illegal.reason == Reason::KeyOutOfOrder));
    let stale = [
        None,
        Some(Fence {
            epoch: fence.epoch + 1,
            ..fence
        }),
        Some(Fence {
            node: NodeId(fence.node.0 + 1),
            ..fence
        }),
    ];
    for stale in stale {
        let refused = fixture
            .apply(&task.id, stale, vec![again.clone(), two.clone()], 3)
            .await;
        assert_eq!(refused, Err(ApplyError::Stale), "{stale:?}");
    }
    assert_eq!(
        (fixture.get_unscoped(&task.id).await, fixture.journal(&task.id).await),
        before
    );
    fixture
        .apply(&task.id, Some(fence), vec![again, two, finished("done")], 4)
        .await
        .expect("all of it");
    let values: Vec<_> = fixture
        .journal(&task.id)
        .await
        .into_iter()
        .map(|entry| entry.value)
        .collect();
    assert_eq!(values, [Json::trusted("7"), step(2, "two").value]);
    let late = fixture
        .apply(&task.id, Some(fence), vec![Event::Journaled(step(3, "late"))], 5)
        .await;
    assert_eq!(late, Err(ApplyError::Stale));
}

/// An entry counts as what it carries; writing it again counts the difference, and it goes with its task.
pub async fn entries_are_counted_and_go_with_their_task(new_subject: NewSubject) {
    let fixture = Fixture::new(new_subject).await;
    let (task, fence) = fixture.running("a", 1).await;
    let usage = async || {
        fixture
            .store
            .usage(Some(&Principal::named("alice")))
            .await
            .expect("usage")
            .bytes
    };
    let call = usage().await;
    let write = async |value: &str| {
        let entry = Entry {
            key: EntryKey {
                path: "1.0".into(),
                ..step(1, "\u{1F40C}").key
            },
            value: Json::trusted(value),
            ..step(1, "")
        };
        let event = vec![Event::Journaled(entry)];
        fixture.apply(&task.id, Some(fence), event, 2).await.expect("an entry");
    };
    for value in ["\"\u{e4}\"", r#""a much longer one""#, "1", "1"] {
        write(value).await;
        assert_eq!(usage().await, call + 3 + 4 + value.len() as u64, "{value}");
    }
    let both = vec![
        Event::Journaled(step(2, "")),
        Event::Journaled(Entry {
            value: Json::trusted("[1,2,3]"),
            ..step(2, "")
        }),
    ];
    fixture
        .apply(&task.id, Some(fence), both, 3)
        .await
        .expect("written and replaced at once");
    assert_eq!(usage().await, call + 8 + 7);
    let done = fixture
        .apply(
            &task.id,
            None,
            vec![Event::CancelRequested(longhaul_core::CancelMode::AtOnce)],
            4,
        )
        .await
        .expect("cancelled");
    fixture
        .apply(&task.id, Some(fence), vec![finished("late")], 4)
        .await
        .expect("suspended");
    assert_eq!(
        usage().await,
        call + 8 + 7,
        "a done task keeps its journal for those who look back"
    );
    let at = UnixMillis(done.announced_until.0);
    assert_eq!(fixture.store.delete(&host(), vec![task.id.clone()], at).await, Ok(1));
    assert_eq!((usage().await, fixture.journal(&task.id).await), (0, vec![]));
}

/// Its entries and questions are there when the creation is acknowledged, are counted, and go with the task. Its own come behind them.
pub async fn a_task_may_begin_with_the_journal_of_another(new_subject: NewSubject) {
    let fixture = Fixture::new(new_subject).await;
    let usage = async |fixture: &Fixture| {
        let alice = Principal::named("alice");
        fixture.store.usage(Some(&alice)).await.expect("usage").bytes
    };
    let plain = fixture.create(new_task("a", fixture.node, 1)).await;
    let call = usage(&fixture).await;
    let entries: Vec<Entry> = (1..)
        .zip(EntryKind::ALL)
        .map(|(seq, kind)| Entry {
            epoch: 0,
            ..of_kind(seq, kind)
        })
        .collect();
    let input = |nth, state| Input {
        key: InputKey::nth(nth),
        name: (nth == 2).then(|| "who".into()),
        request: Json::trusted(format!(r#"{{"nth":{nth}}}"#)),
        state,
        asked_at: UnixMillis(-5),
        settled_at: Some(UnixMillis(-2)),
        answered_by: (nth == 2).then_some(AnsweredBy::Operator),
    };
    let inputs = [
        input(2, InputState::Answered(Json::trusted(r#"{"action":"accept"}"#))),
        input(3, InputState::Withdrawn),
    ];
    let history = History::new(entries.clone(), inputs.to_vec(), 4).expect("numbered and settled");
    let task = fixture
        .create(NewTask {
            history: Some(Box::new(history)),
            ..new_task("b", fixture.node, 1)
        })
        .await;
    let bytes_of_entries: usize = entries
        .iter()
        .map(|entry| entry.key.path.len() + entry.key.name.len() + entry.value.as_str().len())
        .sum();
    let all = 2 * call + bytes_of_entries as u64 + 2 * 9 + 19;
    assert_eq!(usage(&fixture).await, all);
    assert_eq!((task.journaled, task.inputs_asked), (entries.len() as u32, 4));
    assert!(task.open_inputs.is_empty());
    let fixture = fixture.restart().await;
    assert_eq!(usage(&fixture).await, all);
    assert_eq!(fixture.journal(&task.id).await, entries);
    assert_eq!(fixture.journal(&plain.id).await, []);
    let emitted = fixture.store.emitted(&task.id, 0, 10).await.expect("output");
    assert_eq!(emitted.len(), 1);
    assert_eq!(fixture.input(&task.id, 1).await, None);
    for (nth, input) in (2..).zip(inputs) {
        assert_eq!(fixture.input(&task.id, nth).await, Some(input));
    }
    let claimed = fixture.claim("tool", 2, 3).await;
    let fence = fence(&claimed[1].task);
    let next = task.journaled + 1;
    let events = vec![Event::Started, asked(5), Event::Journaled(step(next, "build"))];
    let after = fixture
        .apply(&task.id, Some(fence), events, 3)
        .await
        .expect("it goes on");
    assert_eq!((after.journaled, after.inputs_asked), (next, 5));
    let done = fixture.apply(&task.id, Some(fence), vec![finished("so")], 4).await;
    let at = done.expect("finished").announced_until;
    assert_eq!(fixture.store.delete(&host(), vec![task.id.clone()], at).await, Ok(1));
    assert_eq!((usage(&fixture).await, fixture.journal(&task.id).await), (call, vec![]));
    assert_eq!(fixture.input(&task.id, 2).await, None);
}

fn of_kind(seq: u32, kind: EntryKind) -> Entry {
    Entry {
        seq,
        key: EntryKey {
            path: if seq.is_multiple_of(2) { "" } else { "1.0" }.into(),
            kind,
            name: "n\u{e4}me \0".into(),
            nth: seq * 7,
        },
        beside: seq.is_multiple_of(3),
        value: Json::trusted(format!(r#"{{"of":"{}"}}"#, kind.name())),
        at: UnixMillis(i64::from(seq)),
        epoch: 1,
    }
}
