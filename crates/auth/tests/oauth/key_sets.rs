//! Issuers whose keys change, and whose server is down, slow, lying or huge.

use crate::{
    RESOURCE,
    issuer_server::{IssuerServer, Reply},
    signer::{Signer, but, claims, key_set},
    support::{START, TestClock, present},
};
use longhaul_auth::oauth::{Issuer, OAuthAuthenticator};
use longhaul_server::auth::{Denied, Identity};
use serde_json::{Value, json};
use std::{future::poll_fn, pin::pin, sync::Arc, task::Poll, time::Duration};

const ISSUER: &str = "https://login.example/realm";
const SECOND: Duration = Duration::from_secs(1);
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

struct Setup {
    server: IssuerServer,
    clock: Arc<TestClock>,
    authenticator: OAuthAuthenticator,
}

impl Setup {
    /// An issuer whose server answers so when the first token comes.
    async fn new(reply: Reply) -> Self {
        let server = IssuerServer::start(reply).await;
        let (clock, ports) = TestClock::ports();
        let issuer = Issuer::new(&server.url).and_then(|issuer| issuer.jwks(&server.url));
        let authenticator =
            OAuthAuthenticator::new(RESOURCE, vec![issuer.expect("an address")], &ports).expect("issuers");
        Self {
            server,
            clock,
            authenticator,
        }
    }

    /// A token for a month.
    fn token(&self, signer: &Signer) -> String {
        let month = START.0 / 1000 + 30 * 24 * 3600;
        signer.sign(&but(&claims(&self.server.url), "exp", json!(month)))
    }

    async fn identify(&self, token: &str) -> Result<Arc<Identity>, Denied> {
        present(&self.authenticator, token)
            .await
            .expect("a token is this authenticator's")
    }

    async fn is_unavailable(&self, token: &str) -> bool {
        matches!(self.identify(token).await, Err(Denied::Unavailable { .. }))
    }
}

fn keys<'a>(signers: impl IntoIterator<Item = &'a Signer>) -> Reply {
    Reply::Json(key_set(signers))
}

#[tokio::test]
async fn a_new_key_is_fetched_when_its_first_token_comes_and_old_ones_go_on() {
    let (old, new) = (Signer::new("ES256", "old"), Signer::new("ES256", "new"));
    let setup = Setup::new(keys([&old])).await;
    let old_token = setup.token(&old);
    let holder = setup.identify(&old_token).await.expect("accepted");
    setup.server.reply(keys([&old, &new]));
    setup.clock.pass(30 * SECOND);
    assert!(setup.identify(&setup.token(&new)).await.is_ok());
    let again = setup.identify(&old_token).await.expect("accepted");
    assert!(Arc::ptr_eq(&holder, &again) && !holder.is_revoked());
    assert_eq!(setup.server.requests(), 2);
}

#[tokio::test]
async fn a_withdrawn_key_ends_its_tokens_and_no_others() {
    let (stays, goes) = (Signer::new("ES256", "stays"), Signer::new("EdDSA", "goes"));
    let setup = Setup::new(keys([&stays, &goes])).await;
    let (staying, going) = (setup.token(&stays), setup.token(&goes));
    let (stayer, goer) = (
        setup.identify(&staying).await.expect("accepted"),
        setup.identify(&going).await.expect("accepted"),
    );
    setup.server.reply(keys([&stays]));
    // The keys are not fresh any more: the next request has them fetched in the background.
    setup.clock.pass(600 * SECOND);
    // What the token has opened ends without a further request with it.
    while !goer.is_revoked() {
        assert!(setup.identify(&staying).await.is_ok());
        tokio::task::yield_now().await;
    }
    assert!(setup.identify(&going).await.is_err());
    let again = setup.identify(&staying).await.expect("accepted");
    assert!(Arc::ptr_eq(&stayer, &again) && !stayer.is_revoked());
}

/// Requests that come before their token was verified are verified each by itself. What all of them have opened ends with the key.
#[tokio::test]
async fn a_withdrawn_key_ends_all_that_was_verified_at_once() {
    let (stays, goes) = (Signer::new("ES256", "stays"), Signer::new("EdDSA", "goes"));
    let setup = Setup::new(keys([&stays, &goes])).await;
    let (staying, going) = (setup.token(&stays), setup.token(&goes));
    let mut requests = Vec::from_iter((0..3).map(|_| Box::pin(setup.identify(&going))));
    for request in &mut requests {
        poll_fn(|context| {
            assert!(
                request.as_mut().poll(context).is_pending(),
                "the keys are being fetched"
            );
            Poll::Ready(())
        })
        .await;
    }
    let mut holders = Vec::new();
    for request in requests {
        holders.push(request.await.expect("accepted"));
    }
    setup.server.reply(keys([&stays]));
    setup.clock.pass(600 * SECOND);
    while !holders.iter().any(|holder| holder.is_revoked()) {
        assert!(setup.identify(&staying).await.is_ok());
        tokio::task::yield_now().await;
    }
    assert!(holders.iter().all(|holder| holder.is_revoked()));
}

