//! Logging in at a shell.

use crate::{
    assertions::*,
    authorization_server::Protected,
    support::{Shell, exit, longhaul, stderr},
};
use reqwest::{Client, Url, redirect::Policy};
use serde_json::Value;
use std::{
    fs,
    io::{BufRead, BufReader, ErrorKind, Read, Write},
    net::TcpListener,
    os::unix::fs::PermissionsExt,
    path::Path,
    process::{Child, Command, Stdio},
    thread,
};
use tempfile::{TempDir, tempdir};

/// A browser of this user: a program in `PATH` that writes the address it is to open into a file.
fn browser(folder: &Path) -> String {
    let program = folder.join("xdg-open");
    fs::write(&program, "#!/bin/sh\nprintf %s \"$1\" > \"$LONGHAUL_TEST_FILE.new\"\nmv \"$LONGHAUL_TEST_FILE.new\" \"$LONGHAUL_TEST_FILE\"\n").unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    format!("{}:/usr/bin:/bin", folder.display())
}

fn json(command: &mut Command, status: i32) -> Value {
    serde_json::from_str(&exit(&command.output().unwrap(), status)).unwrap()
}

fn client(policy: Policy) -> Client {
    longhaul_client::install_tls_provider();
    Client::builder().redirect(policy).build().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_browser_logs_in_and_later_commands_are_logged_in() {
    let (server, home, folder) = (Protected::start().await, tempdir().unwrap(), tempdir().unwrap());
    let url = server.url();
    calls_deploy(&home, &url, 5).has(&format!("longhaul login {url}"));

    let opened = folder.path().join("opened");
    let mut login = longhaul(&["login", &url, "--json"], &home);
    login
        .env("PATH", browser(folder.path()))
        .env("LONGHAUL_TEST_FILE", &opened);
    let login = login.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    while !opened.exists() {
        tokio::task::yield_now().await;
    }
    let page = client(Policy::default())
        .get(fs::read_to_string(&opened).unwrap())
        .send()
        .await
        .unwrap();
    assert!(page.text().await.unwrap().contains("close this window"));
    let logged_in = exit(&login.wait_with_output().unwrap(), 0);
    let logged_in: Value = serde_json::from_str(&logged_in).unwrap();
    assert_eq!(logged_in["loggedIn"], true);
    assert_eq!(logged_in["scopes"][0], "read");

    calls_deploy(&home, &url, 0);
    let shown = |command: &str, status| json(&mut longhaul(&[command, &url, "--json"], &home), status);
    assert_eq!(shown("whoami", 0)["issuer"], server.origin.as_str());
    assert_eq!(shown("logout", 0)["loggedOut"], true);
    assert_eq!(shown("whoami", 5)["loggedIn"], false);
    calls_deploy(&home, &url, 5);
}

/// Calls the tool, which ends with this status, and returns what is said.
#[track_caller]
fn calls_deploy(home: &TempDir, url: &str, status: i32) -> String {
    let called = longhaul(&["call", url, "deploy"], home).output().unwrap();
    exit(&called, status);
    stderr(&called)
}

/// The command, with all three streams in the test's hands.
fn piped(mut command: Command) -> Child {
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_browser_the_address_is_pasted() {
    let (server, home) = (Protected::start().await, tempdir().unwrap());
    pasted_login(&home, &server.url(), &[]).await;
    calls_deploy(&home, &server.url(), 0);

    // A token of long ago, which nothing refreshes.
    let file = home.path().join("longhaul/.client/tokens.json");
    let mut kept: Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
    let credentials = &mut kept["servers"][server.url()]["credentials"];
    credentials["token_received_at"] = 1_000_000_000.into();
    let response = credentials["token_response"].as_object_mut().unwrap();
    assert!(response.remove("refresh_token").is_some());
    fs::write(&file, kept.to_string()).unwrap();
    let shown = exit(&longhaul(&["whoami", &server.url()], &home).output().unwrap(), 5);
    assert!(shown.contains("ended    2001-09-09"), "{shown}");
}

/// A server of several authorization servers may say only after a login what it needs.
#[tokio::test(flavor = "multi_thread")]
async fn a_login_that_permits_too_little_is_made_again_with_more() {
    let (server, home) = (Protected::start().await, tempdir().unwrap());
    server.issued(|issued| issued.names_scopes_late = true);
    let mut login = piped(longhaul(&["login", &server.url(), "--no-browser", "--json"], &home));
    let mut pasted = login.stdin.take().unwrap();
    for line in BufReader::new(login.stderr.take().unwrap()).lines() {
        if let Some(shown) = line.unwrap().strip_prefix("log in at ") {
            let answer = client(Policy::none()).get(shown).send().await.unwrap();
            writeln!(pasted, "{}", answer.headers()["location"].to_str().unwrap()).unwrap();
        }
    }
    exit(&login.wait_with_output().unwrap(), 0);
    assert_eq!(server.issued(|issued| issued.asked.clone()), ["", "read"]);
    calls_deploy(&home, &server.url(), 0);
}

/// A server may have its challenge on POST alone, with its permissions and the place of its metadata.
#[tokio::test(flavor = "multi_thread")]
async fn the_challenge_of_a_post_is_what_a_login_follows() {
    let (server, home) = (Protected::start().await, tempdir().unwrap());
    server.issued(|issued| issued.described_at = vec!["/elsewhere"]);
    let url = server.url();
    assert_eq!(client(Policy::none()).get(&url).send().await.unwrap().status(), 405);
    pasted_login(&home, &url, &[]).await;
    assert_eq!(server.issued(|issued| issued.asked.clone()), ["read"]);
}

/// Nothing is kept of a server that serves everyone and names no authorization server.
#[test]
fn a_server_that_needs_no_login_says_so() {
    let (served, home) = (crate::support::served(), tempdir().unwrap());
    let said = longhaul(&["login", &served.url], &home).output().unwrap();
    said.ends(0).says("needs no login").says("--key`");
    let said = json(&mut longhaul(&["login", &served.url, "--json"], &home), 0);
    said.has_members(serde_json::json!({"loggedIn": false, "needed": false}));
    exit(&longhaul(&["whoami", &served.url], &home).output().unwrap(), 5);
}

/// The URL of a server that refuses every request, and names no authorization server.
#[expect(clippy::disallowed_methods, reason = "a peer of a test")]
fn keys_only() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = BufReader::new(stream.unwrap());
            let (mut line, mut status, mut length) = (String::new(), "404 Not Found", 0);
            while stream.read_line(&mut line).unwrap() > 2 {
                let lower = line.to_lowercase();
                if lower.starts_with("post /mcp ") {
                    status = "401 Unauthorized";
                }
                if let Some(value) = lower.strip_prefix("content-length:") {
                    length = value.trim().parse().unwrap();
                }
                line.clear();
            }
            stream.read_exact(&mut vec![0; length]).unwrap();
            let head = format!(
                "HTTP/1.1 {status}\r\nWWW-Authenticate: Bearer\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
            );
            let _ = stream.get_mut().write_all(head.as_bytes());
        }
    });
    url
}

