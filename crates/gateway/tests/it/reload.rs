//! Another configuration while the gateway runs.

use crate::{
    client::{Client, end, success},
    upstream::{Tasks, Upstream},
    world::{RunningGateway, guarded, options, until},
};
use serde_json::json;

fn offers(gateway: &RunningGateway, tool: &str) -> bool {
    let engine = gateway.server.engine().unwrap();
    engine.catalog().tool(tool).is_some()
}

#[tokio::test]
async fn upstreams_come_and_go_and_tasks_stay() {
    for tasks in Tasks::ALL {
        let [one, two] = [Upstream::start(tasks).await, Upstream::start(tasks).await];
        let three = Upstream::start(tasks).await;
        let directory = tempfile::tempdir().unwrap();
        let gateway = RunningGateway::start(directory.path(), options(&[("one", &one), ("two", &two)])).await;
        let client = Client::connect(&gateway.url, Tasks::Modern);
        let mut held = Vec::new();
        for upstream in ["one", "two"] {
            held.push(client.task(&format!("{upstream}_hold"), json!({})).await);
        }
        one.has_begun(1).await;
        two.has_begun(1).await;

        let later = options(&[("two", &two), ("three", &three)]);
        let reloaded = gateway.reload(later).await.unwrap();
        let expected = (vec!["three".to_owned()], vec!["one".to_owned()]);
        assert_eq!((reloaded.added, reloaded.removed), expected);
        assert_eq!(reloaded.changed, [""; 0]);
        let is_followed = || offers(&gateway, "three_echo") && !offers(&gateway, "one_echo");
        until("the tools", is_followed).await;
        assert!(offers(&gateway, "two_echo"));
        let client = Client::connect(&gateway.url, Tasks::Modern);
        client.text("three_echo", json!({})).await;

        // That of the upstream that is gone, too.
        one.release();
        two.release();
        for task in held {
            let outcome = end(&task).await;
            assert!(success(&outcome).contains("held"), "{outcome:?}");
        }
        assert_eq!((one.begun(), two.begun()), (1, 1));
        gateway.stop().await;
    }
}

/// The name stays, the settings and the place do not.
#[tokio::test]
async fn a_changed_upstream_is_connected_to_anew() {
    let [before, after] = Upstream::of_both_eras().await;
    let directory = tempfile::tempdir().unwrap();
    let gateway = RunningGateway::start(directory.path(), options(&[("up", &before)])).await;
    let unchanged = gateway.reload(options(&[("up", &before)])).await.unwrap();
    assert_eq!(unchanged, longhaul_gateway::Reloaded::default());

    let mut upstreams = options(&[("up", &after)]);
    upstreams[0].tools.rename.insert("echo".to_owned(), "parrot".to_owned());
    let reloaded = gateway.reload(upstreams).await.unwrap();
    assert_eq!(reloaded.changed, ["up"]);
    until("the tools", || offers(&gateway, "parrot") && !offers(&gateway, "echo")).await;
    before.stop().await;
    let client = Client::connect(&gateway.url, Tasks::Modern);
    assert_eq!(
        client.result("parrot", json!({"a": 1})).await["structuredContent"]["echo"]["a"],
        1
    );
    gateway.stop().await;
}

#[tokio::test]
async fn a_wrong_configuration_changes_nothing() {
    let upstream = Upstream::start(Tasks::Legacy).await;
    let directory = tempfile::tempdir().unwrap();
    let gateway = RunningGateway::start(directory.path(), options(&[("up", &upstream)])).await;
    let twice = options(&[("one", &upstream), ("one", &upstream)]);
    let error = gateway.reload(twice).await.unwrap_err();
    assert_eq!(error.to_string(), "two upstreams are named `one`");
    let client = Client::connect(&gateway.url, Tasks::None);
    client.text("echo", json!({})).await;
    gateway.stop().await;
}

