//! API keys: whose tasks they show, and how they are added, listed and revoked.

use super::{
    auth::{Protected, bearer, keys},
    support::*,
};
use serde_json::{Value, json};
use std::{fs, os::unix::fs::PermissionsExt, thread};
use tempfile::TempDir;

#[test]
fn keys_say_who_comes_in_and_what_is_whose() {
    let mut server = Protected::start("", "api_keys = true\nsame_user = false", "127.0.0.1:0");
    assert_eq!(server.post("", "tools/list", json!({})), (401, Value::Null));
    assert_eq!(server.status("lhk_wrong"), 401);
    let ann = server.key(&["add", "ann"]);
    let bob = server.key(&["add", "bob", "--tools", "ec*", "--expires", "90d"]);
    server.becomes(&ann, 200);
    server.becomes(&bob, 200);
    let kept = fs::read_to_string(server.folder.path().join("data/keys.json")).unwrap();
    assert!(!kept.contains(&ann[4..]) && !kept.contains(&bob[4..]), "{kept}");

    let call = json!({"name": "gate", "arguments": {"code": 0}});
    let (status, created) = server.post(&bearer(&ann), "tools/call", call.clone());
    assert_eq!(status, 200, "{created}");
    let task = created["result"]["taskId"].as_str().unwrap().to_owned();
    let get =
        |key: &str, task: &str, server: &Protected| server.post(&bearer(key), "tasks/get", json!({"taskId": task}));
    assert_eq!(get(&ann, &task, &server).1["result"]["status"], "working");
    let unknown = get(&bob, "0123456789abcdefghjkmnpqrstvwxyz0123", &server);
    assert_eq!(get(&bob, &task, &server), unknown);
    assert_eq!(server.post(&bearer(&bob), "tools/call", call).0, 403);
    let (_, listed) = server.post(&bearer(&bob), "tools/list", json!({}));
    assert_eq!(listed["result"]["tools"][0]["name"], "echo");
    assert_eq!(listed["result"]["tools"].as_array().unwrap().len(), 1);

    // A crash, a restart and a new secret: her task is still hers.
    server.child.kill().unwrap();
    server.child.wait().unwrap();
    let rotated = server.key(&["rotate", "ann"]);
    (server.child, _) = serve(server.folder.path(), &server.address.to_string());
    assert_eq!(server.status(&ann), 401);
    assert_eq!(get(&rotated, &task, &server).1["result"]["status"], "working");
    assert_eq!(get(&bob, &task, &server), unknown);
    let again = server.key(&["rotate", "ann", "--overlap", "1h"]);
    server.becomes(&again, 200);
    assert_eq!(server.status(&rotated), 200, "for an hour");
    let listed = stdout(&server.keys(&["list"])).to_owned();
    let lines: Vec<&str> = listed.lines().collect();
    assert_eq!(lines[0], "NAME\tSTATE\tTOOLS\tRESOURCES\tEND");
    lines[1].begins_with("ann\tactive\t*\tyes\tno end; the key before it until ");
    assert!(!lines[2].contains("before"), "{listed}");
    fs::write(server.folder.path().join("gate"), "").unwrap();
    loop {
        let (_, got) = get(&again, &task, &server);
        match got["result"]["status"].as_str().unwrap() {
            "completed" => break,
            status => assert_eq!(status, "working", "{got}"),
        }
        thread::yield_now();
    }

    let revoked = server.keys(&["revoke", "ann"]);
    assert_eq!(exit(&revoked), 0, "{revoked:?}");
    server.becomes(&again, 401);
    assert_eq!(server.status(&rotated), 401);
    assert_eq!(server.status(&bob), 200);
    let cyd = json(&server.keys(&["add", "cyd", "--json"]));
    assert_eq!(cyd["name"], "cyd");
    cyd["key"].as_str().unwrap().begins_with("lhk_");
    let gone = json(&server.keys(&["revoke", "cyd", "--json"]));
    assert_eq!(gone, json!({"name": "cyd", "revoked": true}));
    server.keys(&["add", "ann"]).ends(1).says("revoked");
    let list = server.keys(&["list", "--json"]);
    let states = stdout(&list).lines().map(|line| serde_json::from_str(line).unwrap());
    let states: Vec<Value> = states.collect();
    states[0].has_members(json!({"name": "ann", "state": "revoked"}));
    states[1].has_members(json!({"state": "active", "tools": ["ec*"]}));
}

