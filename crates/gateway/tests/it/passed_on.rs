//! What clients and upstreams tell each other besides calls.

use crate::{
    client::Client,
    upstream::{INSTRUCTIONS, Tasks, Upstream},
    world::{RunningGateway, Seen, guarded, options},
};
use http::HeaderMap;
use longhaul_client::{CallOptions, CallResponse, Connection, LogLevel, Logging, Options};
use serde_json::Map;

async fn instructions(gateway: &RunningGateway, tasks: Tasks) -> Option<String> {
    let client = Client::connect(&gateway.url, tasks);
    guarded("the handshake", client.connection.server())
        .await
        .unwrap()
        .instructions
}

#[tokio::test]
async fn instructions_are_those_of_the_upstream() {
    let [one, two] = [
        Upstream::start(Tasks::Legacy).await,
        Upstream::start(Tasks::Modern).await,
    ];
    let directory = tempfile::tempdir().unwrap();
    let gateway = RunningGateway::start(directory.path(), options(&[("one", &one)])).await;
    for tasks in [Tasks::Legacy, Tasks::Modern] {
        assert_eq!(instructions(&gateway, tasks).await.as_deref(), Some(INSTRUCTIONS));
    }
    gateway.stop().await;
    let gateway = RunningGateway::start(directory.path(), options(&[("one", &one), ("two", &two)])).await;
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
        options.headers = HeaderMap::from_iter([("x-user".parse().unwrap(), user.parse().unwrap())]);
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
