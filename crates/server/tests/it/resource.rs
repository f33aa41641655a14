//! The log of a task as a resource.

use crate::{
    clock::TestClock,
    request::{Post, act},
    server::{Options, Server, task_of},
    stage::LOG,
};
use longhaul_core::{
    BoxFuture, HostId, Store, StoreLayer,
    store::{CreateError, Created, NewTask, TaskStore},
};
use longhaul_store::MemoryStore;
use serde_json::{Value, json};
use std::sync::Arc;

/// Two nodes share it. Work is bound to the host of the other one.
struct BoundElsewhere(MemoryStore);

impl StoreLayer for BoundElsewhere {
    fn inner(&self) -> &dyn Store {
        &self.0
    }

    fn create(&self, mut new: NewTask) -> BoxFuture<'_, Result<Created, CreateError>> {
        if let Some((_, host)) = &mut new.claim {
            *host = Some(HostId("web2".into()));
        }
        self.0.create(new)
    }
}

/// A client learns that the log is elsewhere, and not where: names of hosts are for operators.
#[tokio::test]
async fn what_is_on_another_host_is_said_to_be_there() {
    let clock = TestClock::default();
    let store = MemoryStore::of_many_nodes(Arc::new(clock.clone()), 15_000);
    let server = Server::with(Options {
        store: Arc::new(BoundElsewhere(store)),
        clock,
        ..Options::default()
    })
    .await;
    let task = task_of(&server.result(&Post::modern("tools/call", act("optional", "say"))).await);
    server.poll(&task, "completed").await;
    for part in ["log", "history"] {
        let read = Post::modern(
            "resources/read",
            json!({"uri": format!("longhaul://task/{task}/{part}")}),
        );
        let reply = server.connect().await.exchange(&read).await;
        assert_eq!(reply.error(), (200, -32603), "{part}");
        let message = reply.json()["error"]["message"].to_string();
        assert!(
            message.contains("on another host") && !message.contains("web2"),
            "{message}"
        );
    }
}

#[tokio::test]
async fn a_log_is_read_in_ranges_that_name_their_offsets() {
    let server = Server::start().await;
    let session = server.session().await;
    let task = task_of(&server.result(&Post::modern("tools/call", act("optional", "say"))).await);
    server.poll(&task, "completed").await;
    for (range, text, stretch) in [
        ("", LOG, json!({"offset": 0, "next": 10, "total": 10})),
        ("?offset=2&limit=3", "234", json!({"offset": 2, "next": 5, "total": 10})),
        ("?offset=99", "", json!({"offset": 10, "next": 10, "total": 10})),
    ] {
        let uri = format!("longhaul://task/{task}/log{range}");
        let reads = [
            Post::modern("resources/read", json!({"uri": uri})),
            Post::legacy(Some(&session), "resources/read", json!({"uri": uri})),
        ];
        for read in reads {
            let content = &server.result(&read).await["contents"][0];
            assert_eq!((&content["uri"], &content["text"]), (&json!(uri), &json!(text)));
            assert_eq!(content["_meta"]["dev.longhaul/log"], stretch);
        }
    }
    let modern = server
        .result(&Post::modern(
            "resources/read",
            json!({"uri": format!("longhaul://task/{task}/log")}),
        ))
        .await;
    assert_eq!(
        (&modern["cacheScope"], &modern["ttlMs"]),
        (&json!("private"), &json!(0))
    );
}

#[tokio::test]
async fn a_log_of_another_task_is_not_found_with_the_error_of_the_era() {
    let server = Server::start().await;
    let session = server.session().await;
    for uri in [
        "longhaul://task/nobody/log",
        "file:///etc/passwd",
        "",
        "longhaul://task/../log",
    ] {
        let modern = Post::modern("resources/read", json!({"uri": uri}))
            .without("Mcp-Name")
            .with("Mcp-Name", uri);
        assert_eq!(server.error(&modern).await, (200, -32602), "{uri}");
        let legacy = Post::legacy(Some(&session), "resources/read", json!({"uri": uri}));
        let reply = server.connect().await.exchange(&legacy).await;
        assert_eq!(reply.error(), (200, -32002), "{uri}");
        assert_eq!(reply.json()["error"]["data"]["uri"], json!(uri));
    }
    let garbled = json!({"uri": "longhaul://task/a/log?offset=-1"});
    assert_eq!(
        server.error(&Post::modern("resources/read", garbled)).await,
        (200, -32602)
    );
}

#[tokio::test]
async fn logs_are_listed_as_a_family() {
    let server = Server::start().await;
    let session = server.session().await;
    let listed = |method: &str, params: Value| {
        [
            Post::modern_plain(method, params.clone()),
            Post::legacy(Some(&session), method, params),
        ]
    };
    for post in listed("resources/templates/list", json!({})) {
        let templates = &server.result(&post).await["resourceTemplates"];
        assert_eq!(
            templates[0]["uriTemplate"],
            "longhaul://task/{id}/log{?attempt,offset,limit}"
        );
        // Whoever is shown a template may ask what its variables could become.
        for template in templates.as_array().unwrap() {
            let params = |uri: &Value| json!({"ref": {"type": "ref/resource", "uri": uri}, "argument": {"name": "id", "value": ""}});
            for post in listed("completion/complete", params(&template["uriTemplate"])) {
                assert_eq!(
                    server.result(&post).await["completion"]["values"],
                    json!([]),
                    "{template}"
                );
            }
            for post in listed("completion/complete", params(&json!("longhaul://task/{id}/other"))) {
                assert_eq!(server.error(&post).await, (200, -32602));
            }
        }
    }
    for post in listed("resources/list", json!({})) {
        assert_eq!(server.result(&post).await["resources"], json!([]));
    }
    for method in ["tools/list", "resources/list", "resources/templates/list"] {
        for post in listed(method, json!({"cursor": ""})) {
            assert_eq!(
                server.error(&post).await,
                (200, -32602),
                "{method} gave out no such cursor"
            );
        }
    }
}
