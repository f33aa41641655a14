//! Tokens that are accepted, whom they make their holders, and what these may do.

use crate::{
    RESOURCE,
    signer::{Signer, but, claims, key_set},
    support::{START, TestClock, bearer, present},
};
use http::Uri;
use longhaul_auth::oauth::{Introspection, Issuer, IssuerError, OAuthAuthenticator, Scopes};
use longhaul_server::auth::{AuthDecision, Authenticator as _, Denied, Identity, Peer, Permission, RequestHead};
use serde_json::{Value, json};
use std::{fs, sync::Arc, time::Duration};

const ISSUER: &str = "https://login.example/realm";

/// An authenticator whose issuers have these keys in files.
pub(crate) fn with_files(issuers: &[(&str, Value, Scopes)]) -> (Arc<TestClock>, OAuthAuthenticator) {
    let dir = tempfile::tempdir().expect("a directory");
    let issuers = issuers.iter().enumerate().map(|(at, (name, keys, scopes))| {
        let file = dir.path().join(at.to_string());
        fs::write(&file, keys.to_string()).expect("written");
        let issuer = Issuer::new(name)
            .expect("an issuer")
            .jwks(file.to_str().expect("UTF-8"));
        issuer.expect("a file").scopes(scopes.clone())
    });
    let (clock, ports) = TestClock::ports();
    let authenticator = OAuthAuthenticator::new(RESOURCE, issuers.collect(), &ports).expect("issuers");
    (clock, authenticator)
}

fn with_key(signer: &Signer) -> (Arc<TestClock>, OAuthAuthenticator) {
    with_files(&[(ISSUER, key_set([signer]), Scopes::default())])
}

async fn identify(authenticator: &OAuthAuthenticator, token: &str) -> Result<Arc<Identity>, Denied> {
    present(authenticator, token)
        .await
        .expect("a token is this authenticator's")
}

/// Only a token that was accepted before is known without work, which is not done for senders with too many denied requests.
#[tokio::test]
async fn no_signature_is_verified_before_the_sender_is_known_to_be_within_its_limits() {
    let (signer, forger) = (Signer::new("ES256", "one"), Signer::new("ES256", "one"));
    let (_, authenticator) = with_key(&signer);
    let uri = Uri::from_static("/mcp");
    let is_known = |token: &str| {
        let head = RequestHead {
            headers: &bearer(token),
            uri: &uri,
            peer: &Peer::Unknown,
        };
        matches!(authenticator.authenticate(&head), AuthDecision::Known(_))
    };
    let (good, forged) = (signer.sign(&claims(ISSUER)), forger.sign(&claims(ISSUER)));
    assert!(identify(&authenticator, &forged).await.is_err());
    assert!(!is_known(&forged) && !is_known(&good));
    assert!(identify(&authenticator, &good).await.is_ok());
    assert!(is_known(&good));
}

#[tokio::test]
async fn each_algorithm_is_verified() {
    for algorithm in [
        "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "EdDSA",
    ] {
        let signer = Signer::new(algorithm, "one");
        let (_, authenticator) = with_key(&signer);
        let identity = identify(&authenticator, &signer.sign(&claims(ISSUER))).await;
        let identity = identity.expect(algorithm);
        assert_eq!(
            identity.principal().as_str(),
            "oauth:https://login.example/realm\nuser:alice"
        );
        // With the clocks' difference.
        assert_eq!(identity.expires_at(), Some(START.plus(3_660_000)));
        assert!(identity.permissions().allows(Permission::Call("build")));
        assert!(!identity.permissions().allows(Permission::Call("deploy")));
    }
}

#[tokio::test]
async fn the_next_request_has_the_same_identity_until_the_token_expires() {
    let signer = Signer::new("ES256", "one");
    let (clock, authenticator) = with_key(&signer);
    let token = signer.sign(&claims(ISSUER));
    let first = identify(&authenticator, &token).await.expect("accepted");
    let second = identify(&authenticator, &token).await.expect("accepted");
    assert!(Arc::ptr_eq(&first, &second));
    clock.pass(Duration::from_secs(3660));
    assert_eq!(
        identify(&authenticator, &token).await.err(),
        Some(Denied::invalid("the token has expired"))
    );
}