/// Each failure says what to do next.
#[tokio::test(flavor = "multi_thread")]
async fn a_login_that_fails_says_how_to_go_on() {
    let (server, home) = (Protected::start().await, tempdir().unwrap());
    let url = server.url();
    let run = |words: &[&str]| longhaul(words, &home).output().unwrap();
    run(&["login", &url, "--no-browser"])
        .ends(5)
        .says("nothing was pasted\n");
    run(&["tools", &url])
        .ends(5)
        .says("longhaul login http")
        .says_no("--key");
    server.issued(|issued| issued.metadata = serde_json::json!({"registration_endpoint": null}));
    let other = tempdir().unwrap();
    let unregistered = longhaul(&["login", &url, "--no-browser"], &other).output();
    unregistered.unwrap().says("`--client-id`");
    let keys_only = keys_only();
    let kept_with = format!("longhaul login --key {keys_only}");
    run(&["login", &keys_only]).ends(5).says(&kept_with);
    run(&["tools", &keys_only]).ends(5).says(&kept_with);
    let mut unreadable = longhaul(&["tools", "https://127.0.0.1:1/mcp"], &home);
    let unreadable = unreadable.env("SSL_CERT_FILE", "/nowhere/authorities.pem").output();
    unreadable
        .unwrap()
        .says("/nowhere/authorities.pem, which cannot be read");
}

