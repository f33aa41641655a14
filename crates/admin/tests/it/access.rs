//! Who may operate.

use crate::world::World;
use reqwest::{Method, header};
use serde_json::json;
use std::fs;

const PATHS: [&str; 5] = ["/", "/tools", "/api/tasks", "/api/stats", "/metrics"];

#[tokio::test]
async fn a_process_of_the_servers_user_needs_no_key() {
    let world = World::new(true).await;
    for path in PATHS {
        assert_eq!(world.get(path).await.status(), 200, "{path}");
    }
    for forwarding in ["x-forwarded-for", "forwarded", "via"] {
        let forwarded = world.request(Method::GET, "/api/stats").header(forwarding, "10.0.0.1");
        assert_eq!(forwarded.send().await.unwrap().status(), 401, "{forwarding}");
    }
}

#[tokio::test]
async fn others_need_the_key() {
    let world = World::new(false).await;
    for path in PATHS {
        assert_eq!(world.get(path).await.status(), 401, "{path}");
        let keyed = |key: &str| world.request(Method::GET, path).bearer_auth(key).send();
        assert_eq!(keyed(&world.admin_key).await.unwrap().status(), 200, "{path}");
        assert_eq!(keyed(&world.admin_key[..40]).await.unwrap().status(), 401, "{path}");
        assert_eq!(keyed("").await.unwrap().status(), 401, "{path}");
    }
    for path in [
        "/healthz",
        "/readyz",
        "/login",
        "/assets/style.css",
        "/assets/live.js",
        "/assets/morph.js",
    ] {
        assert_eq!(world.get(path).await.status(), 200, "{path}");
    }
}

#[tokio::test]
async fn the_key_of_metrics_opens_metrics_alone() {
    let world = World::new(false).await;
    for path in PATHS {
        let keyed = world.request(Method::GET, path).bearer_auth(&world.metrics_key);
        let expected = if path == "/metrics" { 200 } else { 401 };
        assert_eq!(keyed.send().await.unwrap().status(), expected, "{path}");
    }
}

#[tokio::test]
async fn a_credential_that_is_wrong_is_not_ignored() {
    let world = World::new(true).await;
    let wrong = world.request(Method::GET, "/api/stats").bearer_auth("lha_wrong");
    assert_eq!(wrong.send().await.unwrap().status(), 401);
    // Nor is one of two, whichever comes first.
    for path in ["/api/stats", "/metrics"] {
        for keys in [["lha_wrong", &world.admin_key], [&world.admin_key, "lha_wrong"]] {
            let request = world.request(Method::GET, path);
            let both = keys.iter().fold(request, |request, key| request.bearer_auth(key));
            assert_eq!(both.send().await.unwrap().status(), 401, "{path} {keys:?}");
        }
    }
}

#[tokio::test]
async fn requests_name_this_server() {
    let world = World::new(true).await;
    let status = async |host: &str| {
        let request = world.request(Method::GET, "/api/stats").header(header::HOST, host);
        request
            .bearer_auth(&world.admin_key)
            .send()
            .await
            .unwrap()
            .status()
            .as_u16()
    };
    assert_eq!(status("evil.example.com").await, 403);
    assert_eq!(status("ops.example.com").await, 200, "an allowed host");
    assert_eq!(status("localhost").await, 200);
    assert_eq!(status("localhost.evil.example.com:80").await, 403);
}

/// A page elsewhere can make a browser of the server's user send requests.
#[tokio::test]
async fn web_pages_of_other_origins_do_nothing() {
    let world = World::new(true).await;
    let own = format!("http://{}", world.address);
    let status = async |method: Method, name: &str, value: &str| {
        let request = world.request(method, "/api/drain").header(name, value);
        request.send().await.unwrap().status().as_u16()
    };
    for origin in [
        "https://evil.example.com",
        "null",
        "http://localhost:3000",
        "http://127.0.0.1",
    ] {
        assert_eq!(status(Method::POST, "origin", origin).await, 403, "{origin}");
    }
    assert_eq!(status(Method::POST, "sec-fetch-site", "cross-site").await, 403);
    assert_eq!(status(Method::GET, "sec-fetch-site", "cross-site").await, 403);
    assert!(!world.stop.is_cancelled());
    assert_eq!(
        status(Method::POST, "origin", &own).await,
        200,
        "the page of this server"
    );
    assert!(world.stop.is_cancelled());
}

