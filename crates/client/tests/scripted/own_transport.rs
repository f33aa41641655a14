//! A transport of the application's that speaks HTTP.

use crate::{
    peer::{Peer, legacy, plain},
    task::legacy_task,
};
use futures_util::FutureExt;
use longhaul_client::{
    BoxFuture, CallResponse, Connection, HeaderMap, Options, Outcome, Outgoing, Reply, RequestError, Transport,
};
use serde_json::{Map, json};
use std::sync::atomic::{AtomicBool, Ordering};

struct OwnHttp {
    client: reqwest::Client,
    url: String,
}

impl OwnHttp {
    fn connection(peer: &Peer) -> Connection {
        longhaul_client::install_tls_provider();
        let client = reqwest::Client::new();
        Connection::over(
            Self {
                client,
                url: peer.url(),
            },
            Options::named("test", "0"),
        )
    }

    async fn post(&self, message: Outgoing) -> Result<Reply, RequestError> {
        let unreachable = |error: reqwest::Error| RequestError::Unreachable {
            address: self.url.clone(),
            reason: error.to_string(),
            stderr: None,
            connected: true,
        };
        let request = self.client.post(&self.url).headers(message.headers);
        let request = request.header("content-type", "application/json").body(message.body);
        let response = request.send().await.map_err(unreachable)?;
        let status = response.status().as_u16();
        let session = response.headers().get("mcp-session-id").cloned();
        let is_json = response
            .headers()
            .get("content-type")
            .is_some_and(|kind| kind == "application/json");
        let body = response.bytes().await.map_err(unreachable)?.to_vec();
        let reply = match status {
            _ if is_json => Reply::message(body),
            200..=299 => Reply::empty(),
            _ => {
                let body = String::from_utf8_lossy(&body).into_owned();
                return Err(RequestError::Http {
                    status,
                    body,
                    retry_after: None,
                });
            }
        };
        Ok(reply.with_head(status, session))
    }
}

impl Transport for OwnHttp {
    fn send(&self, message: Outgoing) -> BoxFuture<'_, Result<Reply, RequestError>> {
        self.post(message).boxed()
    }

    fn listen(&self, _: HeaderMap) -> BoxFuture<'_, Result<Option<Reply>, RequestError>> {
        std::future::ready(Ok(None)).boxed()
    }

    fn close(&self, _: HeaderMap) -> BoxFuture<'_, ()> {
        std::future::ready(()).boxed()
    }

    fn is_session(&self) -> bool {
        false
    }

    fn address(&self) -> &str {
        &self.url
    }
}

/// The server ends the first session while the task lives, and knows the task in the next one.
#[tokio::test]
async fn a_transport_of_the_application_has_legacy_sessions() {
    let is_lost = AtomicBool::new(false);
    let peer = legacy(json!({"requests": {"tools": {"call": {}}}}), move |seen| {
        let session = seen.header("mcp-session-id").unwrap_or_default().to_owned();
        match seen.method() {
            "tools/call" if session == "session-1" => {
                is_lost.store(true, Ordering::SeqCst);
                seen.result(json!({"task": legacy_task("working", json!({}))}))
            }
            _ if is_lost.load(Ordering::SeqCst) && session == "session-1" => plain(404, "session not found"),
            "tasks/get" => seen.result(legacy_task("completed", json!({}))),
            "tasks/result" => seen.result(json!({"content": []})),
            _ => plain(405, ""),
        }
    });
    let connection = OwnHttp::connection(&peer);
    let tool = connection.tool("optional").await.unwrap().unwrap();
    let called = connection.call_tool(&tool, &Map::new(), &mut |_| {}).await.unwrap();
    let CallResponse::Task(task) = called else {
        panic!("{called:?}")
    };
    let outcome = task.wait(&mut |_| {}).await.unwrap();
    assert!(
        matches!(outcome, Outcome::Result { is_error: false, .. }),
        "{outcome:?}"
    );
    let sessions = peer.calls_of("tasks/get");
    let sessions: Vec<_> = sessions
        .iter()
        .filter_map(|seen| seen.header("mcp-session-id"))
        .collect();
    assert_eq!(sessions, ["session-1", "session-2"]);
}