fn with_key(home: &TempDir, words: &[&str], key: &str) -> std::process::Output {
    let mut child = piped(longhaul(words, home));
    match child.stdin.take().unwrap().write_all(key.as_bytes()) {
        // What is refused without the key need not read it.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => {}
        written => written.unwrap(),
    }
    child.wait_with_output().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_is_kept_or_configured() {
    let (server, home) = (Protected::start().await, tempdir().unwrap());
    server.issued(|issued| issued.access.insert("lhk_1".to_owned(), "read".to_owned()));
    let url = server.url();
    exit(&with_key(&home, &["login", "--key", &url], "two words"), 2);
    // Some copy the header with it.
    for key in ["lhk_1\n", "Bearer lhk_1", "authorization: bearer lhk_1\n"] {
        exit(&with_key(&home, &["login", "--key", &url], key), 0);
        calls_deploy(&home, &url, 0);
        exit(&longhaul(&["logout", &url], &home).output().unwrap(), 0);
    }

    let config = home.path().join("longhaul");
    fs::create_dir_all(&config).unwrap();
    let entry = format!("[servers.prod]\nurl = {url:?}\nheaders = {{ Authorization = \"Bearer ${{PROD_KEY}}\" }}\n");
    fs::write(config.join("servers.toml"), entry).unwrap();
    let run = |words: &[&str], key: &str| {
        let mut command = longhaul(words, &home);
        command.env("PROD_KEY", key);
        command.output().unwrap()
    };
    exit(&run(&["call", "prod", "deploy"], "lhk_1"), 0);
    run(&["call", "prod", "deploy"], "lhk_2").ends(5).says_no("lhk_2");
    exit(&run(&["login", "prod"], "lhk_1"), 2);
}

/// Asked once, so that a wrong key is found where it is given.
#[tokio::test(flavor = "multi_thread")]
async fn a_key_is_checked_before_it_is_kept() {
    let (server, home) = (Protected::start().await, tempdir().unwrap());
    server.issued(|issued| issued.access.insert("lhk_1".to_owned(), "read".to_owned()));
    let url = server.url();
    let accepted = exit(&with_key(&home, &["login", "--key", &url], "lhk_1"), 0);
    assert!(accepted.contains("the server accepts it"), "{accepted}");
    server.issued(|issued| issued.refuses_because = Some("it was revoked"));
    let refused = with_key(&home, &["login", "--key", &url], "lhk_2");
    exit(&refused, 5);
    refused.says("it was revoked; the key is not kept").says_no("lhk_2");
    let file = home.path().join("longhaul/.client/tokens.json");
    let kept = || fs::read_to_string(&file).unwrap();
    assert!(kept().contains("lhk_1") && !kept().contains("lhk_2"));

    // Nobody listens there.
    let nowhere = "http://127.0.0.1:1/mcp";
    let unchecked = with_key(&home, &["login", "--key", nowhere], "lhk_3");
    unchecked.ends(0).says("not checked: ");
    assert!(kept().contains("lhk_3"));

    // As another machine, as far as the address says.
    server.issued(|issued| issued.refuses_because = None);
    let elsewhere = url.replace("127.0.0.1", "0.0.0.0");
    let refused = with_key(&home, &["login", "--key", &elsewhere], "lhk_1");
    refused.ends(2).says("`--plain-http`");
    let permitted = with_key(&home, &["login", "--key", "--plain-http", &elsewhere], "lhk_1");
    exit(&permitted, 0);
    let used = longhaul(&["call", &elsewhere, "deploy"], &home).output().unwrap();
    exit(&used, 0);
    for said in [stderr(&permitted), stderr(&used)] {
        assert_eq!(said.matches("others on the network can read").count(), 1, "{said}");
    }

    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    let told = longhaul(&["whoami", &url], &home).output().unwrap();
    assert!(stderr(&told).contains("(mode 644); its mode is 600 now"), "{told:?}");
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);

    fs::write(&file, "{").unwrap();
    exit(&with_key(&home, &["login", "--key", &url], "lhk_1"), 2);
    for words in [
        &["login", &url, "--no-browser"][..],
        &["tools", &url],
        &["whoami", &url],
        &["logout", &url],
    ] {
        println!("{words:?}");
        let damaged = longhaul(words, &home).output().unwrap();
        damaged.ends(2).says("tokens.json: it is damaged").says("move it away");
        damaged.says_no("the login failed");
    }
}

