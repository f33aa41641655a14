//! A child of a gateway that is killed, while the child is busy and does not notice that its input is closed.
#![cfg(target_os = "linux")]

use crate::support::*;
use rustix::process::{Pid, Signal, kill_process};
use std::{fs, path::Path};

/// A call starts a process that runs on, and notes it and the child itself.
const CHILD: &str = r#"
say() { printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$1" "$2"; }
while read -r line; do
  id=$(printf '%s' "$line" | sed -nE 's/.*"id":("[^"]*"|[0-9]+).*/\1/p')
  case $line in
    *'"method":"initialize"'*) say "$id" '{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"child","version":"1"}}' ;;
    *'"method":"tools/list"'*) say "$id" '{"tools":[{"name":"work","inputSchema":{"type":"object"},"annotations":{"idempotentHint":true}}]}' ;;
    *'"method":"ping"'*) say "$id" '{}' ;;
    *'"method":"tools/call"'*)
      sh -c 'while [ -d "$0" ]; do sleep 0.05; done' "$NOTES" < /dev/null > /dev/null 2>&1 &
      ids="$$ $!"
      echo "$ids" > "$NOTES/$$.new"; mv "$NOTES/$$.new" "$NOTES/$$.run"
      wait ;;
    *'"method":"server/discover"'*) printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"?"}}\n' "$id" ;;
  esac
done
"#;

/// The processes of each run of the call.
fn runs(folder: &Path) -> Vec<Vec<i32>> {
    let noted = fs::read_dir(folder.join("notes")).unwrap().flatten();
    let runs = noted.filter(|entry| entry.path().extension().is_some_and(|end| end == "run"));
    let texts = runs.map(|entry| fs::read_to_string(entry.path()).unwrap());
    let ids = |text: String| text.split_whitespace().map(|id| id.parse().unwrap()).collect();
    texts.map(ids).collect()
}

fn stat(process: i32) -> Option<(char, i32)> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    let mut fields = stat[stat.rfind(')')? + 2..].split(' ');
    Some((fields.next()?.chars().next()?, fields.next()?.parse().ok()?))
}

fn is_alive(process: i32) -> bool {
    stat(process).is_some_and(|(state, _)| state != 'Z')
}

fn kill(process: i32) {
    kill_process(Pid::from_raw(process).unwrap(), Signal::KILL).unwrap();
}

/// A gateway whose child works on a call, and the processes of that.
fn working(folder: &Path) -> (Server, Vec<i32>) {
    fs::create_dir(folder.join("notes")).unwrap();
    let notes = folder.join("notes");
    let config = format!(
        "[server]\nname = \"gateway\"\nlisten = \"127.0.0.1:0\"\ndata_dir = \"gateway-data\"\n\n[upstream.up]\ncommand = [\"sh\", \"child.sh\"]\nenv = {{ NOTES = {notes:?} }}\ntask = \"always\"\n"
    );
    fs::write(folder.join("gateway.toml"), config).unwrap();
    fs::write(folder.join("child.sh"), CHILD).unwrap();
    let gateway = serve(folder, &["gateway.toml"]);
    done(folder, &["call", &gateway.url, "work", "--detach"]);
    until("the call", || runs(folder).len() == 1);
    let processes = runs(folder).remove(0);
    assert!(processes.iter().all(|process| is_alive(*process)));
    (gateway, processes)
}

#[test]
fn the_process_group_of_a_child_ends_with_a_gateway_that_is_killed() {
    let folder = folder();
    let folder = folder.path();
    let (gateway, processes) = working(folder);
    // Its value is dropped by SIGKILL.
    drop(gateway);
    until("the end of the child and what it has started", || {
        !processes.iter().any(|process| is_alive(*process))
    });
}

/// The supervisor of the child was killed with the gateway, so a process of the child is left. It is ended before the call is made again.
#[test]
fn what_is_left_of_a_child_is_ended_before_its_call_is_made_again() {
    let folder = folder();
    let folder = folder.path();
    let (gateway, processes) = working(folder);
    let (_, supervisor) = stat(processes[0]).unwrap();
    let server = i32::try_from(gateway.child.id()).unwrap();
    assert_ne!(supervisor, server);
    // So that it does not act itself when the child ends.
    kill_process(Pid::from_raw(server).unwrap(), Signal::STOP).unwrap();
    kill(supervisor);
    drop(gateway);
    until("the end of the child", || !is_alive(processes[0]));
    assert!(is_alive(processes[1]), "nothing is left");
    let _gateway = serve(folder, &["gateway.toml"]);
    // Otherwise it was started while something of the first run was left.
    assert!(!is_alive(processes[1]));
    until("the second call", || runs(folder).len() == 2);
}