#[tokio::test]
async fn a_browser_logs_in_with_the_key() {
    let world = World::new(false).await;
    let page = world
        .request(Method::GET, "/")
        .header(header::ACCEPT, "text/html")
        .send()
        .await
        .unwrap();
    assert_eq!(
        (page.status().as_u16(), &page.headers()["location"]),
        (303, &"/login?to=%2F".parse().unwrap())
    );
    let log_in = async |key: &str| {
        let own = format!("http://{}", world.address);
        let form = world.request(Method::POST, "/login").header(header::ORIGIN, own);
        let form = form.header(header::CONTENT_TYPE, "application/x-www-form-urlencoded");
        form.body(format!("key={key}")).send().await.unwrap()
    };
    let refused = log_in("lha_wrong").await;
    assert_eq!(
        (refused.status().as_u16(), refused.headers().get("set-cookie")),
        (401, None)
    );
    let lines = world.audit.lines();
    assert_eq!(
        (&lines[0]["action"], &lines[0]["detail"]),
        (&json!("denied"), &json!("the admin address: no key, or a wrong one")),
        "as with a wrong key of a program"
    );
    for (to, shown) in [("/tools", "/tools"), ("//evil.example.com", "/"), ("https://evil", "/")] {
        let granted = log_in(&format!("{}&to={to}", world.admin_key)).await;
        assert_eq!(
            (granted.status().as_u16(), &granted.headers()["location"]),
            (303, &shown.parse().unwrap())
        );
    }
    let sent = world
        .request(Method::POST, "/tools/gated/pause")
        .header(header::ORIGIN, format!("http://{}", world.address))
        .header(header::ACCEPT, "text/html");
    let sent = sent.send().await.unwrap();
    assert_eq!(sent.status(), 401);
    assert!(
        sent.text()
            .await
            .unwrap()
            .contains("Nothing was done: you are not logged in")
    );
    let granted = log_in(&world.admin_key).await;
    let cookie = granted.headers()["set-cookie"].to_str().unwrap().to_owned();
    assert!(cookie.contains("HttpOnly; SameSite=Strict"), "{cookie}");
    let cookie = cookie.split(';').next().unwrap();
    let shown = world.request(Method::GET, "/").header(header::COOKIE, cookie);
    assert_eq!(shown.send().await.unwrap().status(), 200);
    let drain = |origin: Option<String>| {
        let request = world.request(Method::POST, "/api/drain").header(header::COOKIE, cookie);
        origin
            .into_iter()
            .fold(request, |request, origin| request.header(header::ORIGIN, origin))
            .send()
    };
    assert_eq!(drain(None).await.unwrap().status(), 403, "a cookie without an origin");
    let own = format!("http://{}", world.address);
    let out = world.request(Method::POST, "/logout").header(header::COOKIE, cookie);
    assert_eq!(out.header(header::ORIGIN, own).send().await.unwrap().status(), 303);
    let shown = world.request(Method::GET, "/api/stats").header(header::COOKIE, cookie);
    assert_eq!(shown.send().await.unwrap().status(), 401, "logged out");
}

#[tokio::test]
async fn another_key_in_the_file_counts_at_once() {
    let directory = tempfile::tempdir().unwrap();
    let ports = longhaul_runtime::Ports::system();
    let open = || longhaul_admin::AdminKeyFile::in_data_dir(directory.path(), "admin.key", "lha_", &*ports.entropy);
    let file = open().unwrap();
    let first = file.read().unwrap();
    assert!(first.starts_with("lha_") && first.len() > 40, "{}", first.len());
    assert_eq!(open().unwrap().read().unwrap(), first, "it is made once");
    fs::write(file.path(), "short\n").unwrap();
    let error = open().unwrap_err().to_string();
    assert!(
        error.ends_with("the key has 5 characters; it needs at least 32"),
        "{error}"
    );
    fs::write(file.path(), format!("{}\n", "k".repeat(32))).unwrap();
    assert_eq!(file.read().unwrap(), "k".repeat(32));
}

/// Connections that send nothing take neither the server's descriptors nor its time to stop.
#[tokio::test]
async fn connections_that_say_nothing_are_bounded_and_do_not_hold_up_the_end() {
    let mut world = World::new(false).await;
    let mut silent = Vec::new();
    for _ in 0..300 {
        silent.push(tokio::net::TcpStream::connect(world.address).await.unwrap());
    }
    // Each one too many is closed by the other end; the rest waits for a request.
    let is_closed = |stream: &tokio::net::TcpStream| matches!(stream.try_read(&mut [0]), Ok(0));
    let mut closed = 0;
    while closed < 300 - 256 {
        let open = silent.len();
        silent.retain(|stream| !is_closed(stream));
        closed += open - silent.len();
        tokio::task::yield_now().await;
    }
    assert_eq!(silent.len(), 256);
    world.stop.cancel();
    world.served.take().unwrap().await.unwrap();
}

#[tokio::test]
async fn a_session_ends_with_its_key_and_denials_are_recorded() {
    let world = World::new(false).await;
    let own = format!("http://{}", world.address);
    let form = world.request(Method::POST, "/login").header(header::ORIGIN, own);
    let form = form.header(header::CONTENT_TYPE, "application/x-www-form-urlencoded");
    let granted = form.body(format!("key={}", world.admin_key)).send().await.unwrap();
    let cookie = granted.headers()["set-cookie"]
        .to_str()
        .unwrap()
        .split(';')
        .next()
        .unwrap()
        .to_owned();
    let status = async || {
        let request = world.request(Method::GET, "/api/stats").header(header::COOKIE, &cookie);
        request.send().await.unwrap().status().as_u16()
    };
    assert_eq!(status().await, 200);
    fs::write(world.key_path(), "another key that is long enough to count").unwrap();
    assert_eq!(status().await, 401);
    let wrong = world.request(Method::GET, "/api/stats").bearer_auth(&world.admin_key);
    assert_eq!(wrong.send().await.unwrap().status(), 401);
    let line = world.audit.lines().remove(0);
    assert_eq!(
        (&line["action"], &line["address"]),
        (&"denied".into(), &"127.0.0.1".into())
    );
}
