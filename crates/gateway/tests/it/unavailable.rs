//! What clients learn while no upstream can be reached.

use crate::{
    client::Client,
    upstream::{Tasks, Upstream},
    world::{RunningGateway, guarded, options, until},
};
use http::HeaderMap;
use longhaul_client::RequestError;
use longhaul_gateway::Target;

/// A list without tools would look as if nothing was wrong.
#[tokio::test]
async fn a_gateway_without_any_upstream_says_why_it_has_no_tools() {
    let up = Upstream::start(Tasks::Modern).await;
    let mut upstreams = options(&[("down", &up), ("up", &up)]);
    upstreams[0].target = Target::Http {
        url: "http://127.0.0.1:1/mcp?key=SECRET".to_owned(),
        headers: HeaderMap::new(),
        tokens: None,
    };
    let directory = tempfile::tempdir().unwrap();
    let gateway = RunningGateway::start(directory.path(), upstreams[..1].to_vec()).await;
    for tasks in Tasks::ALL {
        let client = Client::connect(&gateway.url, tasks);
        let refused = guarded("the list", client.connection.list_tools()).await.map(drop);
        let Err(RequestError::Rpc(failure)) = &refused else {
            panic!("{refused:?}")
        };
        let why = "There are no tools: upstream `down`: it cannot be reached";
        assert!(failure.message.starts_with(why), "{failure:?}");
        assert!(!failure.message.contains("SECRET"), "{failure:?}");
    }
    // One that answers is enough.
    gateway.reload(upstreams.clone()).await.unwrap();
    let client = Client::connect(&gateway.url, Tasks::Modern);
    let engine = gateway.server.engine().unwrap();
    until("the tools", || engine.catalog().tool("up_echo").is_some()).await;
    assert!(!client.connection.list_tools().await.unwrap().is_empty());
    gateway.reload(upstreams[..1].to_vec()).await.unwrap();
    // It is dialled anew.
    until("the reason", || engine.catalog().snapshot().unavailable.is_some()).await;
    // The other one has kept the list.
    let client = Client::connect(&gateway.url, Tasks::Modern);
    let refused = client.connection.list_tools().await.map(drop);
    assert!(
        matches!(&refused, Err(RequestError::Rpc(failure)) if failure.message.starts_with("There are no tools")),
        "{refused:?}"
    );
    gateway.stop().await;
}
