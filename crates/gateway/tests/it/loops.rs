//! Gateways in front of each other.

use crate::{
    client::Client,
    upstream::{Tasks, Upstream},
    world::{RunningGateway, at_url, options, until},
};
use longhaul_gateway::{UpstreamOptions, UpstreamStatus};
use serde_json::{Map, Value, json};

/// An address that nobody listens at yet.
fn free_address() -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().to_string()
}

fn gateway_at(name: &str, address: &str) -> UpstreamOptions {
    let target = at_url(format!("http://{address}/mcp"));
    UpstreamOptions::new(name, target)
}

/// Why the gateway does not offer the upstream, if it is because of a loop.
async fn loop_at(gateway: &RunningGateway, upstream: &str) -> Option<String> {
    let statuses = gateway.statuses().await;
    statuses.into_iter().find_map(|(name, status)| match status {
        UpstreamStatus::Down { reason } if name == upstream && reason.contains("loop of gateways") => Some(reason),
        _ => None,
    })
}

async fn until_loop(gateways: &[(&RunningGateway, &str)]) -> String {
    let found = async {
        loop {
            for (gateway, upstream) in gateways {
                if let Some(reason) = loop_at(gateway, upstream).await {
                    return reason;
                }
            }
            tokio::task::yield_now().await;
        }
    };
    crate::world::guarded("the loop to be found", found).await
}

#[tokio::test]
async fn a_gateway_in_front_of_itself_is_refused() {
    let upstream = Upstream::start(Tasks::Modern).await;
    let (directory, address) = (tempfile::tempdir().unwrap(), free_address());
    let mut upstreams = options(&[("up", &upstream)]);
    upstreams.push(gateway_at("me", &address));
    let gateway = RunningGateway::start_at(directory.path(), upstreams, &address).await;
    let reason = until_loop(&[(&gateway, "me")]).await;
    assert!(reason.contains("upstream `me` leads back"), "{reason}");
    let tools = gateway.server.engine().unwrap().catalog().snapshot();
    assert!(
        tools.tools.keys().all(|name| name.starts_with("up_")),
        "{:?}",
        tools.tools.keys()
    );
    drop(tools);
    gateway.stop().await;
}

#[tokio::test]
async fn two_gateways_in_front_of_each_other_are_refused() {
    let upstream = Upstream::start(Tasks::Legacy).await;
    let directories = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let [one_at, other_at] = [(); 2].map(|()| free_address());
    let mut upstreams = options(&[("up", &upstream)]);
    upstreams.push(gateway_at("other", &other_at));
    let one = RunningGateway::start_at(directories[0].path(), upstreams, &one_at).await;
    let other = RunningGateway::start_at(directories[1].path(), vec![gateway_at("one", &one_at)], &other_at).await;
    let reason = until_loop(&[(&one, "other"), (&other, "one")]).await;
    assert!(
        reason.contains("`other`, then its upstream `one` leads back")
            || reason.contains("`one`, then its upstream `other` leads back"),
        "{reason}"
    );
    // One of them goes on.
    let engines = [&one, &other].map(|gateway| gateway.server.engine().unwrap());
    until("the tools", || {
        let offers = |name: &str| engines.iter().any(|engine| engine.catalog().tool(name).is_some());
        offers("up_echo") && !offers("other_up_echo")
    })
    .await;
    drop(engines);
    one.stop().await;
    other.stop().await;
}

/// As it comes through a program that does not know of gateways.
#[tokio::test]
async fn a_call_that_has_passed_many_gateways_is_refused() {
    let upstream = Upstream::start(Tasks::Modern).await;
    let directory = tempfile::tempdir().unwrap();
    let gateway = RunningGateway::start(directory.path(), options(&[("up", &upstream)])).await;
    let client = Client::connect(&gateway.url, Tasks::None);
    let call = async |hops: u32| {
        let params = json!({"name": "echo", "arguments": Map::new(), "_meta": {"dev.longhaul/hops": hops}});
        let result = client.connection.send("tools/call", params).await.unwrap();
        serde_json::from_str::<Value>(result.as_str()).unwrap()
    };
    assert_eq!(call(7).await["structuredContent"]["echo"], json!({}));
    let refused = call(8).await;
    assert_eq!(refused["isError"], true);
    assert!(refused.to_string().contains("loop of gateways"), "{refused}");
    gateway.stop().await;
}