/// Two names of one server may be two callers, whose tasks are kept apart there.
#[test]
fn the_tasks_of_each_name_are_asked_for_as_that_name() {
    let served = crate::support::served();
    let folder = served.home.path().join("longhaul");
    fs::create_dir_all(&folder).unwrap();
    let entry = |name: &str| format!("[servers.{name}]\nurl = {:?}\n", served.url);
    fs::write(folder.join("servers.toml"), entry("ann") + &entry("bob")).unwrap();
    for name in ["ann", "bob"] {
        exit(&served.run(&["call", name, "wait", "--detach"]), 0);
    }
    let names = |words: &[&str]| -> Vec<String> {
        let mut all = words.to_vec();
        all.push("--json");
        let listed: Value = serde_json::from_str(&exit(&served.run(&all), 0)).unwrap();
        let tasks = listed["calls"].as_array().unwrap().iter();
        let mut names: Vec<String> = tasks
            .map(|task| task["serverName"].as_str().unwrap().to_owned())
            .collect();
        names.sort();
        names
    };
    assert_eq!(names(&["tasks", "ann"]), ["ann"]);
    assert_eq!(names(&["tasks", served.url.as_str()]), ["ann", "bob"]);
}

/// A proxy is for servers elsewhere: what is exchanged on this machine stays here.
#[tokio::test(flavor = "multi_thread")]
async fn a_login_on_this_machine_passes_by_proxies() {
    let (server, home) = (Protected::start().await, tempdir().unwrap());
    let secret = home.path().join("secret");
    fs::write(&secret, "s3cret").unwrap();
    let url = server.url();
    let secret = format!("--client-secret-file={}", secret.display());
    let words = ["login", &url, "--as-client", "--client-id=me", &secret];
    // Nobody listens there.
    let behind = |words: &[&str]| {
        let mut command = longhaul(words, &home);
        for name in ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"] {
            command.env(name, "http://127.0.0.1:1");
        }
        command.env_remove("NO_PROXY").env_remove("no_proxy");
        command.output().unwrap()
    };
    exit(&behind(&words), 0);
    server.issued(|issued| issued.access.clear());
    exit(&behind(&["call", &url, "deploy"]), 0);
    assert_eq!(server.issued(|issued| issued.clients_asked.len()), 2);
}

/// Logs in, pastes what the authorization server answers, and returns what the command has written to standard error behind the address.
async fn pasted_login(home: &TempDir, url: &str, words: &[&str]) -> String {
    let words = [&["login", url, "--no-browser"], words].concat();
    let mut login = piped(longhaul(&words, home));
    let mut said = BufReader::new(login.stderr.take().unwrap());
    let mut line = String::new();
    said.read_line(&mut line).unwrap();
    let shown = Url::parse(line.trim().strip_prefix("log in at ").unwrap()).unwrap();
    let answer = client(Policy::none()).get(shown).send().await.unwrap();
    let location = answer.headers()["location"].to_str().unwrap().to_owned();
    writeln!(login.stdin.take().unwrap(), "{location}").unwrap();
    let mut rest = String::new();
    said.read_to_string(&mut rest).unwrap();
    assert!(login.wait().unwrap().success(), "{rest}");
    rest
}