/// Also if no request comes any more. Nobody is asked about keys by which nothing is open.
#[tokio::test]
async fn a_withdrawn_key_ends_what_is_open_on_an_idle_server() {
    let (stays, goes) = (Signer::new("ES256", "stays"), Signer::new("EdDSA", "goes"));
    let setup = Setup::new(keys([&stays, &goes])).await;
    let going = setup.token(&goes);
    drop(setup.identify(&going).await.expect("accepted"));
    setup.clock.pass(600 * SECOND);
    for _ in 0..1_000 {
        tokio::task::yield_now().await;
    }
    assert_eq!(setup.server.requests(), 1, "nothing is open");
    let goer = setup.identify(&going).await.expect("accepted");
    // The request has begun a fetch itself, of the keys before.
    while setup.server.requests() < 2 {
        tokio::task::yield_now().await;
    }
    for _ in 0..1_000 {
        tokio::task::yield_now().await;
    }
    setup.server.reply(keys([&stays]));
    setup.clock.pass(600 * SECOND);
    while !goer.is_revoked() {
        tokio::task::yield_now().await;
    }
}

/// The keys were fetched shortly before. Nobody knows yet whether there is a newer one: the token is not called invalid, and counts as if it were.
#[tokio::test]
async fn a_key_that_is_newer_than_the_last_fetch_is_waited_for() {
    let signers = ["one", "two", "three"].map(|id| Signer::new("ES256", id));
    let [one, two, three] = &signers;
    let setup = Setup::new(keys([one])).await;
    assert!(setup.identify(&setup.token(one)).await.is_ok());
    setup.server.reply(keys([two]));
    setup.clock.pass(30 * SECOND);
    assert!(setup.identify(&setup.token(two)).await.is_ok());
    setup.server.reply(keys([three]));
    setup.clock.pass(10 * SECOND);
    let early = setup.identify(&setup.token(three)).await;
    let wait = 20 * SECOND;
    assert!(matches!(early, Err(Denied::Undecided { retry_after }) if retry_after == wait));
    // One that was withdrawn is known not to come.
    assert!(matches!(
        setup.identify(&setup.token(one)).await,
        Err(Denied::Invalid { .. })
    ));
    setup.clock.pass(wait);
    assert!(setup.identify(&setup.token(three)).await.is_ok());
    // After a fetch for its sake a token is invalid.
    setup.clock.pass(30 * SECOND);
    let forged = setup.token(&Signer::new("ES256", "four"));
    assert!(matches!(setup.identify(&forged).await, Err(Denied::Invalid { .. })));
    assert_eq!(setup.server.requests(), 4);
}

#[tokio::test]
async fn a_key_that_was_replaced_under_its_id_ends_its_tokens() {
    let (old, new) = (Signer::new("ES256", "same"), Signer::new("ES256", "same"));
    let setup = Setup::new(keys([&old])).await;
    let token = setup.token(&old);
    assert!(setup.identify(&token).await.is_ok());
    setup.server.reply(keys([&new]));
    setup.clock.pass(600 * SECOND);
    while setup.identify(&token).await.is_ok() {
        tokio::task::yield_now().await;
    }
    assert!(setup.identify(&setup.token(&new)).await.is_ok());
}