#[tokio::test]
async fn a_key_without_an_algorithm_verifies_those_of_its_kind() {
    let mut signer = Signer::new("PS256", "one");
    let keys = json!({"keys": [but(&signer.jwk(), "alg", Value::Null)]});
    let (_, authenticator) = with_files(&[(ISSUER, keys, Scopes::default())]);
    for algorithm in ["PS256", "RS256"] {
        signer.algorithm = algorithm;
        assert!(
            identify(&authenticator, &signer.sign(&claims(ISSUER))).await.is_ok(),
            "{algorithm}"
        );
    }
}

/// An issuer that changes its key has two for a while.
#[tokio::test]
async fn a_token_that_names_no_key_is_verified_with_those_that_fit() {
    let (one, two) = (Signer::new("ES256", "one"), Signer::new("ES256", "two"));
    let (_, authenticator) = with_files(&[(ISSUER, key_set([&one, &two]), Scopes::default())]);
    for signer in [&one, &two] {
        let token = signer.sign_with(&but(&signer.header(), "kid", Value::Null), &claims(ISSUER));
        assert!(identify(&authenticator, &token).await.is_ok());
        // One that is named must have signed it.
        let named = but(
            &signer.header(),
            "kid",
            json!(if signer.id == "one" { "two" } else { "one" }),
        );
        assert!(
            identify(&authenticator, &signer.sign_with(&named, &claims(ISSUER)))
                .await
                .is_err()
        );
    }
}

#[tokio::test]
async fn holders_of_different_issuers_or_kinds_never_have_one_principal() {
    const OTHER: &str = "https://other.example";
    let (one, two) = (Signer::new("ES256", "k"), Signer::new("ES256", "k"));
    let (_, authenticator) = with_files(&[
        (ISSUER, key_set([&one]), Scopes::default()),
        (OTHER, key_set([&two]), Scopes::default()),
    ]);
    let user = claims(ISSUER);
    let without_subject = but(&user, "sub", Value::Null);
    let tokens = [
        one.sign(&user),
        one.sign(&but(&without_subject, "client_id", json!("alice"))),
        one.sign(&but(&user, "sub", json!("client:alice"))),
        one.sign(&but(&user, "sub", json!("\nclient:alice"))),
        two.sign(&claims(OTHER)),
    ];
    let mut principals = Vec::new();
    for token in &tokens {
        let identity = identify(&authenticator, token).await.expect("accepted");
        principals.push(identity.principal().as_str().to_owned());
    }
    principals.sort_unstable();
    principals.dedup();
    assert_eq!(principals.len(), tokens.len(), "{principals:?}");
    assert!(principals.contains(&"oauth:https://login.example/realm\nclient:alice".to_owned()));
}

#[tokio::test]
async fn one_issuers_key_is_worth_nothing_for_anothers_tokens() {
    const OTHER: &str = "https://other.example";
    let (one, two) = (Signer::new("ES256", "one"), Signer::new("ES256", "two"));
    let (_, authenticator) = with_files(&[
        (ISSUER, key_set([&one]), Scopes::default()),
        (OTHER, key_set([&two]), Scopes::default()),
    ]);
    assert!(identify(&authenticator, &one.sign(&claims(ISSUER))).await.is_ok());
    assert!(identify(&authenticator, &one.sign(&claims(OTHER))).await.is_err());
    assert!(identify(&authenticator, &two.sign(&claims(ISSUER))).await.is_err());
}

#[tokio::test]
async fn scopes_are_read_as_the_issuer_is_configured() {
    let signer = Signer::new("ES256", "one");
    let token = signer.sign(&but(&claims(ISSUER), "scope", json!("builder openid")));
    let identity = async |scopes| {
        let (_, authenticator) = with_files(&[(ISSUER, key_set([&signer]), scopes)]);
        identify(&authenticator, &token).await.expect("accepted")
    };
    let nothing = identity(Scopes::AsNamed).await;
    assert!(
        !nothing.permissions().allows(Permission::Call("build"))
            && !nothing.permissions().allows(Permission::ReadTasks)
    );
    assert!(identity(Scopes::Everything).await.permissions().allows_everything());
    let builder = ["tools:build*", "tasks:write"].map(|grant| grant.parse().expect("a grant"));
    let mapped = identity(Scopes::Mapped([("builder".to_owned(), builder.to_vec())].into())).await;
    assert!(mapped.permissions().allows(Permission::Call("build_all")));
    assert!(!mapped.permissions().allows(Permission::Call("deploy")));
}