/// Nobody is sent to a login that was of no use just now.
#[tokio::test(flavor = "multi_thread")]
async fn s_34_a_login_that_is_granted_less_says_so() {
    let (server, home) = (Protected::start().await, tempdir().unwrap());
    let url = server.url();
    let call = |status| {
        let called = longhaul(&["call", &url, "deploy", "--json"], &home).output().unwrap();
        exit(&called, status);
        stderr(&called)
    };
    assert!(!pasted_login(&home, &url, &[]).await.contains("granted"));
    server.issued(|issued| {
        issued.call_scope = "deploy";
        issued.grants_only = Some("read");
    });
    assert!(call(5).contains("log in with"));
    let said = pasted_login(&home, &url, &[]).await;
    said.has("has not granted deploy, which this login asked for; it has granted read");
    let shown = json(&mut longhaul(&["whoami", &url, "--json"], &home), 0);
    assert_eq!([&shown["scopes"][0], &shown["notGranted"][0]], ["read", "deploy"]);
    let shown = exit(&longhaul(&["whoami", &url], &home).output().unwrap(), 0);
    shown.has("without  deploy: asked for, and not granted by this name");
    let logins = server.issued(|issued| issued.asked.len());
    for _ in 0..2 {
        call(5).has("does not grant deploy").has("once it does");
    }

    // A login that the user begins asks again.
    server.issued(|issued| issued.grants_only = None);
    assert!(!pasted_login(&home, &url, &[]).await.contains("granted"));
    call(0);
    assert_eq!(server.issued(|issued| issued.asked.len()), logins + 1);
    let shown = json(&mut longhaul(&["whoami", &url, "--json"], &home), 0);
    assert_eq!(shown["notGranted"], serde_json::json!([]));
}

/// What a command was refused for lack of is what the login after it asks for, beside what there was.
#[tokio::test(flavor = "multi_thread")]
async fn s_34_the_advised_login_asks_for_what_was_missing() {
    let (server, home) = (Protected::start().await, tempdir().unwrap());
    let url = server.url();
    let asked = || server.issued(|issued| issued.asked.last().unwrap().clone());
    pasted_login(&home, &url, &[]).await;
    assert_eq!(asked(), "read");

    server.issued(|issued| issued.call_scope = "deploy");
    let said = calls_deploy(&home, &url, 5);
    said.has("permits deploy").has("longhaul login");
    pasted_login(&home, &url, &[]).await;
    assert_eq!(asked(), "read deploy");
    calls_deploy(&home, &url, 0);

    pasted_login(&home, &url, &["--scope", "more"]).await;
    assert_eq!(asked(), "more read deploy");
    // What a server does not list may be what the login does not permit.
    let unknown = longhaul(&["call", &url, "deploi"], &home).output().unwrap();
    unknown.ends(2).says("does not permit it").says("longhaul whoami");
}

#[tokio::test(flavor = "multi_thread")]
async fn s_33_the_url_of_a_metadata_document_is_checked() {
    let (server, home) = (Protected::start().await, tempdir().unwrap());
    for wrong in [
        "http://a.example/client",
        "https://a.example",
        "https://a.example/c#x",
        "https://u@a.example/c",
    ] {
        let words = ["login", &server.url(), "--client-metadata-url", wrong];
        let refused = longhaul(&words, &home).output().unwrap();
        refused.ends(2).says("--client-metadata-url");
    }
    let empty = longhaul(&["login", &server.url(), "--scope", ""], &home).output();
    empty.unwrap().ends(2);
}
