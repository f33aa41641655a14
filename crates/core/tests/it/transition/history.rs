//! The laws under random events.

use super::{
    invariants::{ACCEPTED, keeps_its_block, keeps_its_confirmation, keeps_its_wake_ups, keeps_the_invariants},
    place::{block, entry, transition},
};
use longhaul_core::{
    AnsweredBy, AttemptEnd, CancelMode, ConfirmBy, Confirmation, EntryKind, Event, HostId, InputKey, Json, Millis,
    NodeId, Origin, Outcome, Owner, Principal, Progress, RpcFailure, SpecId, StopReason, Task, TaskHeader, TaskId,
    UnixMillis,
    store::{Idempotency, NewTask},
};
use proptest::prelude::*;
use std::collections::BTreeSet;

/// Something that may happen next; half of it fits the task by chance.
#[derive(Debug, Clone)]
enum Next {
    Say(Event),
    Ask,
    Answer(Json, AnsweredBy),
    Journal(EntryKind),
    /// With `woken` as it is, or as it was some wake-ups ago.
    Suspend {
        until: Option<Millis>,
        late: u32,
    },
    Due,
}

fn length() -> impl Strategy<Value = Option<Millis>> {
    prop_oneof![
        3 => Just(None),
        2 => (0u64..5_000).prop_map(Some),
        1 => prop_oneof![Just(0), Just(u64::MAX), Just(u64::MAX / 2), Just(i64::MAX as u64 - 1)].prop_map(Some),
    ]
}

fn moment() -> impl Strategy<Value = UnixMillis> {
    prop_oneof![8 => 0i64..20_000, 1 => Just(i64::MAX), 1 => Just(i64::MIN)].prop_map(UnixMillis)
}

