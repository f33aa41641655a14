//! Tokens that only their issuer can read.

use crate::{
    RESOURCE,
    issuer_server::{IssuerServer, Reply},
    signer::{but, claims},
    support::{START, TestClock, bearer, present},
};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use futures_util::{StreamExt as _, poll, stream::FuturesUnordered};
use http::Uri;
use longhaul_auth::oauth::{Introspection, Issuer, OAuthAuthenticator};
use longhaul_server::auth::{AuthDecision, Authenticator as _, Denied, Identity, Peer, Permission, RequestHead};
use serde_json::{Value, json};
use std::{pin::pin, sync::Arc, task::Poll, time::Duration};

const MINUTE: Duration = Duration::from_secs(60);

struct Setup {
    server: IssuerServer,
    clock: Arc<TestClock>,
    authenticator: OAuthAuthenticator,
}

impl Setup {
    async fn new() -> Self {
        let server = IssuerServer::start(Reply::Never).await;
        let (clock, ports) = TestClock::ports();
        let introspection = Introspection::new(&server.url, "mcp server", "s3cret:&").expect("an address");
        let issuer = Issuer::new(&server.url)
            .expect("an address")
            .introspection(introspection);
        let authenticator = OAuthAuthenticator::new(RESOURCE, vec![issuer], &ports).expect("issuers");
        let setup = Self {
            server,
            clock,
            authenticator,
        };
        setup.say(setup.active());
        setup
    }

    /// What the issuer says about a good token.
    fn active(&self) -> Value {
        let month = START.0 / 1000 + 30 * 24 * 3600;
        but(
            &but(&claims(&self.server.url), "active", json!(true)),
            "exp",
            json!(month),
        )
    }

    fn say(&self, answer: Value) {
        self.server.reply(Reply::Json(answer));
    }

    /// Lets time pass until so many requests came.
    async fn came(&self, requests: usize) {
        while self.server.requests() < requests {
            self.clock.pass(Duration::from_secs(1));
            tokio::task::yield_now().await;
        }
    }

    async fn identify(&self, token: &str) -> Result<Arc<Identity>, Denied> {
        present(&self.authenticator, token)
            .await
            .expect("a token is this authenticator's")
    }
}

#[tokio::test]
async fn the_issuer_is_asked_with_our_credentials_and_believed_for_a_minute() {
    let setup = Setup::new().await;
    let first = setup.identify("opaque+/token").await.expect("accepted");
    assert!(first.permissions().allows(Permission::Call("build")));
    assert_eq!(
        first.principal().as_str(),
        format!("oauth:{}\nuser:alice", setup.server.url)
    );
    let request = setup.server.last_request();
    assert!(request.starts_with("POST "), "{request}");
    // "mcp%20server:s3cret%3A%26"
    assert!(
        request.contains("Basic bWNwJTIwc2VydmVyOnMzY3JldCUzQSUyNg=="),
        "{request}"
    );
    assert!(
        request.ends_with("token=opaque%2B%2Ftoken&token_type_hint=access%5Ftoken"),
        "{request}"
    );
    let again = setup.identify("opaque+/token").await.expect("accepted");
    assert!(Arc::ptr_eq(&first, &again));
    assert_eq!(setup.server.requests(), 1);
    setup.clock.pass(MINUTE);
    let again = setup.identify("opaque+/token").await.expect("accepted");
    assert!(
        Arc::ptr_eq(&first, &again),
        "the same answer makes nobody a new identity"
    );
    assert!(setup.server.requests() >= 2);
}