/// A task that waits for a slot when its key is revoked is nobody's.
#[test]
fn a_queued_task_of_a_revoked_key_does_not_begin() {
    let touch = "[[tool]]\nname = \"touch\"\ndescription = \"makes a file\"\ncommand = [\"touch\", \"{file}\"]\ninput = { file = { type = \"string\" } }";
    let server = Protected::start(
        "max_running = 1",
        &format!("api_keys = true\nsame_user = false\n{touch}\ntask = \"optional\""),
        "127.0.0.1:0",
    );
    let (ann, gone) = (server.key(&["add", "ann"]), server.key(&["add", "gone"]));
    server.becomes(&ann, 200);
    server.becomes(&gone, 200);
    let call = |key: &str, name: &str, arguments: Value| {
        let call = json!({"name": name, "arguments": arguments});
        let (status, body) = server.post(&bearer(key), "tools/call", call);
        assert_eq!(status, 200, "{body}");
        body["result"]["taskId"].as_str().unwrap().to_owned()
    };
    call(&ann, "gate", json!({"code": 0}));
    call(&gone, "touch", json!({"file": "theirs"}));
    assert_eq!(exit(&server.keys(&["revoke", "gone"])), 0);
    server.becomes(&gone, 401);
    let last = call(&ann, "touch", json!({"file": "anns"}));
    let file = |name: &str| server.folder.path().join(name);
    fs::write(file("gate"), "").unwrap();
    let get = || server.post(&bearer(&ann), "tasks/get", json!({"taskId": last})).1["result"]["status"].clone();
    while get() != "completed" {
        thread::yield_now();
    }
    assert!(file("anns").exists() && !file("theirs").exists());
}

/// The file has no key, but whoever can write to it can make one.
#[test]
fn a_key_file_that_others_may_read_is_made_private_and_told_of() {
    let folder = TempDir::new().unwrap();
    let jobs = format!("{JOBS}[server.auth]\napi_keys = true\n");
    fs::write(folder.path().join("jobs.toml"), jobs).unwrap();
    assert_eq!(exit(&keys(folder.path(), &["add", "ci"])), 0);
    let file = folder.path().join("data/keys.json");
    let mode = |mode| fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
    mode(0o644);
    for told in [true, false] {
        let listed = keys(folder.path(), &["list"]);
        let is_told = stderr(&listed).contains("(mode 644); its mode is 600 now");
        assert_eq!((exit(&listed), is_told), (0, told), "{listed:?}");
    }
    mode(0o666);
    let refused = keys(folder.path(), &["list"]);
    refused.ends(1).says("keys.json: other users may write to it");
}

/// Names are known from `keys.json`, and if it was lost, from the tasks that there are.
#[test]
fn a_name_that_has_tasks_is_not_used_again() {
    let mut server = Protected::start("", "api_keys = true\nsame_user = false", "127.0.0.1:0");
    let ann = server.key(&["add", "ann"]);
    server.becomes(&ann, 200);
    let call = json!({"name": "gate", "arguments": {"code": 0}});
    assert_eq!(server.post(&bearer(&ann), "tools/call", call).0, 200);
    let file = server.folder.path().join("data/keys.json");
    fs::remove_file(&file).unwrap();
    let refused = |server: &Protected| {
        let added = server.keys(&["add", "ann"]);
        added.ends(1).says("has tasks of a key ann");
        assert_eq!(stdout(&added), "");
        assert!(!file.exists());
    };
    refused(&server);
    server.child.kill().unwrap();
    server.child.wait().unwrap();
    refused(&server);
    assert_eq!(exit(&server.keys(&["add", "bob"])), 0);
    (server.child, _) = serve(server.folder.path(), &server.address.to_string());
}

#[test]
fn a_pattern_that_fits_no_tool_is_refused() {
    let folder = TempDir::new().unwrap();
    let tools = ["build", "test"]
        .map(|name| format!("[[tool]]\nname = \"{name}\"\ndescription = \"Runs.\"\ncommand = [\"true\"]\n"))
        .concat();
    let auth = "[server]\nname = \"jobs\"\n[server.auth]\napi_keys = true\n";
    fs::write(folder.path().join("jobs.toml"), [auth, &tools].concat()).unwrap();
    let add = |words: &[&str]| keys(folder.path(), &[&["add"], words].concat());
    let refused = add(&["ci", "--tools", "bild*", "--tools", "te*"]);
    refused.fails().says_no("`te*`");
    refused.says("no tool fits `bild*`; did you mean `build`?");
    // The name is not used up.
    add(&["ci", "--tools", "build", "--tools", "te*"]).ends(0);
    let upstream = "[upstream.other]\ncommand = [\"true\"]\n";
    fs::write(folder.path().join("jobs.toml"), [auth, &tools, upstream].concat()).unwrap();
    add(&["cd", "--tools", "bild*"]).ends(0).says_no("warning");
}

