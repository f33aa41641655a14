//! What clients and upstreams tell each other besides calls.

use crate::{
    client::{Client, end},
    upstream::{INSTRUCTIONS, Tasks, Upstream},
    world::{RunningGateway, Seen, guarded, options, without_handoff},
};
use http::HeaderMap;
use longhaul_client::{
    CallOptions, CallResponse, ChildOptions, Connection, Event, LogLevel, Logging, Options, Outcome, WatchFilter,
};
use longhaul_core::Json;
use longhaul_gateway::{Target, UpstreamOptions};
use serde_json::{Map, Value};

async fn instructions(gateway: &RunningGateway, tasks: Tasks) -> Option<String> {
    let client = Client::connect(&gateway.url, tasks);
    guarded("the handshake", client.connection.server())
        .await
        .unwrap()
        .instructions
}

#[tokio::test]
async fn instructions_are_those_of_the_upstream() {
    let [one, two] = Upstream::of_both_eras().await;
    let directory = tempfile::tempdir().unwrap();
    let alone = |upstreams: Vec<UpstreamOptions>| upstreams.into_iter().map(without_handoff).collect();
    let gateway = RunningGateway::start(directory.path(), alone(options(&[("one", &one)]))).await;
    for tasks in [Tasks::Legacy, Tasks::Modern] {
        assert_eq!(instructions(&gateway, tasks).await.as_deref(), Some(INSTRUCTIONS));
    }
    gateway.stop().await;
    let gateway = RunningGateway::start(directory.path(), alone(options(&[("one", &one), ("two", &two)]))).await;
    let both = format!("## one\n\n{INSTRUCTIONS}\n\n## two\n\n{INSTRUCTIONS}");
    for tasks in [Tasks::Legacy, Tasks::Modern] {
        assert_eq!(instructions(&gateway, tasks).await.as_ref(), Some(&both));
    }
    gateway.stop().await;
}

/// A client that gets log messages of a level and above, and those that it has got.
pub(crate) fn listener(url: &str, tasks: Tasks, level: LogLevel) -> (Connection, Seen<String>) {
    listener_as(url, tasks, level, None)
}

/// The same, as a user.
pub(crate) fn listener_as(url: &str, tasks: Tasks, level: LogLevel, user: Option<&str>) -> (Connection, Seen<String>) {
    let heard = Seen::<String>::default();
    let list = heard.clone();
    let mut options = Options::named("client", "1.0.0");
    options.era = tasks.era();
    if let Some(user) = user {
        options.headers = HeaderMap::from_iter([("x-user".parse().unwrap(), user.parse().unwrap())]).into();
    }
    options.logging = Some(Logging::new(level, move |message| {
        list.lock().unwrap().push(message.data.to_string());
    }));
    (Connection::lazy(url, options).unwrap(), heard)
}

/// Once one client wants details, the upstream is asked for them, and other clients still get what they want.
#[tokio::test]
async fn the_most_verbose_log_level_goes_to_the_upstream() {
    for upstream_tasks in [Tasks::Legacy, Tasks::Modern] {
        for client_tasks in [Tasks::Legacy, Tasks::Modern] {
            let upstream = Upstream::start(upstream_tasks).await;
            let directory = tempfile::tempdir().unwrap();
            let gateway = RunningGateway::start(directory.path(), options(&[("up", &upstream)])).await;
            let (calm, calm_heard) = listener(&gateway.url, client_tasks, LogLevel::Info);
            let (curious, heard) = listener(&gateway.url, client_tasks, LogLevel::Debug);
            let talk = async |client: &Connection| {
                // A task has no stream for messages.
                let mut options = CallOptions::default();
                options.without_task = true;
                let tool = guarded("the tool", client.tool("talk")).await.unwrap().unwrap();
                let called = client.call_tool_with(&tool, &Map::new(), &options, &mut |_| {}).await;
                assert!(matches!(called, Ok(CallResponse::Done(_))), "{called:?}");
            };
            talk(&calm).await;
            let hears_details = async {
                while !heard.lock().unwrap().iter().any(|message| message.contains("a detail")) {
                    talk(&curious).await;
                }
            };
            guarded("the details", hears_details).await;
            calm_heard.lock().unwrap().clear();
            let hears_news = async {
                while calm_heard.lock().unwrap().is_empty() {
                    talk(&calm).await;
                }
            };
            guarded("the news", hears_news).await;
            let all = calm_heard.lock().unwrap().clone();
            assert!(all.iter().all(|message| message.contains("the news")), "{all:?}");
            gateway.stop().await;
        }
    }
}

