//! Credentials that expire or are revoked while something is open.

use super::{Authenticated, of};
use crate::{
    clock::TestClock,
    request::{Post, act, act_as_task},
    server::{Options, task_of},
};
use serde_json::json;
use std::time::Duration;

/// Ends the credentials of this token.
fn end(served: &Authenticated, token: &str) {
    match token {
        "ann-revocable" => served.tokens.revocation.revoke(),
        _ => served.tokens.clock.advance(Duration::from_secs(60)),
    }
}

async fn served() -> Authenticated {
    Authenticated::with(Options {
        clock: TestClock::standing(),
        ..Options::default()
    })
    .await
}

const TOKENS: [&str; 2] = ["ann-revocable", "ann-expiring"];

#[tokio::test]
async fn streams_and_waits_end_with_the_credentials() {
    for token in TOKENS {
        let served = served().await;
        let session = served.session(token).await;
        let create = Post::legacy(Some(&session), "tools/call", act_as_task("optional", "wait"));
        let task = task_of(&served.result(token, create).await);

        let mut push = served.listen(token, &session).await;
        let result = Post::legacy(Some(&session), "tasks/result", json!({"taskId": task}));
        let mut stream = served.server.connect().await;
        stream.send(&of(token, result.clone()).to_bytes()).await;
        assert!(stream.head().await.is_stream());
        let mut plain = served.server.connect().await;
        let result = result.with("Accept", "application/json");
        plain.send(&of(token, result).to_bytes()).await;
        let listen = json!({"notifications": {"toolsListChanged": true}});
        let mut subscription = served.server.connect().await;
        let listen = Post::modern("subscriptions/listen", listen);
        subscription.send(&of(token, listen).to_bytes()).await;
        assert!(subscription.head().await.is_stream());
        let acknowledged = subscription.message().await.unwrap();
        assert_eq!(acknowledged["method"], "notifications/subscriptions/acknowledged");

        end(&served, token);
        assert_eq!(subscription.message().await, None, "{token}");
        while let Some(message) = stream.message().await {
            assert!(message.get("id").is_none(), "{message}");
        }
        while let Some(message) = push.message().await {
            assert!(message.get("id").is_none(), "{message}");
        }
        let refused = plain.reply().await;
        assert_eq!(refused.status(), 401, "{token}");
        assert!(
            refused
                .head
                .header("www-authenticate")
                .unwrap()
                .contains("invalid_token")
        );
        assert_eq!(refused.json()["id"], 1);

        // The task goes on, for whoever has the same principal.
        served.server.stage.released.count();
        served.server.stage.finished.reaches(1).await;
    }
}

#[tokio::test]
async fn an_admitted_call_is_answered_after_its_credentials_have_ended() {
    for token in TOKENS {
        let served = served().await;
        let mut client = served.server.connect().await;
        let call = of(token, Post::modern_plain("tools/call", act("never", "wait")));
        client.send(&call.to_bytes()).await;
        served.server.stage.begun.reaches(1).await;
        end(&served, token);
        served.server.stage.released.count();
        assert_eq!(client.reply().await.status(), 200, "{token}");
    }
    let served = served().await;
    end(&served, "ann-revocable");
    let mut client = served.server.connect().await;
    client
        .send(&of("ann-revocable", Post::modern("tools/list", json!({}))).to_bytes())
        .await;
    assert_eq!(client.reply().await.status(), 401);
}