/// Whoever revokes a key need not have what the server has in its environment.
#[test]
fn keys_are_changed_without_the_variables_of_upstreams() {
    let folder = TempDir::new().unwrap();
    let jobs = "[server]\nname = \"jobs\"\n[server.auth]\napi_keys = true\n\
        [upstream.child]\ncommand = [\"true\"]\nenv = { TOKEN = \"${NO_SUCH_VARIABLE}\" }\n\
        [upstream.far]\nurl = \"https://example.com/mcp\"\nheaders = { Authorization = \"Bearer ${NO_SUCH_VARIABLE}\" }\n\
        [upstream.client]\nurl = \"https://example.com/mcp\"\nauth = { client_id = \"me\", client_secret = \"${NO_SUCH_VARIABLE}\" }\n";
    fs::write(folder.path().join("jobs.toml"), jobs).unwrap();
    for words in [&["add", "ci"][..], &["list"], &["rotate", "ci"], &["revoke", "ci"]] {
        let changed = keys(folder.path(), words);
        assert_eq!(exit(&changed), 0, "{changed:?}");
    }
    let file = folder.path().join("jobs.toml");
    let checked = run(&["check", file.to_str().unwrap()]);
    assert!(stderr(&checked).contains("NO_SUCH_VARIABLE is not set"), "{checked:?}");
}

/// A key that is known to others must be revoked now, whatever else is wrong with the configuration.
#[test]
fn keys_are_revoked_with_mistakes_elsewhere_in_the_configuration() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("jobs.toml");
    let keys = |words: &[&str]| {
        let (command, rest) = words.split_first().unwrap();
        run(&[&["keys", command, file.to_str().unwrap()], rest].concat())
    };
    let server = "[server]\nname = \"jobs\"\ndata_dir = \"data\"\n";
    let auth = "[server.auth]\napi_keys = true\n[server.audit]\nfile = \"audit.jsonl\"\n";
    let tool = "[[tool]]\nname = \"build\"\ndescription = \"Builds.\"\ncommand = [\"true\"]\n";
    fs::write(&file, [server, auth, tool].concat()).unwrap();
    assert_eq!(exit(&keys(&["add", "ci"])), 0);

    let tls = "[server.tls]\ncert = \"no.pem\"\nkey = \"no.pem\"\n";
    let broken = "public_url = 5\nlisen = \"127.0.0.1:1\"\n";
    let broken = [server, broken, auth, tls, "[admin]\nx = 1\n[[tool]]\nname = 3\n"];
    fs::write(&file, broken.concat()).unwrap();
    let listed = keys(&["list"]);
    assert!(exit(&listed) == 0 && stdout(&listed).contains("active"), "{listed:?}");
    let revoked = keys(&["revoke", "ci"]);
    assert_eq!(exit(&revoked), 0, "{revoked:?}");
    for mistake in ["no.pem", "lisen", "public_url", "[admin]", "`name`"] {
        let is_warning = |line: &str| line.starts_with("warning: ") && line.contains(mistake);
        assert!(stderr(&revoked).lines().any(is_warning), "{mistake}: {revoked:?}");
    }
    fs::read_to_string(folder.path().join("audit.jsonl"))
        .unwrap()
        .has("revoked by");

    // Nobody knows where the keys are, except whoever says it.
    fs::write(&file, "[server\n").unwrap();
    keys(&["list"]).ends(2).says("--data-dir");
    let data = folder.path().join("data");
    let listed = keys(&["list", "--data-dir", data.to_str().unwrap()]);
    listed.ends(0).prints("revoked");

    // Nor is the file needed.
    let with_data_dir = |words: &[&str]| keys(&[words, &["--data-dir", data.to_str().unwrap()]].concat());
    assert_eq!(exit(&with_data_dir(&["add", "other"])), 0);
    fs::remove_file(&file).unwrap();
    assert_eq!(exit(&keys(&["revoke", "other"])), 2);
    let revoked = with_data_dir(&["revoke", "other"]);
    revoked.ends(0);
    stderr(&revoked).begins_with("warning: ");
    revoked.says("jobs.toml");
    assert_eq!(exit(&with_data_dir(&["revoke", "nobody"])), 1);
}

/// The connection of the push stream of a revoked key is closed.
#[test]
fn a_revoked_key_ends_its_streams() {
    let server = Protected::start("", "api_keys = true\nsame_user = false", "127.0.0.1:0");
    let key = server.key(&["add", "ci"]);
    server.becomes(&key, 200);
    let listen = json!({"notifications": {"toolsListChanged": true}});
    thread::scope(|scope| {
        let stream = scope.spawn(|| server.post(&bearer(&key), "subscriptions/listen", listen));
        // The stream is open or about to be; when the key is gone it ends in both cases.
        assert_eq!(exit(&server.keys(&["revoke", "ci"])), 0);
        let (status, _) = stream.join().unwrap();
        assert!([200, 401].contains(&status), "{status}");
    });
}
