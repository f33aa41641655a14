//! Notifications of clients that the author handles.

use super::Members;
use crate::{ERAS, connect, start};
use longhaul::{Era, Error, RawJson, RequestContext, Server};
use reqwest::Client as Http;
use serde_json::{Value, json};
use std::{sync::Arc, time::Duration};
use tokio::sync::{Notify, mpsc};

/// What a handler has got: its name, the method, the era, the params.
type Got = (&'static str, String, Era, Value);

fn handling(server: Server, got: &mpsc::UnboundedSender<Got>) -> Server {
    let [initialized, roots, own, other] = [got.clone(), got.clone(), got.clone(), got.clone()];
    let report = |got: &mpsc::UnboundedSender<Got>, name, method: &str, cx: &RequestContext, params: Members| {
        got.send((name, method.to_owned(), cx.era(), params.into())).unwrap();
        Ok::<_, Error>(())
    };
    server
        .notification(
            "notifications/initialized",
            move |cx: RequestContext, params: Members| {
                std::future::ready(report(
                    &initialized,
                    "initialized",
                    "notifications/initialized",
                    &cx,
                    params,
                ))
            },
        )
        .notification(
            "notifications/roots/list_changed",
            move |cx: RequestContext, params: Members| {
                std::future::ready(report(&roots, "roots", "notifications/roots/list_changed", &cx, params))
            },
        )
        .notification(
            "notifications/com.example/own",
            move |cx: RequestContext, params: RawJson| {
                let params = serde_json::from_str(params.as_str()).unwrap();
                std::future::ready(report(&own, "own", "notifications/com.example/own", &cx, params))
            },
        )
        .fallback_notification(move |cx: RequestContext, method: String, params: Members| {
            std::future::ready(report(&other, "other", &method, &cx, params))
        })
}

#[tokio::test]
async fn an_author_is_told_of_notifications() {
    let (sender, mut got) = mpsc::unbounded_channel();
    let server = start(|server| handling(server, &sender)).await;
    for era in ERAS {
        let client = connect(&server, era).await;
        if era == Era::Legacy {
            let (name, _, said, _) = got.recv().await.unwrap();
            assert_eq!((name, said), ("initialized", Era::Legacy));
        }
        for (method, name) in [
            ("notifications/com.example/own", "own"),
            ("notifications/com.example/other", "other"),
            ("anything", "other"),
            ("notifications/roots/list_changed", "roots"),
        ] {
            client.notify(method, json!({"n": 1})).await.unwrap();
            let (handler, said, of, params) = got.recv().await.unwrap();
            assert_eq!((handler, &*said, of), (name, method, era));
            assert_eq!(params["n"], 1, "{params}");
        }
        // The server's own are not for the fallback.
        client
            .notify("notifications/cancelled", json!({"requestId": 77}))
            .await
            .unwrap();
        client
            .notify("notifications/progress", json!({"progressToken": 1, "progress": 1}))
            .await
            .unwrap();
        client.notify("last", json!({})).await.unwrap();
        assert_eq!(got.recv().await.unwrap().1, "last");
    }
}

#[tokio::test]
async fn notifications_are_handled_over_http() {
    // There may be one already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let (sender, mut got) = mpsc::unbounded_channel();
    let server = start(|server| handling(server, &sender)).await;
    let listener = server.listen("127.0.0.1:0").await.unwrap();
    let url = listener.url();
    let engine = server.engine().unwrap();
    engine.spawn(listener.serve_until(std::future::pending()));
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "c", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    for era in ERAS {
        for method in ["notifications/com.example/own", "notifications/com.example/other"] {
            let (version, params) = match era {
                Era::Legacy => ("2025-11-25", json!({"n": 2})),
                Era::Modern => ("2026-07-28", json!({"n": 2, "_meta": meta})),
            };
            let message = json!({"jsonrpc": "2.0", "method": method, "params": params});
            let sent = Http::new()
                .post(&url)
                .header("Accept", "application/json, text/event-stream")
                .header("MCP-Protocol-Version", version)
                .header("Mcp-Method", method)
                .json(&message)
                .send()
                .await
                .unwrap();
            assert_eq!(sent.status(), 202);
            let (_, said, of, params) = got.recv().await.unwrap();
            assert_eq!((&*said, of, &params["n"]), (method, era, &json!(2)));
        }
    }
}

/// A slow handler does not hold up the requests of its client, an error does no harm, and neither does a panic.
#[tokio::test]
async fn a_handler_holds_up_nothing() {
    let go_on = Arc::new(Notify::new());
    let (waiting, (done, mut ended)) = (Arc::clone(&go_on), mpsc::unbounded_channel());
    let server = start(|server| {
        server.fallback_notification(move |cx: RequestContext, method: String, _: Members| {
            let (waiting, done) = (Arc::clone(&waiting), done.clone());
            async move {
                match &*method {
                    "fails" => return Err(Error::new("no")),
                    "panics" => panic!("a handler that panics, as the test wants it"),
                    "asks" => {
                        let refused = cx.roots().await.unwrap_err();
                        done.send(refused.to_string()).unwrap();
                    }
                    _ => {
                        waiting.notified().await;
                        done.send(method).unwrap();
                    }
                }
                Ok(())
            }
        })
    })
    .await;
    for era in ERAS {
        let client = connect(&server, era).await;
        for method in ["slow", "fails", "panics", "asks"] {
            client.notify(method, json!({})).await.unwrap();
        }
        client.request("tools/list", json!({})).await.unwrap();
        // It has no request that could be answered with a question.
        assert!(ended.recv().await.unwrap().contains("withdrawn"));
        go_on.notify_one();
        assert_eq!(ended.recv().await.unwrap(), "slow");
    }
    // Beyond 64 of one principal, its next notification waits, and what it sends after it.
    let client = connect(&server, Era::Modern).await;
    for _ in 0..64 {
        client.notify("slow", json!({})).await.unwrap();
    }
    client.request("tools/list", json!({})).await.unwrap();
    client.notify("slow", json!({})).await.unwrap();
    let next = client.request("tools/list", json!({}));
    tokio::pin!(next);
    let engine = server.engine().unwrap();
    let too_early = engine.ports().within(Duration::from_millis(200), &mut next).await;
    assert!(too_early.is_none(), "{too_early:?}");
    go_on.notify_one();
    next.await.unwrap();
}

#[tokio::test]
async fn two_handlers_of_one_notification_are_a_mistake() {
    let nothing = async |_: RequestContext, _: Members| Ok::<_, Error>(());
    let wrong = Server::new("test", "1")
        .notification("notifications/com.example/n", nothing)
        .notification("notifications/com.example/n", nothing);
    let wrong = wrong.start().await.unwrap_err().to_string();
    assert!(
        wrong.contains("notification `notifications/com.example/n`: there are two of this name"),
        "{wrong}"
    );
}