/// What tells a new key from an old one may be its signatures only.
#[tokio::test]
async fn a_signature_that_no_known_key_has_made_has_keys_fetched_with_a_bound() {
    for id in [json!("same"), Value::Null] {
        let (old, new) = (Signer::new("ES256", "same"), Signer::new("ES256", "same"));
        let key_of = |signer: &Signer| Reply::Json(json!({"keys": [but(&signer.jwk(), "kid", id.clone())]}));
        let setup = Setup::new(key_of(&old)).await;
        let token = |signer: &Signer| {
            let month = START.0 / 1000 + 30 * 24 * 3600;
            let claims = but(&claims(&setup.server.url), "exp", json!(month));
            signer.sign_with(&but(&signer.header(), "kid", id.clone()), &claims)
        };
        let holder = setup.identify(&token(&old)).await.expect("accepted");
        setup.server.reply(key_of(&new));
        setup.clock.pass(30 * SECOND);
        assert!(setup.identify(&token(&new)).await.is_ok(), "{id}");
        assert!(holder.is_revoked());
        assert_eq!(setup.server.requests(), 2);
        let forged = token(&Signer::new("ES256", "same"));
        for forgeries in 0..3 {
            for _ in 0..10 {
                for refused in [&forged, &token(&old)] {
                    assert!(matches!(setup.identify(refused).await, Err(Denied::Invalid { .. })));
                }
            }
            assert_eq!(setup.server.requests(), 2 + forgeries, "one fetch in 30 s");
            setup.clock.pass(30 * SECOND);
        }
        assert!(setup.identify(&token(&new)).await.is_ok());
    }
}

/// The issuer may have changed the key under its id. So the keys are fetched again, as after a wrong signature, and at most as often.
#[tokio::test]
async fn a_known_key_with_another_algorithm_is_invalid_and_no_unknown_one() {
    let (known, other) = (Signer::new("ES256", "same"), Signer::new("ES384", "same"));
    let setup = Setup::new(keys([&known])).await;
    assert!(setup.identify(&setup.token(&known)).await.is_ok());
    let forged = setup.token(&other);
    for _ in 0..3 {
        assert!(matches!(setup.identify(&forged).await, Err(Denied::Invalid { .. })));
    }
    setup.server.reply(keys([&other]));
    setup.clock.pass(30 * SECOND);
    assert!(setup.identify(&forged).await.is_ok());
}

#[tokio::test]
async fn a_changed_file_is_seen_within_seconds_or_by_the_first_token_that_needs_it() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("keys.json");
    let write = |signers: &[&Signer]| std::fs::write(&path, key_set(signers.iter().copied()).to_string());
    let [old, new] = ["old", "new"].map(|id| Signer::new("ES256", id));
    write(&[&old]).expect("written");
    let (clock, ports) = TestClock::ports();
    let issuer = Issuer::new(ISSUER).and_then(|issuer| issuer.jwks(path.to_str().expect("a path")));
    let authenticator = OAuthAuthenticator::new(RESOURCE, vec![issuer.expect("an issuer")], &ports).expect("issuers");
    let token = |signer: &Signer| signer.sign(&claims(ISSUER));
    let identify = async |token: &str| present(&authenticator, token).await.expect("a token");
    let holder = identify(&token(&old)).await.expect("accepted");
    write(&[&old, &new]).expect("written");
    clock.pass(SECOND);
    assert!(identify(&token(&new)).await.is_ok());
    assert!(!holder.is_revoked());
    write(&[&new]).expect("written");
    // No request comes any more.
    clock.pass(2 * SECOND);
    while !holder.is_revoked() {
        tokio::task::yield_now().await;
    }
    assert!(identify(&token(&old)).await.is_err());
}

#[tokio::test]
async fn while_the_server_is_down_the_last_keys_are_used_for_a_day() {
    let signer = Signer::new("ES256", "one");
    let setup = Setup::new(keys([&signer])).await;
    let earlier = setup.token(&signer);
    assert!(setup.identify(&earlier).await.is_ok());
    for (at, reply) in [
        Reply::Text("500 Internal Server Error", ""),
        Reply::Text("302 Found", "{}"),
        Reply::Text("200 OK", "<html>"),
        Reply::Text("200 OK", "{\"keys\": {}}"),
        Reply::Endless,
    ]
    .into_iter()
    .enumerate()
    {
        setup.server.reply(reply);
        setup.clock.pass(3600 * SECOND);
        // Another token each time, which was not verified before.
        while setup.server.requests() < at + 2 {
            assert!(setup.identify(&setup.token(&signer)).await.is_ok(), "{at}");
            tokio::task::yield_now().await;
        }
    }
    setup.clock.pass(DAY);
    assert!(setup.is_unavailable(&setup.token(&signer)).await);
    assert!(setup.is_unavailable(&earlier).await, "also who was known before");
    setup.server.reply(keys([&signer]));
    setup.clock.pass(30 * SECOND);
    assert!(setup.identify(&setup.token(&signer)).await.is_ok());
}

