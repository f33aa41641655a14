//! The log and the files of a task as resources.

use crate::{
    clock::TestClock,
    request::{Post, both},
    server::{Options, Server},
    stage::{FILES, LOG, file_byte},
};
use base64::prelude::{BASE64_STANDARD, Engine as _};
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

fn read(uri: &str) -> Post {
    Post::modern("resources/read", json!({"uri": uri}))
}

/// A client learns that the log is elsewhere, and not where: names of hosts are for operators.
#[tokio::test]
async fn what_is_on_another_host_is_said_to_be_there() {
    let clock = TestClock::default();
    let store = MemoryStore::of_many_nodes(Arc::new(clock.clone()), 15_000);
    let mut options = Options::with_store(Arc::new(BoundElsewhere(store)));
    options.clock = clock;
    let server = Server::with(options).await;
    let task = server.task(&Post::call("optional", "say")).await;
    server.poll(&task, "completed").await;
    for part in ["log", "history", "artifacts", "artifacts/data.bin"] {
        let reply = server.exchange(&read(&format!("longhaul://task/{task}/{part}"))).await;
        assert_eq!(reply.error(), (200, -32603), "{part}");
        let message = reply.json()["error"]["message"].to_string();
        let is_unnamed = message.contains("on another host") && !message.contains("web2");
        assert!(is_unnamed, "{message}");
    }
}

#[tokio::test]
async fn a_log_is_read_in_ranges_that_name_their_offsets() {
    let (server, session) = Server::with_session().await;
    let task = server.task(&Post::call("optional", "say")).await;
    server.poll(&task, "completed").await;
    for (range, text, stretch) in [
        ("", LOG, json!({"offset": 0, "next": 10, "total": 10})),
        ("?offset=2&limit=3", "234", json!({"offset": 2, "next": 5, "total": 10})),
        ("?offset=99", "", json!({"offset": 10, "next": 10, "total": 10})),
    ] {
        let uri = format!("longhaul://task/{task}/log{range}");
        for read in both(&session, "resources/read", json!({"uri": uri})) {
            let content = &server.result(&read).await["contents"][0];
            assert_eq!((&content["uri"], &content["text"]), (&json!(uri), &json!(text)));
            assert_eq!(content["_meta"]["dev.longhaul/log"], stretch);
        }
    }
    let modern = server.result(&read(&format!("longhaul://task/{task}/log"))).await;
    assert_eq!(modern["cacheScope"], "private");
    assert_eq!(modern["ttlMs"], 0);
}

