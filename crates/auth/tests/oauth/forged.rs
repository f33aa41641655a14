//! Tokens that nobody may hold: none is accepted, and no number of them costs more than one request to an issuer at a time.

use crate::{
    RESOURCE,
    issuer_server::{IssuerServer, Reply},
    signer::{Signer, but, claims, key_set, message, sign_with_secret},
    support::{START, present},
    tokens::with_files,
};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use longhaul_auth::oauth::{Issuer, OAuthAuthenticator, Scopes};
use longhaul_server::auth::Denied;
use proptest::{prelude::*, test_runner::TestRunner};
use serde_json::{Value, json};

const ISSUER: &str = "https://login.example/realm";

async fn is_refused(authenticator: &OAuthAuthenticator, token: &str) -> bool {
    // Of a key that nobody knows yet it is said later that the issuer has none.
    let refused = present(authenticator, token).await;
    matches!(refused, Some(Err(Denied::Invalid { .. } | Denied::Undecided { .. })))
}

#[tokio::test]
async fn tokens_of_other_kinds_keys_and_purposes_are_refused() {
    let signer = Signer::new("RS256", "one");
    let other = Signer::new("ES256", "two");
    let foreign = Signer::new("ES256", "two");
    let (_, authenticator) = with_files(&[(ISSUER, key_set([&signer, &other]), Scopes::Everything)]);
    let good = claims(ISSUER);
    let header = signer.header();
    assert!(
        !is_refused(&authenticator, &signer.sign(&good)).await,
        "the pattern of the others is fine"
    );
    let now = START.0 / 1000;

    let public = URL_SAFE_NO_PAD
        .decode(signer.jwk()["n"].as_str().expect("a text"))
        .expect("base64url");
    let hmac = but(&header, "alg", json!("HS256"));
    let mut forged = vec![
        format!("{}.", message(&but(&header, "alg", json!("none")), &good)),
        format!("{}.", message(&but(&header, "alg", json!("None")), &good)),
        format!("{}.", message(&header, &good)),
        sign_with_secret(&hmac, &good, &public),
        sign_with_secret(&hmac, &good, signer.jwk().to_string().as_bytes()),
        sign_with_secret(&hmac, &good, b""),
        sign_with_secret(&header, &good, &public),
        foreign.sign(&good),
        other.sign_with(&but(&other.header(), "kid", json!("one")), &good),
        signer.sign_with(&but(&header, "kid", json!("two")), &good),
        signer.sign_with(&but(&header, "kid", json!("three")), &good),
        signer.sign_with(&but(&header, "kid", json!(["one"])), &good),
        signer.sign_with(&but(&header, "alg", json!("RS512")), &good),
        signer.sign_with(&but(&header, "alg", json!("PS256")), &good),
        signer.sign_with(&but(&header, "crit", json!(["b64"])), &good),
        signer.sign_with(&but(&header, "zip", json!("DEF")), &good),
    ];
    // A key that the token brings along.
    let own = but(&but(&foreign.header(), "jwk", foreign.jwk()), "kid", Value::Null);
    forged.push(foreign.sign_with(&own, &good));
    forged.push(foreign.sign_with(&but(&own, "jku", json!("https://evil.example/keys")), &good));
    for typ in [
        "dpop+jwt",
        "logout+jwt",
        "secevent+jwt",
        "id_token",
        "JWE",
        "at+jwt+x",
        "",
    ] {
        forged.push(signer.sign_with(&but(&header, "typ", json!(typ)), &good));
    }
    let claims_that_do_not_fit = [
        ("iss", json!("https://login.example/realm/")),
        ("iss", json!("https://login.example")),
        ("iss", json!("HTTPS://login.example/realm")),
        ("iss", json!([ISSUER])),
        ("iss", Value::Null),
        ("aud", json!("https://other.example/mcp")),
        ("aud", json!("https://mcp.example")),
        ("aud", json!("https://mcp.example/mcp/more")),
        ("aud", json!([])),
        ("aud", json!({"https://mcp.example/mcp": 1})),
        ("aud", Value::Null),
        ("exp", json!(now - 60)),
        ("exp", json!(0)),
        ("exp", json!("9999999999")),
        ("exp", json!(-1)),
        ("exp", Value::Null),
        ("nbf", json!(now + 61)),
        ("nbf", json!("1")),
        ("sub", json!("")),
        ("sub", json!(7)),
        ("sub", json!("x".repeat(2000))),
        ("at_hash", json!("x")),
        ("c_hash", json!("x")),
        ("events", json!({})),
        ("token_use", json!("id")),
        ("typ", json!("ID")),
        ("typ", json!("Refresh")),
        ("token_type", json!("refresh_token")),
        ("token_type", json!("DPoP")),
        ("cnf", json!({"jkt": "x"})),
        ("cnf", json!({"x5t#S256": "x"})),
    ];
    for (name, value) in claims_that_do_not_fit {
        forged.push(signer.sign(&but(&good, name, value)));
    }
    // An ID token is for its client.
    forged.push(signer.sign(&but(&but(&good, "aud", json!("app")), "nonce", json!("n"))));
    forged.push(signer.sign(&json!({})));
    forged.push(signer.sign(&json!([])));
    for token in &forged {
        assert!(is_refused(&authenticator, token).await, "{token}");
        // Nothing is remembered of it that would let it in.
        assert!(is_refused(&authenticator, token).await, "{token}");
    }
}

