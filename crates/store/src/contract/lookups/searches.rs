//! What an operator finds.

use crate::contract::{NewSubject, fixture::*};
use longhaul_core::{
    CancelMode, Event, Json, Label, Labels, Origin, Principal, State, UnixMillis, Verdict,
    store::{NewTask, SearchOrder, TaskFilter, TaskSearch},
};

fn search(filter: TaskFilter, limit: usize) -> TaskSearch {
    TaskSearch {
        filter,
        order: SearchOrder::NewestFirst,
        after: None,
        limit,
        most_examined: 1_000,
    }
}

impl Fixture {
    async fn found(&self, search: TaskSearch) -> (Vec<String>, Option<String>) {
        let found = self.store.search(search).await.expect("a search");
        let ids = found.tasks.iter().map(|task| task.id.to_string());
        (ids.collect(), found.next.map(|next| next.to_string()))
    }

    async fn all_of(&self, filter: TaskFilter) -> String {
        self.found(search(filter, 100)).await.0.concat()
    }
}

/// Each condition alone, and two together. Owners, announcement and sessions do not matter: an operator looks.
pub async fn a_filter_finds_what_it_says(new_subject: NewSubject) {
    let fixture = Fixture::new(new_subject).await;
    let mut bobs = new_task("a", fixture.node, 1);
    bobs.header.owner.principal = Principal::named("bob");
    bobs.header.origin = Origin::Legacy;
    fixture.create(bobs).await;
    let mut unannounced = new_task("b", fixture.node, 2);
    unannounced.announced = false;
    unannounced.header.tool = "other".into();
    fixture.create(unannounced).await;
    let (running, fence) = fixture.running("c", 3).await;
    let reported = Event::Reported {
        status: Some("Reading PAGE 7".into()),
        progress: None,
    };
    fixture
        .apply(&running.id, Some(fence), vec![asked(1), reported], 4)
        .await
        .expect("it asks and reports");
    let (cancelled, _) = fixture.running("d", 4).await;
    let cancel = vec![Event::CancelRequested(CancelMode::AtOnce)];
    fixture.apply(&cancelled.id, None, cancel, 5).await.expect("a cancel");
    let (over, fence) = fixture.running("e", 5).await;
    fixture
        .apply(&over.id, Some(fence), vec![finished("done")], 6)
        .await
        .expect("it ends");

    let any = TaskFilter::default;
    assert_eq!(fixture.all_of(any()).await, "edcba");
    let of_bob = TaskFilter {
        principal: Some(Principal::named("bob")),
        ..any()
    };
    assert_eq!(fixture.all_of(of_bob).await, "a");
    let of_alice = TaskFilter {
        principal: Some(Principal::named("alice")),
        ..any()
    };
    assert_eq!(fixture.all_of(of_alice.clone()).await, "edcb");
    let of_tool = TaskFilter {
        tool: Some("other".into()),
        ..any()
    };
    assert_eq!(fixture.all_of(of_tool).await, "b");
    let of_tools = |tools: &[&str]| TaskFilter {
        tools: Some(tools.iter().map(|tool| (*tool).into()).collect()),
        ..any()
    };
    assert_eq!(fixture.all_of(of_tools(&["another", "other"])).await, "b");
    assert_eq!(fixture.all_of(of_tools(&[])).await, "", "of no tool");
    let in_states = |states: &[State]| TaskFilter {
        states: states.to_vec(),
        ..any()
    };
    assert_eq!(fixture.all_of(in_states(&[State::Queued])).await, "ba");
    assert_eq!(fixture.all_of(in_states(&[State::Queued, State::Running])).await, "cba");
    assert_eq!(fixture.all_of(in_states(&[State::Done(Verdict::Cancelled)])).await, "d");
    let succeeded = [State::Done(Verdict::Succeeded), State::Queued];
    assert_eq!(fixture.all_of(in_states(&succeeded)).await, "eba");
    let queued_of_alice = TaskFilter {
        states: vec![State::Queued],
        ..of_alice
    };
    assert_eq!(fixture.all_of(queued_of_alice).await, "b");
    let legacy = TaskFilter {
        origin: Some(Origin::Legacy),
        ..any()
    };
    assert_eq!(fixture.all_of(legacy).await, "a");
    let asking = TaskFilter { asks: true, ..any() };
    assert_eq!(fixture.all_of(asking).await, "c");
    let of_time = TaskFilter {
        since: Some(UnixMillis(2)),
        before: Some(UnixMillis(4)),
        ..any()
    };
    assert_eq!(fixture.all_of(of_time).await, "cb");
    let with_text = |text: &str| TaskFilter {
        text: Some(text.to_owned()),
        ..any()
    };
    assert_eq!(fixture.all_of(with_text("page 7")).await, "c");
    assert_eq!(fixture.all_of(with_text("page 8")).await, "");
    let of_parent = TaskFilter {
        parent: Some(id("a")),
        ..any()
    };
    assert_eq!(fixture.all_of(of_parent).await, "");
}

/// In both orders the pages together are the whole list, each task once, however few tasks are looked at for a page.
pub async fn a_search_goes_on_where_it_stopped(new_subject: NewSubject) {
    let fixture = Fixture::new(new_subject).await;
    for n in 0..9 {
        let mut new = new_task(&format!("t{n}"), fixture.node, n);
        if n % 3 == 0 {
            new.header.tool = "rare".into();
        }
        fixture.create(new).await;
    }
    let rare = TaskFilter {
        tool: Some("rare".into()),
        ..TaskFilter::default()
    };
    for (order, expected) in [
        (SearchOrder::NewestFirst, ["t6", "t3", "t0"]),
        (SearchOrder::OldestFirst, ["t0", "t3", "t6"]),
    ] {
        for (limit, most_examined) in [(1, 1), (1, 1_000), (2, 1_000), (3, 2), (100, 1_000)] {
            let (mut seen, mut pages) = (Vec::new(), 0);
            let mut search = TaskSearch {
                order,
                most_examined,
                ..search(rare.clone(), limit)
            };
            loop {
                let (found, next) = fixture.found(search.clone()).await;
                assert!(found.len() <= limit);
                pages += 1;
                seen.extend(found);
                let Some(next) = next else { break };
                search.after = Some(id(&next));
                assert!(pages < 20, "a page goes on");
            }
            assert_eq!(seen, expected, "{order:?}, {limit} of {most_examined}");
        }
    }
}

