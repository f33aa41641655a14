//! Tokens of an OAuth issuer.

use super::{
    auth::{Protected, bearer},
    support::*,
};
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use ring::{
    rand::SystemRandom,
    signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair},
};
use serde_json::{Value, json};
use std::{
    fs,
    io::{Read, Write},
    net::TcpStream,
    time::{Duration, SystemTime},
};

const ISSUER: &str = "https://login.example/realm";
const PUBLIC_URL: &str = "https://jobs.example/mcp";

/// An issuer, as far as a server sees it: a name and a key.
pub(crate) struct Issuer {
    name: &'static str,
    key: EcdsaKeyPair,
}

impl Issuer {
    fn new() -> Self {
        Self::named(ISSUER)
    }

    pub(crate) fn named(name: &'static str) -> Self {
        let random = SystemRandom::new();
        let pair = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).unwrap();
        let key = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, pair.as_ref(), &random).unwrap();
        Self { name, key }
    }

    pub(crate) fn key_set(&self) -> String {
        let (x, y) = self.key.public_key().as_ref()[1..].split_at(32);
        let key = json!({
            "kty": "EC", "crv": "P-256", "kid": "k", "alg": "ES256", "use": "sig",
            "x": URL_SAFE_NO_PAD.encode(x), "y": URL_SAFE_NO_PAD.encode(y),
        });
        json!({"keys": [key]}).to_string()
    }

    /// A token of `subject` with these scopes, for `audience`, which ends in so many seconds.
    #[expect(clippy::disallowed_methods, reason = "tokens end by the system's clock")]
    pub(crate) fn token(&self, subject: &str, scope: &str, audience: &str, life: i64) -> String {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
        let end = i64::try_from(now.as_secs()).unwrap() + life;
        let claims = json!({"iss": self.name, "sub": subject, "aud": audience, "exp": end, "scope": scope, "client_id": "agent"});
        let part = |value: Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let message = format!(
            "{}.{}",
            part(json!({"alg": "ES256", "kid": "k", "typ": "at+jwt"})),
            part(claims)
        );
        let signature = self.key.sign(&SystemRandom::new(), message.as_bytes()).unwrap();
        format!("{message}.{}", URL_SAFE_NO_PAD.encode(signature))
    }
}

fn serve_with(issuer: &Issuer, scopes: &str) -> Protected {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("keys.json"), issuer.key_set()).unwrap();
    let auth =
        format!("same_user = false\n[[server.auth.issuer]]\nissuer = {ISSUER:?}\njwks = \"keys.json\"\n{scopes}");
    Protected::start_in(folder, &format!("public_url = {PUBLIC_URL:?}"), &auth, "127.0.0.1:0")
}

/// The whole response to a request without a token.
fn get(server: &Protected, path: &str) -> String {
    let mut connection = TcpStream::connect(server.address).unwrap();
    connection.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    write!(
        connection,
        "GET {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n",
        server.address
    )
    .unwrap();
    let mut response = String::new();
    connection.read_to_string(&mut response).unwrap();
    response
}