/// Beyond what a double holds, and written as few would write them.
#[cfg(unix)]
#[tokio::test]
async fn numbers_pass_byte_for_byte() {
    let directory = tempfile::tempdir().unwrap();
    let seen = directory.path().join("call");
    let mut child = ChildOptions::new("sh", ["-c", include_str!("numbers.sh")]);
    child.env.push(("CALL".into(), seen.to_string_lossy().into_owned()));
    let upstream = UpstreamOptions::new("child", Target::Command(child));
    let gateway = RunningGateway::start(directory.path(), vec![upstream]).await;
    let numbers = r#"{"a":1e400,"b":1.0,"c":-0.0,"d":12345678901234567890123,"e":1E+2}"#;
    for tasks in Tasks::ALL {
        let client = Client::connect(&gateway.url, tasks).connection;
        let tool = guarded("the tool", client.tool("numbers")).await.unwrap().unwrap();
        let mut options = CallOptions::default();
        options.arguments_text = Some(Json::trusted(numbers.to_owned()));
        let called = guarded(
            "the call",
            client.call_tool_with(&tool, &Map::new(), &options, &mut |_| {}),
        )
        .await;
        let outcome = match called.unwrap() {
            CallResponse::Done(outcome) => outcome,
            CallResponse::Task(task) => end(&task).await,
        };
        let Outcome::Result { json, .. } = outcome else {
            panic!("{outcome:?}")
        };
        assert!(
            json.as_str().contains(&format!(r#""structuredContent":{numbers}"#)),
            "{json:?}"
        );
        let call = std::fs::read_to_string(&seen).unwrap();
        assert!(call.contains(&format!(r#""arguments":{numbers}"#)), "{call}");
        std::fs::remove_file(&seen).unwrap();
    }
    gateway.stop().await;
}

/// A client that notes log messages as they were written.
fn recorder(url: &str, tasks: Tasks) -> (Connection, Seen<Json>) {
    let seen = Seen::<Json>::default();
    let list = seen.clone();
    let mut options = Options::named("client", "1.0.0");
    options.era = tasks.era();
    options.logging = Some(Logging::new(LogLevel::Info, move |message| {
        list.lock().unwrap().push(message.params);
    }));
    (Connection::lazy(url, options).unwrap(), seen)
}

/// What lists and notifications have that nobody here knows, whatever the two sides speak.
#[cfg(unix)]
#[tokio::test]
async fn unknown_members_of_lists_and_notifications_pass_byte_for_byte() {
    for upstream_speaks in [Tasks::Legacy, Tasks::Modern] {
        for client_speaks in [Tasks::Legacy, Tasks::Modern] {
            let directory = tempfile::tempdir().unwrap();
            let mut child = ChildOptions::new("sh", ["-c", include_str!("unknown_members.sh")]);
            if matches!(upstream_speaks, Tasks::Modern) {
                child.env.push(("MODERN".into(), "yes".into()));
            }
            let upstream = UpstreamOptions {
                era: upstream_speaks.era(),
                ..UpstreamOptions::new("child", Target::Command(child))
            };
            let gateway = RunningGateway::start(directory.path(), vec![upstream]).await;
            let (client, logged) = recorder(&gateway.url, client_speaks);
            let has_all = |what: &str, text: &str, parts: &[&str]| {
                for part in parts {
                    assert!(
                        text.contains(part),
                        "{upstream_speaks:?}, {client_speaks:?}, {what}: no {part} in {text}"
                    );
                }
                assert!(!text.contains("dev.longhaul/"), "{what}: {text}");
            };
            for list in ["tools", "prompts", "resources", "resources/templates"] {
                let listed = guarded(list, client.send(&format!("{list}/list"), Value::Null))
                    .await
                    .unwrap();
                let members = [r#""com.acme/n":1.50E2"#, r#""com.acme/k":[1.0,-0.0]"#];
                has_all(list, listed.as_str(), &members);
            }

            let tool = guarded("the tool", client.tool("report")).await.unwrap().unwrap();
            let mut options = CallOptions::default();
            options.without_task = true;
            let mut reported = Vec::new();
            let on_event = &mut |event: Event<'_>| {
                if let Event::Progress(progress) = event {
                    reported.push(progress.params);
                }
            };
            let arguments = Map::new();
            let called = client.call_tool_with(&tool, &arguments, &options, on_event);
            guarded("the call", called).await.unwrap();
            let progress = [r#""progress":1E0"#, r#""com.acme/eta":[3E0]"#, r#""com.acme/k":1.0"#];
            has_all("progress", reported[0].as_str(), &progress);
            let log = [r#""data":{"a":1e400}"#, r#""com.acme/line":2.0"#, r#""com.acme/k":1.0"#];
            has_all("log", logged.lock().unwrap()[0].as_str(), &log);

            let filter = WatchFilter {
                uris: vec!["own://1".to_owned()],
                ..WatchFilter::default()
            };
            let mut watch = guarded("the subscription", client.watch(filter)).await.unwrap();
            let updated = async {
                loop {
                    // The first may be one of ours, since some may have been missed.
                    if let Some(longhaul_client::ServerChange::Resource {
                        params: Some(params), ..
                    }) = watch.next().await
                        && params.as_str().contains("com.acme")
                    {
                        return params;
                    }
                }
            };
            let updated = guarded("the update", updated).await;
            has_all(
                "updated",
                updated.as_str(),
                &[r#""com.acme/n":1E2"#, r#""com.acme/k":1.0"#],
            );
            gateway.stop().await;
        }
    }
}
