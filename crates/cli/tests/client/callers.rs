//! Several callers of one server.

use crate::{
    scripted::{completed, created, scripted},
    support::*,
};
use serde_json::Value;
use std::fs;

/// Two names of one URL with different keys: each task is read with the key of its own name.
#[test]
fn tasks_of_two_names_are_watched_each_with_its_own_key() {
    let served = scripted(|seen| {
        let id = format!(
            "task-of-{}",
            seen.headers["authorization"].trim_start_matches("Bearer ")
        );
        match seen.method() {
            "tools/call" => seen.result(created(&id)),
            "tasks/get" if seen.body["params"]["taskId"] == id.as_str() => seen.result(completed(&id, "")),
            _ => seen.error(200, -32602),
        }
    });
    let entry = |name: &str| {
        format!(
            "[servers.{name}]\nurl = {:?}\nheaders = {{ Authorization = \"Bearer {name}\" }}\n",
            served.url
        )
    };
    let folder = served.home.path().join("longhaul");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("servers.toml"), entry("al") + &entry("bo")).unwrap();
    for name in ["al", "bo"] {
        served.done(&["call", name, "t", "--detach"]);
    }
    let mut watch = longhaul(&["watch", "--json"], &served.home);
    let watched = watch.output().unwrap();
    let mut ended: Vec<(String, Value)> = exit(&watched, 0)
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .map(|line: Value| (line["taskId"].as_str().unwrap().to_owned(), line["status"].clone()))
        .collect();
    ended.sort_by(|one, two| one.0.cmp(&two.0));
    let expected = ["al", "bo"].map(|name| (format!("task-of-{name}"), Value::from("completed")));
    assert_eq!(ended, expected);
}