/// Calls that a store keeps in memory are found among its tasks, and at their place.
pub async fn calls_in_memory_are_found_in_order(new_subject: NewSubject) {
    let fixture = Fixture::new(new_subject).await;
    for n in 0..6 {
        let new = new_task(&format!("t{n}"), fixture.node, n);
        let call = NewTask {
            announced: false,
            in_memory: true,
            ..new.clone()
        };
        fixture.create(if n % 2 == 0 { call } else { new }).await;
    }
    let mut seen = Vec::new();
    let mut search = search(TaskFilter::default(), 2);
    loop {
        let (found, next) = fixture.found(search.clone()).await;
        seen.push(found.join(" "));
        let Some(next) = next else { break };
        search.after = Some(id(&next));
    }
    assert_eq!(seen[..3], ["t5 t4", "t3 t2", "t1 t0"]);
    let call = fixture.store.arguments(&id("t4")).await;
    assert_eq!(call.expect("a read"), Some(Json::trusted(r#"{"of":"t4"}"#)));
}

/// Byte for byte, also when the task is over.
pub async fn arguments_are_kept_as_they_were(new_subject: NewSubject) {
    let fixture = Fixture::new(new_subject).await;
    let (task, fence) = fixture.running("a", 1).await;
    let end = vec![finished("done")];
    fixture.apply(&task.id, Some(fence), end, 2).await.expect("it ends");
    let kept = fixture.store.arguments(&task.id).await;
    assert_eq!(kept.expect("a read"), Some(Json::trusted(r#"{"of":"a"}"#)));
    assert_eq!(fixture.store.arguments(&id("b")).await, Ok(None));
}

/// From the first write, in both orders, and no longer than they are kept. Labels are a part of the task.
pub async fn tasks_are_found_by_all_of_their_labels(new_subject: NewSubject) {
    let fixture = Fixture::new(new_subject).await;
    let label = |text: &str| text.parse::<Label>().expect("a label");
    let of = |texts: &[&str]| TaskFilter {
        labels: texts.iter().map(|text| label(text)).collect(),
        ..TaskFilter::default()
    };
    for (name, labels) in [
        ("a", &["team=infra", "env=prod"][..]),
        ("b", &[]),
        ("c", &["team=infra", "env=test"]),
        ("d", &["team=infrastructure", "note=a, \"b\" = 5 €"]),
        ("e", &["env=prod", "team=infra"]),
    ] {
        let mut new = new_task(name, fixture.node, 1);
        new.header.labels = Labels::new(labels.iter().map(|text| label(text)));
        let kept = new.header.labels.clone();
        let created = fixture.create(new).await;
        assert_eq!(created.labels, kept);
        assert_eq!(fixture.get_unscoped(&id(name)).await.task.labels, kept);
    }
    assert_eq!(fixture.all_of(of(&["team=infra"])).await, "eca");
    assert_eq!(fixture.all_of(of(&["team=infra", "env=prod"])).await, "ea");
    assert_eq!(fixture.all_of(of(&["env=prod", "team=infra"])).await, "ea");
    assert_eq!(fixture.all_of(of(&["note=a, \"b\" = 5 €"])).await, "d");
    assert_eq!(fixture.all_of(of(&["team=infra", "team=infrastructure"])).await, "");
    assert_eq!(fixture.all_of(of(&["infra=team"])).await, "");
    let live = TaskFilter {
        states: State::LIVE.to_vec(),
        ..of(&["team=infra"])
    };
    assert_eq!(fixture.all_of(live.clone()).await, "eca");
    for (order, expected) in [
        (SearchOrder::NewestFirst, ["c", "a"]),
        (SearchOrder::OldestFirst, ["c", "e"]),
    ] {
        let after = match order {
            SearchOrder::NewestFirst => "e",
            SearchOrder::OldestFirst => "a",
        };
        let mut page = TaskSearch {
            order,
            after: Some(id(after)),
            ..search(of(&["team=infra"]), 1)
        };
        for name in expected {
            let (found, next) = fixture.found(page.clone()).await;
            assert_eq!(found, [name], "{order:?}");
            page.after = next.as_deref().map(id);
        }
        assert_eq!(fixture.found(page).await, (Vec::new(), None));
    }

    let cancel = vec![Event::CancelRequested(CancelMode::AtOnce)];
    let over = fixture.apply(&id("e"), None, cancel, 2).await.expect("a cancel");
    assert_eq!(fixture.all_of(live).await, "ca");
    assert_eq!(fixture.all_of(of(&["env=prod"])).await, "ea");
    let delete_at = over.delete_at().expect("a moment");
    let deleted = vec![id("e"), id("a")];
    assert_eq!(fixture.store.delete(&host(), deleted, delete_at).await, Ok(1));
    assert_eq!(fixture.all_of(of(&["env=prod"])).await, "a");
    // The id is free, and nothing is left of its labels.
    fixture.create(new_task("e", fixture.node, 3)).await;
    assert_eq!(fixture.all_of(of(&["team=infra"])).await, "ca");
}
