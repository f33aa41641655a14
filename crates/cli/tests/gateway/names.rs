//! Tools of one name without prefixes: refused where it can be known before, else left out and told of.

use crate::{hang_up, support::*};
use serde_json::Value;
use std::{fs, path::Path, process::Stdio};

/// The configuration of a second upstream, with these tools, of which each says `Bonjour`.
fn other_config(folder: &Path, tools: &[&str]) {
    let tools = tools.iter().map(|tool| {
        format!(
            "[[tool]]\nname = {tool:?}\ndescription = \"greets\"\ncommand = [\"echo\", \"Bonjour\"]\ntask = \"never\"\n"
        )
    });
    let server = "[server]\nname = \"other\"\nlisten = \"127.0.0.1:0\"\ndata_dir = \"other-data\"\n";
    fs::write(
        folder.join("other.toml"),
        server.to_owned() + &tools.collect::<String>(),
    )
    .unwrap();
}

fn two_config(folder: &Path, upstreams: [(&str, &str); 2]) {
    let upstreams = upstreams.map(|(name, url)| format!("[upstream.{name}]\nurl = {url:?}\n"));
    let server =
        "prefix = false\n[server]\nname = \"gateway\"\nlisten = \"127.0.0.1:0\"\ndata_dir = \"gateway-data\"\n";
    fs::write(folder.join("two.toml"), server.to_owned() + &upstreams.concat()).unwrap();
}

/// A start that must end by itself: its status, and what it says.
fn refused_start(folder: &Path) -> (Option<i32>, String) {
    let mut started = longhaul(folder)
        .args(["serve", "two.toml"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(fs::File::create(folder.join("refused")).unwrap())
        .spawn()
        .unwrap();
    let mut status = None;
    until("the end of a start that is refused", || {
        status = started.try_wait().unwrap();
        let begins = fs::read_to_string(folder.join("refused"))
            .unwrap()
            .contains("listening");
        status.is_some() || begins
    });
    let _ = started.kill();
    let _ = started.wait();
    let told = fs::read_to_string(folder.join("refused")).unwrap();
    (status.and_then(|status| status.code()), told)
}

#[test]
fn a_name_of_two_upstreams_is_refused_at_the_start_and_left_out_later() {
    let folder = folder();
    let folder = folder.path();
    let one = serve(folder, &["upstream.toml"]);
    other_config(folder, &["greet"]);
    let other = serve_with_log(folder, &["other.toml"]);
    two_config(folder, [("one", &one.url), ("two", &other.url)]);
    let (status, told) = refused_start(folder);
    assert_eq!(status, Some(2), "{told}");
    let collision = "upstream `two`: its tool `greet` is not offered: upstream `one` has one of the name `greet`";
    assert!(told.contains(collision), "{told}");

    other_config(folder, &["parrot"]);
    hang_up(folder, &other, "was read again");
    fs::rename(folder.join("log"), folder.join("other-log")).unwrap();
    let gateway = serve_with_log(folder, &["two.toml"]);
    assert_eq!(done(folder, &["call", &gateway.url, "parrot"]), "Bonjour");

    // It comes later: the first one in the file keeps the name.
    other_config(folder, &["parrot", "greet"]);
    rustix::process::kill_process(
        rustix::process::Pid::from_child(&other.child),
        rustix::process::Signal::HUP,
    )
    .unwrap();
    let log = || fs::read_to_string(folder.join("log")).unwrap();
    until("the error", || {
        log().lines().any(|line| {
            line.contains("ERROR") && line.contains("a tool of an upstream is not offered") && line.contains("greet")
        })
    });
    assert_eq!(done(folder, &["call", &gateway.url, "greet"]), "Hello");
    let listed: Value = serde_json::from_str(&done(folder, &["admin", "upstreams", "two.toml", "--json"])).unwrap();
    let two = &listed.as_array().or_else(|| listed["upstreams"].as_array()).unwrap()[1];
    let why = two["leftOut"]["greet"].as_str().unwrap();
    assert!(why.contains("upstream `one` has one of this name"), "{listed}");
    done(folder, &["admin", "upstreams", "two.toml"]).has("1 (1 left out)");
    let doctor = run(folder, &["admin", "doctor", "two.toml"]);
    let doctor = String::from_utf8_lossy(&[doctor.stdout, doctor.stderr].concat()).into_owned();
    doctor.has("the tool greet of the upstream two is not offered");
    assert_eq!(run(folder, &["check", "two.toml"]).status.code(), Some(2));

    // A server that has run must come up again, whatever an upstream has got.
    drop(gateway);
    let gateway = serve_with_log(folder, &["two.toml"]);
    assert_eq!(done(folder, &["call", &gateway.url, "greet"]), "Hello");
    drop(gateway);

    // Another configuration is looked at again.
    two_config(folder, [("two", &other.url), ("one", &one.url)]);
    let (status, told) = refused_start(folder);
    assert_eq!(status, Some(2), "{told}");
    told.has("upstream `one`: its tool `greet` is not offered: upstream `two`");

    // By the lists that are stored: the first one is down.
    drop(other);
    fs::write(
        folder.join("two.toml"),
        fs::read_to_string(folder.join("two.toml")).unwrap() + "tools = { deny = [\"gate\"] }\n",
    )
    .unwrap();
    let (status, told) = refused_start(folder);
    assert_eq!(status, Some(2), "{told}");
    assert!(told.contains("`greet`"), "{told}");
}