/// What may be done to a token.
#[derive(Debug, Clone)]
enum Mutation {
    /// A character is replaced by another one.
    Replace(usize, u8),
    Remove(usize),
    Insert(usize, u8),
    /// Only the beginning is left.
    Truncate(usize),
    /// Two parts change their places.
    Swap(usize, usize),
    /// A part is taken from another good token.
    Transplant(usize),
    /// A part of it is there twice.
    Repeat(usize, usize),
}

fn mutation() -> impl Strategy<Value = Mutation> {
    let place = 0_usize..10_000;
    prop_oneof![
        4 => (place.clone(), any::<u8>()).prop_map(|(at, with)| Mutation::Replace(at, with)),
        1 => place.clone().prop_map(Mutation::Remove),
        1 => (place.clone(), any::<u8>()).prop_map(|(at, with)| Mutation::Insert(at, with)),
        1 => place.clone().prop_map(Mutation::Truncate),
        1 => (0_usize..3, 0_usize..3).prop_map(|(one, other)| Mutation::Swap(one, other)),
        1 => (0_usize..3).prop_map(Mutation::Transplant),
        1 => (place.clone(), place).prop_map(|(from, to)| Mutation::Repeat(from, to)),
    ]
}

fn mutate(token: &str, donor: &str, mutation: &Mutation) -> String {
    /// What a header may contain without being refused for its form.
    const PRINTABLE: std::ops::RangeInclusive<u8> = b'!'..=b'~';
    let char = |byte: u8| {
        PRINTABLE
            .clone()
            .nth(usize::from(byte) % PRINTABLE.len())
            .unwrap_or(b'A')
    };
    let mut bytes = token.as_bytes().to_vec();
    let length = bytes.len();
    let mut parts: Vec<&str> = token.split('.').collect();
    match *mutation {
        Mutation::Replace(at, with) => bytes[at % length] = char(with),
        Mutation::Remove(at) => drop(bytes.remove(at % length)),
        Mutation::Insert(at, with) => bytes.insert(at % (length + 1), char(with)),
        Mutation::Truncate(at) => bytes.truncate(at % length),
        Mutation::Swap(one, other) => {
            parts.swap(one, other);
            return parts.join(".");
        }
        Mutation::Transplant(part) => {
            parts[part] = donor.split('.').nth(part).unwrap_or_default();
            return parts.join(".");
        }
        Mutation::Repeat(from, to) => {
            let (from, to) = (from % length, to % length);
            let copied = bytes[from.min(to)..from.max(to)].to_vec();
            bytes.splice(from..from, copied);
        }
    }
    String::from_utf8(bytes).unwrap_or_default()
}

/// Thousands of tokens that were good before something was changed in them.
#[test]
fn no_mutation_of_a_good_token_is_accepted() {
    const CASES: u32 = 4_000;
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let _entered = runtime.enter();
    for algorithm in ["ES256", "EdDSA", "RS256"] {
        let signer = Signer::new(algorithm, "one");
        let (_, authenticator) = with_files(&[(ISSUER, key_set([&signer]), Scopes::default())]);
        let token = signer.sign(&claims(ISSUER));
        // The same person with more rights, and another one.
        let donor = signer.sign(&but(
            &but(&claims(ISSUER), "scope", json!("tools:* tasks:write")),
            "sub",
            json!("bob"),
        ));
        let mut runner = TestRunner::new(ProptestConfig {
            cases: CASES,
            failure_persistence: None,
            ..ProptestConfig::default()
        });
        let mutations = prop::collection::vec(mutation(), 1..4);
        let result = runner.run(&mutations, |mutations| {
            let forged = mutations.iter().fold(token.clone(), |token, mutation| {
                if token.split('.').count() == 3 && !token.is_empty() {
                    mutate(&token, &donor, mutation)
                } else {
                    token
                }
            });
            let is_good = forged == token || forged == donor;
            let head = (!forged.is_empty() && forged != ".").then_some(forged);
            if let Some(forged) = head.filter(|_| !is_good) {
                prop_assert!(runtime.block_on(is_refused(&authenticator, &forged)), "{}", forged);
            }
            Ok(())
        });
        result.expect("none is accepted");
    }
}

#[tokio::test]
async fn invented_tokens_cost_the_issuer_one_request_in_thirty_seconds() {
    let signer = Signer::new("ES256", "one");
    let server = IssuerServer::start(Reply::Json(key_set([&signer]))).await;
    let (clock, ports) = crate::support::TestClock::ports();
    let issuer = Issuer::new(&server.url).and_then(|issuer| issuer.jwks(&format!("{}/keys", server.url)));
    let authenticator = OAuthAuthenticator::new(RESOURCE, vec![issuer.expect("an address")], &ports).expect("issuers");
    assert!(!is_refused(&authenticator, &signer.sign(&claims(&server.url))).await);
    assert_eq!(server.requests(), 1);
    for round in 1..=3 {
        clock.pass(std::time::Duration::from_secs(30));
        for kid in 0..200 {
            let header = but(&signer.header(), "kid", json!(format!("{round}-{kid}")));
            assert!(is_refused(&authenticator, &signer.sign_with(&header, &claims(&server.url))).await);
        }
        assert_eq!(server.requests(), 1 + round);
    }
    // Neither tokens of unknown issuers nor opaque or endless ones are shown to anybody.
    for token in [
        signer.sign(&claims("https://evil.example")),
        "opaque".to_owned(),
        "a.b.c".to_owned(),
        "x".repeat(20_000),
    ] {
        assert!(is_refused(&authenticator, &token).await);
    }
    assert_eq!(server.requests(), 4);
}