/// A token that is encrypted for its issuer tells nobody else anything.
#[tokio::test]
async fn the_issuer_is_asked_about_an_encrypted_token() {
    let setup = Setup::new().await;
    let header = URL_SAFE_NO_PAD.encode(r#"{"alg":"dir","enc":"A256GCM","typ":"JWT"}"#);
    let accepted = setup.identify(&format!("{header}..aXY.Y2lwaGVydGV4dA.dGFn")).await;
    assert!(accepted.is_ok(), "{accepted:?}");
    assert_eq!(setup.server.requests(), 1);
}

/// The server lets them wait for the issuer where it refuses others, because too many requests of their address were denied.
#[tokio::test]
async fn tokens_that_were_accepted_are_told_from_others_when_the_issuer_is_asked_again() {
    let setup = Setup::new().await;
    let headers = bearer("opaque");
    let uri = Uri::from_static("/mcp");
    let head = RequestHead {
        headers: &headers,
        uri: &uri,
        peer: &Peer::Unknown,
    };
    let decide = || setup.authenticator.authenticate(&head);
    assert!(matches!(decide(), AuthDecision::Pending(_)));
    assert!(setup.identify("opaque").await.is_ok());
    setup.clock.pass(MINUTE);
    assert!(matches!(decide(), AuthDecision::Renewing(_)));
    setup.say(json!({"active": false}));
    // The watch of what the token has opened may have asked already.
    while setup.identify("opaque").await.is_ok() {
        setup.clock.pass(MINUTE);
    }
    setup.clock.pass(MINUTE);
    assert!(matches!(decide(), AuthDecision::Pending(_)));
}

#[tokio::test]
async fn answers_that_do_not_fit_are_refused_and_remembered() {
    let setup = Setup::new().await;
    let good = setup.active();
    for (at, answer) in [
        json!({"active": false}),
        json!({"active": true}),
        but(&good, "aud", Value::Null),
        but(&good, "aud", json!("https://other.example")),
        but(&good, "iss", json!("https://other.example")),
        but(&good, "exp", json!(1)),
        but(&good, "sub", json!("")),
        but(&good, "token_use", json!("refresh")),
        but(&good, "token_type", json!("refresh_token")),
        but(&good, "token_type", json!("DPoP")),
        but(&good, "cnf", json!({"jkt": "x"})),
    ]
    .into_iter()
    .enumerate()
    {
        setup.say(answer.clone());
        let token = format!("opaque{at}");
        for _ in 0..3 {
            assert!(
                matches!(setup.identify(&token).await, Err(Denied::Invalid { .. })),
                "{answer}"
            );
        }
        assert_eq!(setup.server.requests(), at + 1);
    }
    setup.say(but(&good, "iss", Value::Null));
    assert!(
        setup.identify("without-issuer").await.is_ok(),
        "the issuer need not name itself"
    );
}

#[tokio::test]
async fn answers_that_make_no_sense_concern_their_token_alone() {
    let setup = Setup::new().await;
    for (at, reply) in [
        Reply::Text("401 Unauthorized", "{\"active\": true}"),
        Reply::Text("400 Bad Request", "{\"error\": \"invalid_client\"}"),
        Reply::Text("503 Service Unavailable", ""),
        Reply::Text("200 OK", "active"),
        Reply::Text("200 OK", "{\"active\": \"true\"}"),
        Reply::Text("200 OK", "{}"),
        Reply::Endless,
    ]
    .into_iter()
    .enumerate()
    {
        setup.server.reply(reply);
        assert!(matches!(setup.identify("bad").await, Err(Denied::Unavailable { .. })));
        let requests = setup.server.requests();
        assert!(matches!(setup.identify("bad").await, Err(Denied::Unavailable { .. })));
        assert_eq!(setup.server.requests(), requests, "it is not asked again at once");
        setup.say(setup.active());
        assert!(setup.identify(&format!("good{at}")).await.is_ok());
        setup.clock.pass(Duration::from_secs(2));
    }
    assert!(setup.identify("bad").await.is_ok());
}

#[tokio::test]
async fn a_token_that_the_issuer_refuses_to_look_at_is_refused() {
    let setup = Setup::new().await;
    for (token, reply) in [
        ("a", Reply::Text("400 Bad Request", "{\"error\": \"invalid_request\"}")),
        ("b", Reply::Text("400 Bad Request", "")),
        ("c", Reply::Text("413 Payload Too Large", "")),
        ("d", Reply::Text("422 Unprocessable Content", "")),
    ] {
        setup.server.reply(reply);
        assert!(matches!(setup.identify(token).await, Err(Denied::Invalid { .. })));
    }
}

/// An issuer must not get the secret of a key that was copied with a mistake.
#[tokio::test]
async fn what_looks_like_an_api_key_is_shown_to_no_issuer() {
    let setup = Setup::new().await;
    let secret = "A".repeat(43);
    for prefix in ["Lhk_", "LHK_", "hk_", "HK_", "lhk"] {
        let refused = setup.identify(&format!("{prefix}{secret}")).await;
        assert!(matches!(refused, Err(Denied::Invalid { .. })), "{prefix}");
    }
    assert!(present(&setup.authenticator, &format!("lhk_{secret}")).await.is_none());
    assert_eq!(setup.server.requests(), 0);
}

#[tokio::test]
async fn an_issuer_that_cannot_be_reached_is_left_alone_for_a_while() {
    let setup = Setup::new().await;
    setup.server.reply(Reply::Never);
    {
        let mut late = pin!(setup.identify("late"));
        while poll!(&mut late).is_pending() {
            if setup.server.requests() == 1 {
                setup.clock.pass(Duration::from_secs(1));
            }
            tokio::task::yield_now().await;
        }
    }
    setup.say(setup.active());
    let requests = setup.server.requests();
    assert!(matches!(setup.identify("other").await, Err(Denied::Unavailable { .. })));
    assert_eq!(setup.server.requests(), requests);
    setup.clock.pass(Duration::from_secs(2));
    assert!(setup.identify("other").await.is_ok());
}

#[tokio::test]
async fn invented_tokens_do_not_keep_known_ones_waiting() {
    let setup = Setup::new().await;
    assert!(setup.identify("known").await.is_ok());
    setup.clock.pass(MINUTE);
    setup.server.reply(Reply::Never);
    let tokens = Vec::from_iter((0..40).map(|at| format!("invented{at}")));
    let mut invented = FuturesUnordered::from_iter(tokens.iter().map(|token| setup.identify(token)));
    let mut refused = 0;
    while setup.server.requests() < 1 + 16 {
        while let Poll::Ready(Some(result)) = poll!(invented.next()) {
            assert!(matches!(result, Err(Denied::Unavailable { .. })));
            refused += 1;
        }
        tokio::task::yield_now().await;
    }
    assert_eq!((invented.len(), refused), (16, 24));
    setup.say(setup.active());
    assert!(setup.identify("known").await.is_ok());
    assert!(matches!(
        setup.identify("one more").await,
        Err(Denied::Unavailable { .. })
    ));
}

#[tokio::test]
async fn requests_with_one_token_share_one_question() {
    let setup = Setup::new().await;
    let many = Vec::from_iter((0..20).map(|_| setup.identify("opaque")));
    for result in futures_util::future::join_all(many).await {
        assert!(result.is_ok());
    }
    assert_eq!(setup.server.requests(), 1);
}

#[tokio::test]
async fn a_revoked_token_ends_what_it_has_opened() {
    let setup = Setup::new().await;
    // Held as a stream holds it: no further request comes.
    let stream = setup.identify("opaque").await.expect("accepted");
    setup.came(3).await;
    assert!(!stream.is_revoked());
    setup.say(json!({"active": false}));
    while !stream.is_revoked() {
        setup.clock.pass(Duration::from_secs(1));
        tokio::task::yield_now().await;
    }
    assert!(matches!(setup.identify("opaque").await, Err(Denied::Invalid { .. })));
}

#[tokio::test]
async fn a_stream_that_is_opened_late_ends_with_its_token_too() {
    let setup = Setup::new().await;
    drop(setup.identify("opaque").await.expect("accepted"));
    // Whoever looked after the token has stopped, as nobody held it.
    for _ in 0..200 {
        setup.clock.pass(Duration::from_secs(1));
        tokio::task::yield_now().await;
    }
    assert_eq!(setup.server.requests(), 1);
    // The issuer is asked by this request, and the next one finds its answer.
    drop(setup.identify("opaque").await.expect("accepted"));
    let stream = setup.identify("opaque").await.expect("accepted");
    setup.say(json!({"active": false}));
    while !stream.is_revoked() {
        setup.clock.pass(Duration::from_secs(1));
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn fewer_scopes_end_what_was_opened_with_more() {
    let setup = Setup::new().await;
    let stream = setup.identify("opaque").await.expect("accepted");
    setup.say(but(&setup.active(), "scope", json!("tasks:read")));
    setup.clock.pass(MINUTE);
    let fewer = loop {
        let identity = setup.identify("opaque").await.expect("accepted");
        if !Arc::ptr_eq(&identity, &stream) {
            break identity;
        }
        tokio::task::yield_now().await;
    };
    assert!(stream.is_revoked() && !fewer.is_revoked());
    assert!(!fewer.permissions().allows(Permission::Call("build")));
}

#[tokio::test]
async fn an_issuer_that_stays_away_ends_what_its_tokens_have_opened() {
    let setup = Setup::new().await;
    let stream = setup.identify("opaque").await.expect("accepted");
    setup.server.reply(Reply::Text("503 Service Unavailable", ""));
    setup.clock.pass(MINUTE);
    // A request meanwhile, which learns nothing, does not keep the stream from being looked after.
    assert!(matches!(
        setup.identify("opaque").await,
        Err(Denied::Unavailable { .. })
    ));
    assert!(!stream.is_revoked());
    while !stream.is_revoked() {
        setup.clock.pass(Duration::from_secs(1));
        tokio::task::yield_now().await;
    }
    assert!(setup.server.requests() > 4);
}

#[tokio::test]
async fn nobody_is_asked_about_tokens_that_nothing_holds() {
    let setup = Setup::new().await;
    drop(setup.identify("opaque").await.expect("accepted"));
    setup.clock.pass(10 * MINUTE);
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    assert_eq!(setup.server.requests(), 1);
}