#[tokio::test]
async fn an_issuer_that_withdraws_its_last_key_ends_all_its_tokens() {
    let signer = Signer::new("ES256", "one");
    for empty in [
        json!({"keys": []}),
        json!({"keys": [{"kty": "oct", "k": "AAAA", "use": "enc"}]}),
    ] {
        let setup = Setup::new(keys([&signer])).await;
        let token = setup.token(&signer);
        let holder = setup.identify(&token).await.expect("accepted");
        setup.server.reply(Reply::Json(empty));
        setup.clock.pass(600 * SECOND);
        while !holder.is_revoked() {
            let _ = setup.identify(&token).await;
            tokio::task::yield_now().await;
        }
        assert!(matches!(setup.identify(&token).await, Err(Denied::Invalid { .. })));
    }
}

#[tokio::test]
async fn without_keys_tokens_are_neither_accepted_nor_called_invalid() {
    let signer = Signer::new("ES256", "one");
    let setup = Setup::new(Reply::Text("503 Service Unavailable", "")).await;
    let token = setup.token(&signer);
    assert!(setup.is_unavailable(&token).await);
    let requests = setup.server.requests();
    for _ in 0..50 {
        assert!(setup.is_unavailable(&token).await);
    }
    assert_eq!(
        setup.server.requests(),
        requests,
        "the server is left alone for a while"
    );
    setup.server.reply(keys([&signer]));
    setup.clock.pass(5 * SECOND);
    assert!(setup.identify(&token).await.is_ok());
}

/// While the keys cannot be read again nobody knows whether the issuer has a new key.
#[tokio::test]
async fn a_token_of_an_unknown_key_is_not_called_invalid_while_keys_cannot_be_read() {
    let [known, new] = ["one", "two"].map(|id| Signer::new("ES256", id));
    let setup = Setup::new(keys([&known])).await;
    assert!(setup.identify(&setup.token(&known)).await.is_ok());
    setup.server.reply(Reply::Text("503 Service Unavailable", ""));
    setup.clock.pass(600 * SECOND);
    for _ in 0..3 {
        let denied = setup.identify(&setup.token(&new)).await;
        assert!(matches!(
            denied,
            Err(Denied::Undecided { .. } | Denied::Unavailable { .. })
        ));
    }
}

#[tokio::test]
async fn a_server_that_never_answers_is_given_up_and_asked_once_for_all_who_wait() {
    let signer = Signer::new("ES256", "one");
    let setup = Setup::new(Reply::Never).await;
    let token = setup.token(&signer);
    setup.server.came(1).await;
    let mut waiting = Vec::from_iter((0..20).map(|_| Box::pin(setup.identify(&token))));
    for one in &mut waiting {
        poll_fn(|context| {
            assert!(one.as_mut().poll(context).is_pending());
            Poll::Ready(())
        })
        .await;
    }
    // Those who leave take nothing with them.
    waiting.truncate(10);
    setup.clock.pass(10 * SECOND);
    for one in waiting {
        assert!(matches!(one.await, Err(Denied::Unavailable { retry_after }) if retry_after >= SECOND));
    }
    assert_eq!(setup.server.requests(), 1);
}

#[tokio::test]
async fn a_fetch_goes_on_when_the_request_that_began_it_leaves() {
    let (old, new) = (Signer::new("ES256", "old"), Signer::new("ES256", "new"));
    let setup = Setup::new(keys([&old])).await;
    assert!(setup.identify(&setup.token(&old)).await.is_ok());
    setup.server.reply(keys([&old, &new]));
    setup.clock.pass(30 * SECOND);
    let token = setup.token(&new);
    {
        let mut leaving = pin!(setup.identify(&token));
        poll_fn(|context| {
            assert!(leaving.as_mut().poll(context).is_pending());
            Poll::Ready(())
        })
        .await;
    }
    assert!(setup.identify(&token).await.is_ok());
    assert_eq!(setup.server.requests(), 2);
}

#[tokio::test]
async fn keys_among_others_that_cannot_be_used_are_found() {
    let signer = Signer::new("ES256", "one");
    let mut keys = key_set([&signer]);
    let others = [
        json!({"kty": "new"}),
        json!({"kty": "oct", "k": "AAAA"}),
        json!(null),
        but(&signer.jwk(), "x", json!("!")),
    ];
    keys["keys"].as_array_mut().expect("a list").splice(0..0, others);
    keys["more"] = Value::Bool(true);
    let setup = Setup::new(Reply::Json(keys)).await;
    assert!(setup.identify(&setup.token(&signer)).await.is_ok());
}