#[tokio::test]
async fn keys_are_left_to_the_authenticator_of_keys() {
    let signer = Signer::new("ES256", "one");
    let (_, authenticator) = with_key(&signer);
    assert!(
        present(&authenticator, "lhk_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8")
            .await
            .is_none()
    );
}

#[tokio::test]
async fn the_challenge_names_the_metadata_document_and_scopes() {
    let signer = Signer::new("ES256", "one");
    let (_, authenticator) = with_key(&signer);
    let challenge = authenticator.challenge();
    assert_eq!(
        challenge.resource_metadata.as_deref(),
        Some("https://mcp.example/.well-known/oauth-protected-resource/mcp")
    );
    assert_eq!(challenge.scope.as_deref(), Some("tools:* tasks:write resources:read"));
    let document: Value = serde_json::from_str(&authenticator.metadata().to_json()).expect("JSON");
    assert_eq!(document["resource"], RESOURCE);
    assert_eq!(document["authorization_servers"], json!([ISSUER]));
}

#[tokio::test]
async fn configurations_that_cannot_work_are_refused() {
    let (_, ports) = TestClock::ports();
    let new = |url: &str, issuers| OAuthAuthenticator::new(url, issuers, &ports).map(drop);
    let issuer = || Issuer::new(ISSUER).expect("an issuer");
    let with_keys = |name| {
        Issuer::new(name)
            .and_then(|issuer| issuer.jwks("https://a.example/keys"))
            .expect("an issuer")
    };
    let opaque = |name| {
        let introspection = Introspection::new("https://a.example/introspect", "id", "secret").expect("an address");
        Issuer::new(name).expect("an issuer").introspection(introspection)
    };
    assert!(matches!(new(RESOURCE, vec![]), Err(IssuerError::None)));
    assert!(matches!(
        new(RESOURCE, vec![issuer()]),
        Err(IssuerError::NoVerification(_))
    ));
    assert!(matches!(
        new(RESOURCE, vec![with_keys(ISSUER), with_keys(ISSUER)]),
        Err(IssuerError::Twice(_))
    ));
    let two = vec![opaque(ISSUER), opaque("https://b.example")];
    assert!(matches!(new(RESOURCE, two), Err(IssuerError::TwoIntrospections(_, _))));
    assert!(matches!(
        new("http://mcp.example", vec![with_keys(ISSUER)]),
        Err(IssuerError::Address { .. })
    ));
    let missing = issuer().jwks("/does/not/exist").expect("a file");
    let error = new(RESOURCE, vec![missing]).expect_err("there is no file").to_string();
    assert!(
        error.contains("/does/not/exist") && error.contains("No such file"),
        "{error}"
    );
}

#[tokio::test]
async fn a_file_without_a_key_that_can_be_used_is_refused() {
    let signer = Signer::new("ES256", "one");
    let jwk = signer.jwk();
    let unusable = [
        but(&jwk, "use", json!("enc")),
        but(&jwk, "key_ops", json!(["sign"])),
        but(&jwk, "alg", json!("HS256")),
        but(&jwk, "alg", json!("ES384")),
        but(&jwk, "crv", json!("P-521")),
        but(&jwk, "x", json!("AAAA")),
        json!({"kty": "oct", "k": "c2VjcmV0", "kid": "one", "alg": "HS256"}),
        json!({"kty": "RSA", "n": "AQAB", "e": "AQAB"}),
        json!("text"),
    ];
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("keys");
    let (_, ports) = TestClock::ports();
    for key in unusable {
        fs::write(&file, json!({"keys": [key]}).to_string()).expect("written");
        let issuer = Issuer::new(ISSUER).and_then(|issuer| issuer.jwks(file.to_str().expect("UTF-8")));
        let result = OAuthAuthenticator::new(RESOURCE, vec![issuer.expect("a file")], &ports);
        assert!(matches!(result, Err(IssuerError::KeyFile { .. })), "{key}");
    }
}