#[tokio::test]
async fn files_are_listed_and_read_whole_or_in_ranges() {
    let (server, session) = Server::with_session().await;
    let task = server.task(&Post::call("optional", "say")).await;
    server.poll(&task, "completed").await;
    let base = format!("longhaul://task/{task}/artifacts");
    for post in both(&session, "resources/read", json!({"uri": base})) {
        let content = server.result(&post).await["contents"][0].clone();
        let list: Value = serde_json::from_str(content["text"].as_str().unwrap()).unwrap();
        let first = json!({
            "uri": format!("{base}/out/a%20b%3F.txt"),
            "name": "out/a b?.txt",
            "size": 10,
            "mimeType": "text/plain",
            "sha256": format!("{:064x}", 10),
        });
        assert_eq!(
            (&list["artifacts"][0], list["artifacts"].as_array().unwrap().len()),
            (&first, 3)
        );
        assert_eq!(list["problems"], json!(["`x` is left out"]));
    }
    let text = format!("{base}/out/a%20b%3F.txt");
    let data = format!("{base}/data.bin");
    let bytes = |range: std::ops::Range<u64>| -> Vec<u8> { range.map(|at| file_byte("data.bin", at)).collect() };
    let size = FILES[1].1;
    for (uri, body, (offset, next, total)) in [
        (text.clone(), LOG.as_bytes().to_vec(), (0, 10, 10)),
        (
            format!("{text}?offset=0&limit=10&attempt=1"),
            LOG.as_bytes().to_vec(),
            (0, 10, 10),
        ),
        (format!("{text}?offset=8"), b"89".to_vec(), (8, 10, 10)),
        (format!("{text}?offset=99"), Vec::new(), (10, 10, 10)),
        (data.clone(), bytes(0..size), (0, size, size)),
        (format!("{data}?offset=5&limit=3"), bytes(5..8), (5, 8, size)),
        (format!("{data}?limit=9999999"), bytes(0..1 << 20), (0, 1 << 20, size)),
    ] {
        for post in both(&session, "resources/read", json!({"uri": uri})) {
            let content = server.result(&post).await["contents"][0].clone();
            let read = match content["text"].as_str() {
                Some(text) => text.as_bytes().to_vec(),
                None => BASE64_STANDARD.decode(content["blob"].as_str().unwrap()).unwrap(),
            };
            assert!(read == body, "{uri}");
            assert_eq!(content["text"].is_string(), body == LOG.as_bytes(), "{uri}");
            let page = json!({"offset": offset, "next": next, "total": total, "sha256": format!("{total:064x}")});
            assert_eq!(
                (&content["uri"], &content["_meta"]["dev.longhaul/artifact"]),
                (&json!(uri), &page)
            );
        }
    }
    let refused = server.exchange(&read(&format!("{base}/large.bin"))).await;
    let message = refused.json()["error"]["message"].to_string();
    assert_eq!(refused.error(), (200, -32602));
    assert!(
        message.contains(&format!("{base}/large.bin?offset=0&limit=1048576")),
        "{message}"
    );
    for missing in [
        "artifacts/none",
        "artifacts/../log",
        "artifacts?attempt=2",
        "artifacts/data.bin?attempt=2",
        "artifacts/out",
    ] {
        let missing = server.error(&read(&format!("longhaul://task/{task}/{missing}"))).await;
        assert_eq!(missing, (200, -32602));
    }
    let subscribe = Post::legacy(Some(&session), "resources/subscribe", json!({"uri": data}));
    let message = server.exchange(&subscribe).await.json()["error"]["message"].to_string();
    assert!(
        message.contains(&format!("Only the whole can be subscribed to: {base}")),
        "{message}"
    );
}

#[tokio::test]
async fn a_log_of_another_task_is_not_found_with_the_error_of_the_era() {
    let (server, session) = Server::with_session().await;
    let other = "longhaul://task/nobody/log";
    for uri in [other, "file:///etc/passwd", "", "longhaul://task/../log"] {
        assert_eq!(server.error(&read(uri)).await, (200, -32602), "{uri}");
        let legacy = Post::legacy(Some(&session), "resources/read", json!({"uri": uri}));
        let reply = server.exchange(&legacy).await;
        assert_eq!(reply.error(), (200, -32002), "{uri}");
        assert_eq!(reply.json()["error"]["data"]["uri"], json!(uri));
    }
    let garbled = read("longhaul://task/a/log?offset=-1");
    assert_eq!(server.error(&garbled).await, (200, -32602));
}

#[tokio::test]
async fn logs_are_listed_as_a_family() {
    let (server, session) = Server::with_session().await;
    let listed = |method: &str, params: Value| both(&session, method, params);
    for post in listed("resources/templates/list", json!({})) {
        let templates = &server.result(&post).await["resourceTemplates"];
        let log = "longhaul://task/{id}/log{?attempt,offset,limit}";
        assert_eq!(templates[0]["uriTemplate"], log);
        // Whoever is shown a template may ask what its variables could become.
        for template in templates.as_array().unwrap() {
            let complete = |uri: &Value| {
                let reference = json!({"type": "ref/resource", "uri": uri});
                let params = json!({"ref": reference, "argument": {"name": "id", "value": ""}});
                listed("completion/complete", params)
            };
            for post in complete(&template["uriTemplate"]) {
                let completion = server.result(&post).await["completion"].clone();
                assert_eq!(completion["values"], json!([]), "{template}");
            }
            for post in complete(&json!("longhaul://task/{id}/other")) {
                assert_eq!(server.error(&post).await, (200, -32602));
            }
        }
    }
    for post in listed("resources/list", json!({})) {
        assert_eq!(server.result(&post).await["resources"], json!([]));
    }
    for method in ["tools/list", "resources/list", "resources/templates/list"] {
        for post in listed(method, json!({"cursor": ""})) {
            // It gave out no such cursor.
            assert_eq!(server.error(&post).await, (200, -32602), "{method}");
        }
    }
}