fn outcome() -> impl Strategy<Value = Outcome> {
    prop_oneof![
        Just(Outcome::result(Json::trusted("{}"))),
        failure_text().prop_map(|text| Outcome::tool_error(&text)),
        Just(Outcome::result(Json::trusted(
            r#"{"content":[{"type":"image"}],"isError":true}"#
        ))),
        Just(Outcome::result(Json::trusted(r#"{"content":1,"isError":true}"#))),
        failure_text().prop_map(|text| Outcome::RpcError(RpcFailure {
            code: 1,
            message: text.into(),
            data: None
        })),
        Just(longhaul_core::Failure::Interrupted.into()),
        Just(Outcome::Cancelled),
    ]
}

fn failure_text() -> impl Strategy<Value = String> {
    prop_oneof![Just("no".to_owned()), "[ \r\na\u{20ac}]{0,9}", "a{0,1}\u{20ac}{1000}b"]
}

fn attempt_end() -> impl Strategy<Value = AttemptEnd> {
    prop_oneof![
        1 => outcome().prop_map(AttemptEnd::Finished),
        3 => (outcome(), proptest::option::of(moment()), any::<bool>())
            .prop_map(|(outcome, retry_at, asks_again)| AttemptEnd::Failed { outcome, retry_at, asks_again }),
        1 => prop_oneof![Just(StopReason::Cancel), Just(StopReason::Deadline)].prop_map(AttemptEnd::Stopped),
        1 => proptest::option::of(moment()).prop_map(|retry_at| AttemptEnd::NeverStarted { retry_at }),
        2 => (proptest::option::of(moment()), 0u32..4).prop_map(|(until, woken)| AttemptEnd::Suspended { until, woken }),
        2 => (moment(), moment()).prop_map(|(retry_at, until)| AttemptEnd::Blocked(block(retry_at, until))),
    ]
}

fn event() -> impl Strategy<Value = Event> {
    let key = || (1u32..6).prop_map(InputKey::nth);
    let json = || Just(Json::trusted("{}"));
    let node = || (1i64..4).prop_map(NodeId);
    prop_oneof![
        (node(), proptest::option::of(Just(HostId("here".into()))))
            .prop_map(|(node, host)| Event::Claimed { node, host }),
        node().prop_map(|node| Event::Adopted { node }),
        node().prop_map(|node| Event::Reclaimed { node }),
        Just(Event::Started),
        Just(Event::Reported {
            status: Some("s".into()),
            progress: Some(Progress {
                current: 1.0,
                total: None
            })
        }),
        (key(), json()).prop_map(|(key, request)| Event::InputRequested {
            key,
            name: None,
            request
        }),
        (key(), answer(), answered_by()).prop_map(|(key, answer, by)| Event::InputAnswered { key, answer, by }),
        key().prop_map(|key| Event::InputWithdrawn { key }),
        (0u32..4).prop_map(|seq| Event::Journaled(entry(seq, EntryKind::Step))),
        Just(Event::Advanced),
        Just(Event::TimerFired),
        moment().prop_map(|ready_at| Event::Unblocked { ready_at }),
        moment().prop_map(|ready_at| Event::Raised { ready_at }),
        Just(Event::BlockedTimedOut),
        (0u32..4).prop_map(|entry| Event::ChildEnded {
            entry,
            value: Json::trusted("{}")
        }),
        attempt_end().prop_map(Event::AttemptEnded),
        prop_oneof![Just(CancelMode::AtOnce), Just(CancelMode::Cooperative)].prop_map(Event::CancelRequested),
        Just(Event::DeadlinePassed),
        Just(Event::QueueTimedOut),
        Just(Event::Promoted),
        outcome().prop_map(Event::Abandoned),
        moment().prop_map(|until| Event::TtlExtended { until }),
        moment().prop_map(|until| Event::RetryAwaited { until }),
    ]
}

fn answer() -> impl Strategy<Value = Json> {
    prop_oneof![2 => Just(ACCEPTED), 1 => Just(r#"{"action":"decline"}"#), 1 => Just("{}")].prop_map(Json::trusted)
}

fn answered_by() -> impl Strategy<Value = AnsweredBy> {
    proptest::sample::select(&[AnsweredBy::Client, AnsweredBy::Operator, AnsweredBy::Server][..])
}

fn next() -> impl Strategy<Value = Next> {
    prop_oneof![
        10 => event().prop_map(Next::Say),
        3 => (1i64..4).prop_map(|node| Next::Say(Event::Claimed { node: NodeId(node), host: None })),
        2 => Just(Next::Ask),
        2 => (answer(), answered_by()).prop_map(|(answer, by)| Next::Answer(answer, by)),
        3 => proptest::sample::select(&EntryKind::ALL[..]).prop_map(Next::Journal),
        3 => (proptest::option::of(0u64..5_000), prop_oneof![3 => Just(0u32), 1 => 1u32..3])
            .prop_map(|(until, late)| Next::Suspend { until, late }),
        2 => Just(Next::Due),
    ]
}

prop_compose! {
    fn new_task()(
        announced in any::<bool>(),
        deadline in length(),
        queue_timeout in length(),
        retention in length(),
        claim in any::<bool>(),
        keyed in any::<bool>(),
        confirm_by in proptest::option::of(proptest::sample::select(&[ConfirmBy::Client, ConfirmBy::Operator][..])),
        confirmed_until in moment(),
    ) -> Task {
        let new = NewTask {
            header: TaskHeader {
                id: "task".parse::<TaskId>().unwrap(),
                owner: Owner { principal: Principal::local(), session: None },
                tool: "tool".into(),
                spec: SpecId::named("spec"),
                origin: Origin::Modern,
                accepted_by: NodeId(1),
                created_at: UnixMillis(0),
                deadline,
                queue_timeout,
                retention: retention.unwrap_or(60_000),
                lineage: None,
                labels: longhaul_core::Labels::default(),
                group: None,
            },
            announced,
            in_memory: false,
            priority: longhaul_core::Priority::default(),
            arguments: Json::trusted("{}"),
            requestor: Json::trusted("{}"),
            claim: claim.then_some((NodeId(1), None)),
            confirmation: confirm_by.map(|by| Box::new(Confirmation { by, request: Json::trusted("{}"), until: confirmed_until })),
            outcome: None,
            unique: None,
            idempotency: keyed.then(|| Idempotency { key: "key".into(), digest: [0; 32] }),
            quota: longhaul_core::Quota::default(),
            parent: None,
            history: None,
            replaces: None,
            schedule: None,
        };
        new.task().0
    }
}

/// Also back: clocks jump, and nothing may break.
fn step() -> impl Strategy<Value = i64> {
    prop_oneof![8 => 0i64..2_000, 1 => -5_000i64..0, 1 => 0i64..200_000]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn any_history_keeps_the_invariants(task in new_task(), history in proptest::collection::vec((next(), step()), 0..40)) {
        let mut task = task;
        let mut now = UnixMillis(0);
        let mut asked: BTreeSet<InputKey> = task.open_inputs.iter().cloned().collect();
        for (next, step) in history {
            now = UnixMillis(now.0 + step);
            let events = match next {
                Next::Say(event) => vec![event],
                Next::Ask => vec![Event::InputRequested {
                    key: InputKey::nth(task.inputs_asked + 1),
                    name: None,
                    request: Json::trusted("{}"),
                }],
                Next::Answer(answer, by) => {
                    let first = task.open_inputs.first().cloned();
                    first.into_iter().map(|key| Event::InputAnswered { key, answer: answer.clone(), by }).collect()
                }
                Next::Journal(kind) => vec![Event::Journaled(entry(task.journaled + 1, kind))],
                Next::Suspend { until, late } => vec![Event::AttemptEnded(AttemptEnd::Suspended {
                    until: until.map(|length| now.plus(length)),
                    woken: task.woken.saturating_sub(late),
                })],
                Next::Due => {
                    let mut woken = task.clone();
                    // Twice: work that a timer wakes waits for a slot, and how long it may can be over at once.
                    for _ in 0..2 {
                        for event in woken.due(now) {
                            let woke = transition(&woken, &event, now);
                            prop_assert!(woke.is_ok(), "due, and not legal: {event:?} {woke:?}");
                            woken = woke.unwrap().0;
                        }
                    }
                    prop_assert!(woken.wake_at().is_none_or(|wake| wake > now), "it would be woken for ever");
                    task.due(now)
                }
            };
            for event in events {
                let Ok((after, outcome)) = transition(&task, &event, now) else { continue };
                keeps_the_invariants(&task, &after);
                keeps_its_block(&task, &event, &after);
                keeps_its_confirmation(&task, &event, &after);
                keeps_its_wake_ups(&task, &event, &after, now);
                prop_assert_eq!(outcome.is_some(), after.is_done() && !task.is_done());
                if let Event::InputRequested { key, .. } = &event {
                    prop_assert!(asked.insert(key.clone()), "{key:?} was used before");
                }
                task = after;
            }
        }
    }
}