/// Without prefixes: a new upstream has tools of the names of another one's.
#[tokio::test]
async fn a_configuration_with_names_that_collide_changes_nothing() {
    let [one, two] = Upstream::of_both_eras().await;
    let directory = tempfile::tempdir().unwrap();
    let gateway = RunningGateway::start_bare(directory.path(), options(&[("one", &one)])).await;
    let both = options(&[("one", &one), ("two", &two)]);
    let error = gateway.reload_bare(both.clone()).await.unwrap_err();
    let expected = "upstream `two`: its tool `echo` is not offered: upstream `one` has one of the name `echo`; rename it with `tools.rename`, or use prefixes";
    assert!(error.to_string().lines().any(|line| line == expected), "{error}");
    let names: Vec<String> = gateway.statuses().await.into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["one"]);
    Client::connect(&gateway.url, Tasks::None).text("echo", json!({})).await;

    let mut renamed = both;
    renamed[1].tools.allow = vec!["echo".parse().unwrap()];
    renamed[1].tools.rename.insert("echo".to_owned(), "parrot".to_owned());
    let reloaded = gateway.reload_bare(renamed).await.unwrap();
    assert_eq!(reloaded.added, ["two"]);
    until("the tools", || offers(&gateway, "parrot") && offers(&gateway, "echo")).await;
    gateway.stop().await;
}

/// Its turn comes after it was switched off.
#[tokio::test]
async fn a_tool_that_was_switched_off_is_not_called_any_more() {
    let upstream = Upstream::start(Tasks::Legacy).await;
    let directory = tempfile::tempdir().unwrap();
    let mut upstreams = options(&[("up", &upstream)]);
    upstreams[0].concurrency = Some(1);
    let gateway = RunningGateway::start(directory.path(), upstreams.clone()).await;
    let client = Client::connect(&gateway.url, Tasks::Modern);
    let first = client.task("hold", json!({})).await;
    upstream.has_begun(1).await;
    let other = Client::connect(&gateway.url, Tasks::None);
    let second = other.call("echo", json!({}));
    let reload = async {
        gateway.has_waiting().await;
        // The last one counts.
        upstreams[0].tools.rename.insert("hold".to_owned(), "held".to_owned());
        gateway.reload(upstreams.clone()).await.unwrap();
        upstreams[0].tools.deny = vec!["echo".parse().unwrap()];
        gateway.reload(upstreams).await.unwrap();
    };
    let (refused, ()) = tokio::join!(guarded("the end of the call", second), reload);
    let refused = format!("{refused:?}");
    assert!(refused.contains("`echo` of upstream `up` is switched off"), "{refused}");
    upstream.release();
    let outcome = end(&first).await;
    assert!(format!("{outcome:?}").contains("held"), "{outcome:?}");
    gateway.stop().await;
}

#[tokio::test]
async fn calls_from_before_the_change_count_among_those_that_run_at_once() {
    let upstream = Upstream::start(Tasks::Legacy).await;
    let directory = tempfile::tempdir().unwrap();
    let mut upstreams = options(&[("up", &upstream)]);
    upstreams[0].concurrency = Some(1);
    let gateway = RunningGateway::start(directory.path(), upstreams.clone()).await;
    let client = Client::connect(&gateway.url, Tasks::Modern);
    let begin = async || client.task("hold", json!({})).await;
    let first = begin().await;
    upstream.has_begun(1).await;
    upstreams[0].tools.rename.insert("echo".to_owned(), "parrot".to_owned());
    gateway.reload(upstreams).await.unwrap();
    until("the tools", || offers(&gateway, "parrot")).await;
    let second = begin().await;
    gateway.has_waiting().await;
    for (begun, task) in [(1, first), (2, second)] {
        upstream.has_begun(begun).await;
        assert_eq!(upstream.begun(), begun);
        upstream.release();
        let outcome = end(&task).await;
        assert!(format!("{outcome:?}").contains("held"), "{outcome:?}");
    }
    gateway.stop().await;
}