#[test]
fn tokens_of_an_issuer_say_who_comes_in_and_what_is_whose() {
    let issuer = Issuer::new();
    let mut server = serve_with(&issuer, "");
    let everything = "tools:* tasks:write resources:read";
    let ann = issuer.token("ann", everything, PUBLIC_URL, 600);
    let bob = issuer.token("bob", everything, PUBLIC_URL, 600);
    let metadata = get(&server, "/.well-known/oauth-protected-resource/mcp");
    assert!(
        metadata.starts_with("HTTP/1.1 200") && metadata.contains(ISSUER) && metadata.contains(PUBLIC_URL),
        "{metadata}"
    );
    let refused = get(&server, "/mcp").to_lowercase();
    assert!(
        refused.starts_with("http/1.1 401") && refused.contains("resource_metadata="),
        "{refused}"
    );

    let post =
        |server: &Protected, token: &str, method: &str, params: Value| server.post(&bearer(token), method, params);
    for wrong in [
        issuer.token("ann", everything, "https://other.example/mcp", 600),
        issuer.token("ann", everything, PUBLIC_URL, -600),
        Issuer::new().token("ann", everything, PUBLIC_URL, 600),
        ann[..ann.len() - 2].to_owned(),
    ] {
        assert_eq!(post(&server, &wrong, "tools/list", json!({})).0, 401);
    }
    let call = json!({"name": "gate", "arguments": {"code": 0}});
    let reader = issuer.token("ann", "tasks:read", PUBLIC_URL, 600);
    assert_eq!(post(&server, &reader, "tools/call", call.clone()).0, 403);

    let (status, created) = post(&server, &ann, "tools/call", call);
    assert_eq!(status, 200, "{created}");
    let task = json!({"taskId": created["result"]["taskId"]});
    let unknown = post(
        &server,
        &bob,
        "tasks/get",
        json!({"taskId": "0123456789abcdefghjkmnpqrstvwxyz0123"}),
    );
    assert_eq!(post(&server, &bob, "tasks/get", task.clone()), unknown);
    assert_eq!(
        post(&server, &reader, "tasks/get", task.clone()).1["result"]["status"],
        "working"
    );
    assert_eq!(post(&server, &reader, "tasks/cancel", task.clone()).0, 403);

    server.child.kill().unwrap();
    server.child.wait().unwrap();
    (server.child, _) = serve(server.folder.path(), &server.address.to_string());
    let later = issuer.token("ann", everything, PUBLIC_URL, 600);
    assert_eq!(
        post(&server, &later, "tasks/get", task.clone()).1["result"]["status"],
        "working"
    );
    assert_eq!(post(&server, &bob, "tasks/get", task), unknown);
}

#[test]
fn the_scopes_of_an_issuer_can_be_named_otherwise_or_mean_nothing() {
    let issuer = Issuer::new();
    let call = || json!({"name": "echo", "arguments": {"text": "x"}});
    let server = serve_with(&issuer, "scopes = { \"jobs\" = [\"tools:ec*\"] }");
    let status = |server: &Protected, scope: &str| {
        let token = issuer.token("ann", scope, PUBLIC_URL, 600);
        server.post(&bearer(&token), "tools/call", call()).0
    };
    assert_eq!((status(&server, "jobs"), status(&server, "tools:*")), (200, 403));
    let server = serve_with(&issuer, "scopes = false");
    assert_eq!(status(&server, ""), 200);
}

#[test]
fn an_issuer_that_cannot_be_used_is_refused_with_its_line() {
    let base = "issuer = \"https://login.example\"";
    for (server, section, why) in [
        ("", format!("{base}\njwks = \"k.json\""), "set `public_url`"),
        (
            "public_url = \"https://jobs.example/mcp\"",
            base.to_owned(),
            "neither `jwks` nor `introspection`",
        ),
        (
            "public_url = \"https://jobs.example/mcp\"",
            "issuer = \"http://login.example\"\njwks = \"k.json\"".to_owned(),
            "use https://",
        ),
        (
            "public_url = \"https://jobs.example/mcp\"",
            format!("{base}\nintrospection = \"https://login.example/i\""),
            "belong together",
        ),
        (
            "public_url = \"https://jobs.example/mcp\"",
            format!("{base}\njwks = \"k.json\"\nscopes = {{ a = [\"tool:x\"] }}"),
            "tool:x",
        ),
        (
            "public_url = \"https://jobs.example/mcp\"",
            format!("{base}\njwksurl = \"k.json\""),
            "jwksurl",
        ),
        (
            "public_url = \"https://jobs.example/mcp\"",
            format!("{base}\njwks = \"missing.json\""),
            "missing.json: No such file",
        ),
        (
            "public_url = \"https://jobs.example/mcp\"",
            format!("{base}\njwks = \"none.json\""),
            "it has no key for signatures",
        ),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("jobs.toml");
        let jobs = JOBS.replacen("[server]\n", &format!("[server]\n{server}\n"), 1);
        fs::write(&file, format!("{jobs}\n[[server.auth.issuer]]\n{section}\n")).unwrap();
        fs::write(folder.path().join("k.json"), Issuer::new().key_set()).unwrap();
        fs::write(folder.path().join("none.json"), r#"{"keys": []}"#).unwrap();
        let checked = run(&["check", file.to_str().unwrap()]);
        assert!(
            exit(&checked) == 2 && stderr(&checked).contains(why),
            "{why}: {checked:?}"
        );
        assert!(stderr(&checked).contains("jobs.toml:"), "{checked:?}");
    }
}
