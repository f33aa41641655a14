//! What it costs to know who sends a request: nobody asked, the same user, an API key, a token that was verified before, and one that was not.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use criterion::{BatchSize, Criterion};
use futures_util::FutureExt;
use http::{HeaderMap, HeaderValue, Uri, header::AUTHORIZATION};
use longhaul_auth::{
    keys::{KeyAuthenticator, KeyFile, KeyName, NewKey},
    oauth::{Issuer, OAuthAuthenticator},
    same_user::SameUser,
};
use longhaul_runtime::Ports;
use longhaul_server::auth::{AuthDecision, Authenticator, Peer, PeerUser, RequestHead};
use ring::{
    rand::SystemRandom,
    signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _},
};
use serde_json::{Value, json};
use std::{fs, hint::black_box, net::SocketAddr, path::Path};

const RESOURCE: &str = "https://mcp.example/mcp";
const ISSUER: &str = "https://login.example";
/// As many as a busy server has.
const KEYS: usize = 100;

fn main() {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let _entered = runtime.enter();
    let dir = tempfile::tempdir().expect("a directory");
    let ports = Ports::system();
    let mut criterion = Criterion::default().configure_from_args();

    let unverified = headers(None);
    let address = SocketAddr::from(([127, 0, 0, 1], 1));
    let peer = Peer::Tcp {
        local: address,
        remote: address,
        user: PeerUser::Same,
    };
    if let Ok(same_user) = SameUser::new() {
        criterion.bench_function("a request of the same user", |bench| {
            bench.iter(|| decide(&[&same_user], &unverified, &peer))
        });
    }

    let (keys, key) = keys(dir.path(), &ports);
    criterion.bench_function("a request without a token", |bench| {
        bench.iter(|| decide(&[&keys], &unverified, &Peer::Unknown))
    });
    let with_key = headers(Some(&key));
    criterion.bench_function("a request with an API key", |bench| {
        bench.iter(|| decide(&[&keys], &with_key, &Peer::Unknown))
    });

    let (oauth, tokens) = oauth(dir.path(), &ports);
    let with_token = headers(Some(&tokens(0)));
    criterion.bench_function("a request with a token that was verified before", |bench| {
        bench.iter(|| decide(&[&keys, &oauth], &with_token, &Peer::Unknown));
    });
    let mut next = 0;
    criterion.bench_function("a request with a new token", |bench| {
        let new = || {
            next += 1;
            headers(Some(&tokens(next)))
        };
        bench.iter_batched(
            new,
            |headers| decide(&[&oauth], &headers, &Peer::Unknown),
            BatchSize::SmallInput,
        );
    });
    criterion.final_summary();
}

/// Whether the request is served.
fn decide(authenticators: &[&dyn Authenticator], headers: &HeaderMap, peer: &Peer) -> bool {
    let uri = Uri::from_static("/mcp");
    let head = RequestHead {
        headers,
        uri: &uri,
        peer,
    };
    authenticators
        .iter()
        .any(|authenticator| match authenticator.authenticate(black_box(&head)) {
            AuthDecision::Known(Ok(identity)) => {
                black_box(identity);
                true
            }
            // A signature is verified when it is waited for.
            AuthDecision::Pending(found) => black_box(found.now_or_never()).is_some_and(|found| found.is_ok()),
            _ => false,
        })
}

/// The headers of an MCP client.
fn headers(token: Option<&str>) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in [
        ("host", "mcp.example"),
        ("accept", "application/json, text/event-stream"),
        ("content-type", "application/json"),
        ("mcp-protocol-version", "2025-11-25"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    if let Some(token) = token {
        headers.insert(
            AUTHORIZATION,
            HeaderValue::try_from(format!("Bearer {token}")).expect("a header"),
        );
    }
    headers
}

fn keys(dir: &Path, ports: &Ports) -> (KeyAuthenticator, String) {
    let file = KeyFile::open(dir).expect("a file");
    let add = |at: usize| {
        let new = NewKey::named(KeyName::new(format!("key{at}")).expect("a name"));
        file.add(&new, &*ports.entropy, ports.clock.wall()).expect("a key")
    };
    let key = Vec::from_iter((0..KEYS).map(add)).pop().expect("there is one");
    let authenticator = KeyAuthenticator::start(KeyFile::open(dir).expect("a file"), ports).expect("keys");
    (authenticator, key.expose().to_owned())
}

/// An issuer, and its token for the n-th user.
fn oauth(dir: &Path, ports: &Ports) -> (OAuthAuthenticator, impl Fn(usize) -> String) {
    let random = SystemRandom::new();
    let document = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).expect("a pair");
    let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, document.as_ref(), &random).expect("a pair");
    let (x, y) = pair.public_key().as_ref()[1..].split_at(32);
    let text = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
    let jwk = json!({"kty": "EC", "crv": "P-256", "kid": "one", "alg": "ES256", "x": text(x), "y": text(y)});
    let file = dir.join("jwks");
    fs::write(&file, json!({"keys": [jwk]}).to_string()).expect("written");
    let issuer = Issuer::new(ISSUER).and_then(|issuer| issuer.jwks(file.to_str().expect("UTF-8")));
    let authenticator = OAuthAuthenticator::new(RESOURCE, vec![issuer.expect("a file")], ports).expect("an issuer");
    let expires = ports.clock.wall().0 / 1000 + 3600;
    let sign = move |user: usize| {
        let part = |value: Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let header = json!({"typ": "at+jwt", "alg": "ES256", "kid": "one"});
        let claims = json!({
            "iss": ISSUER, "sub": format!("user{user}"), "aud": RESOURCE, "client_id": "5f3c9a9e-5a53-4f0e-8d0b-5d5d0c1c2c55",
            "exp": expires, "iat": expires - 3600, "jti": "c0a80101-7b1c-4a8e-9f3e-2a1b3c4d5e6f", "scope": "tools:* tasks:write",
        });
        let message = format!("{}.{}", part(header), part(claims));
        let signature = pair.sign(&random, message.as_bytes()).expect("signed");
        format!("{message}.{}", URL_SAFE_NO_PAD.encode(signature.as_ref()))
    };
    (authenticator, sign)
}
