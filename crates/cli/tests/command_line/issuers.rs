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
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    thread,
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
        let head = part(json!({"alg": "ES256", "kid": "k", "typ": "at+jwt"}));
        let message = format!("{head}.{}", part(claims));
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
    let host = server.address;
    write!(
        connection,
        "GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"
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
    metadata.begins_with("HTTP/1.1 200").has(ISSUER).has(PUBLIC_URL);
    let refused = get(&server, "/mcp").to_lowercase();
    refused.begins_with("http/1.1 401").has("resource_metadata=");

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
    let get = |server: &Protected, token: &str| post(server, token, "tasks/get", task.clone());
    let nobodys = json!({"taskId": "0123456789abcdefghjkmnpqrstvwxyz0123"});
    let unknown = post(&server, &bob, "tasks/get", nobodys);
    assert_eq!(get(&server, &bob), unknown);
    assert_eq!(get(&server, &reader).1["result"]["status"], "working");
    assert_eq!(post(&server, &reader, "tasks/cancel", task.clone()).0, 403);

    server.child.kill().unwrap();
    server.child.wait().unwrap();
    (server.child, _) = serve(server.folder.path(), &server.address.to_string());
    let later = issuer.token("ann", everything, PUBLIC_URL, 600);
    assert_eq!(get(&server, &later).1["result"]["status"], "working");
    assert_eq!(get(&server, &bob), unknown);
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
fn all_mistakes_of_issuers_and_tls_are_reported_with_their_lines() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("jobs.toml");
    let mistakes = r#"[server]
name = "test"
[[server.auth.issuer]]
issuer = "http://a.example"
jwks = "missing.json"
introspection = "ftp://a.example"
scopes = true
[[server.auth.issuer]]
issuer = "https://b.example"
jwks = "none.json"
[[server.auth.issuer]]
issuer = "https://c.example"
[[server.auth.issuer]]
issuer = "https://d.example"
jwks = "https://d.example/keys"
[[server.auth.issuer]]
issuer = "https://d.example"
jwks = "https://d.example/keys"
jwksurl = "k.json"
[server.tls]
cert = "missing.pem"
key = "none.json"
"#;
    let tools = JOBS.replacen("[server]\nname = \"test\"\n", "", 1);
    fs::write(&file, format!("{mistakes}{tools}")).unwrap();
    fs::write(folder.path().join("none.json"), r#"{"keys": []}"#).unwrap();
    let checked = run(&["check", "--json", file.to_str().unwrap()]);
    assert_eq!(exit(&checked), 2, "{checked:?}");
    let checked: Value = serde_json::from_str(stdout(&checked)).unwrap();
    let problems = checked["problems"].as_array().unwrap();
    let found: Vec<(u64, &str)> = problems
        .iter()
        .map(|problem| (problem["line"].as_u64().unwrap(), problem["message"].as_str().unwrap()))
        .collect();
    let expected = [
        (3, "set `public_url`"),
        (3, "belong together"),
        (4, "issuer \"http://a.example\" cannot be used"),
        (5, "missing.json: No such file"),
        (6, "introspection \"ftp://a.example\" cannot be used"),
        (7, "`scopes` must be false, or a table"),
        (10, "none.json: it has no key for signatures"),
        (11, "neither `jwks` nor `introspection`"),
        (16, "configured twice"),
        (19, "jwksurl"),
        (21, "`cert`: cannot read "),
        (22, "none.json has no private key"),
    ];
    assert_eq!(found.len(), expected.len(), "{found:#?}");
    for ((line, message), (expected_line, part)) in found.iter().zip(expected) {
        assert!(*line == expected_line && message.contains(part), "{found:#?}");
    }
}

/// The address of an HTTP server with these documents.
#[expect(clippy::disallowed_methods, reason = "a peer of a test")]
fn documents(of: impl Fn(&str) -> Vec<(&'static str, String)>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let documents = of(&address);
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = BufReader::new(stream.unwrap());
            let (mut line, mut found) = (String::new(), None);
            while stream.read_line(&mut line).unwrap() > 2 {
                let is_asked = |path: &str| line.starts_with(&format!("GET {path} "));
                found = found.or_else(|| documents.iter().find(|(path, _)| is_asked(path)));
                line.clear();
            }
            let (status, body) = found.map_or(("404 Not Found", ""), |(_, body)| ("200 OK", body));
            let head = format!(
                "HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
                body.len()
            );
            let _ = stream.get_mut().write_all(head.as_bytes());
        }
    });
    address
}

#[test]
fn what_issuers_do_not_answer_is_warned_of() {
    let well_known = "/.well-known/openid-configuration";
    let sound = documents(|address| {
        let metadata = json!({"issuer": address}).to_string();
        vec![("/keys", Issuer::new().key_set()), (well_known, metadata)]
    });
    let other = documents(|_| vec![(well_known, json!({"issuer": "https://other.example"}).to_string())]);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("jobs.toml");
    let issuers: String = [&sound, &other]
        .map(|issuer| format!("[[server.auth.issuer]]\nissuer = {issuer:?}\njwks = \"{issuer}/keys\"\n"))
        .concat();
    let jobs = JOBS.replacen("[server]\n", &format!("[server]\npublic_url = {PUBLIC_URL:?}\n"), 1);
    fs::write(&file, format!("{jobs}{issuers}")).unwrap();
    let checked = run(&["check", file.to_str().unwrap()]);
    checked.ends(0).says_no(&sound);
    checked.says(&format!(
        "keys cannot be read from {other}/keys: it answered with status 404"
    ));
    checked.says(&format!(
        "{other}{well_known} is about another issuer, https://other.example"
    ));
    run(&["check", "--offline", file.to_str().unwrap()]).says_no(&other);
}

#[test]
fn scopes_for_tools_that_do_not_exist_are_warned_of() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("jobs.toml");
    fs::write(folder.path().join("keys.json"), Issuer::new().key_set()).unwrap();
    let jobs = JOBS.replacen("[server]\n", &format!("[server]\npublic_url = {PUBLIC_URL:?}\n"), 1);
    let issuer = |scopes: &str| {
        format!("{jobs}[[server.auth.issuer]]\nissuer = {ISSUER:?}\njwks = \"keys.json\"\nscopes = {scopes}\n")
    };
    let warned = |text: String| {
        fs::write(&file, text).unwrap();
        let checked = run(&["check", "--offline", file.to_str().unwrap()]);
        assert_eq!(exit(&checked), 0, "{checked:?}");
        stderr(&checked).to_owned()
    };
    let said = warned(issuer(r#"{ a = ["tools:ecko", "tools:ga*", "tasks:read"] }"#));
    let line = jobs.lines().count() + 4;
    let why = "`scopes`: no tool fits `ecko`; did you mean `echo`?";
    said.has(&format!("jobs.toml:{line}: {why}")).lacks("`ga*`");
    warned(issuer("{}")).has("no token of this issuer permits anything");
    // The tools of an upstream are not known while it is not asked.
    let upstream = "[upstream.other]\ncommand = [\"true\"]\n";
    warned(issuer(r#"{ a = ["tools:ecko"] }"#) + upstream).lacks("no tool fits");
}
