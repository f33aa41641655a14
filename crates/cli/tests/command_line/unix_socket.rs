//! A Unix socket in place of an address.

use super::support::*;
use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    os::unix::net::UnixStream,
    process::Stdio,
};

#[test]
fn a_server_listens_on_a_unix_socket_and_removes_it() {
    let folder = tempfile::tempdir().unwrap();
    let jobs = JOBS.replacen("[server]\n", "[server]\nlisten = \"unix:mcp.sock\"\n", 1);
    let file = folder.path().join("jobs.toml");
    fs::write(&file, jobs).unwrap();
    let (file, data) = (file.to_str().unwrap(), folder.path().join("data"));
    let socket = folder.path().join("mcp.sock");
    let shown = format!("unix:{}", socket.display());
    let checked = run(&["check", file]);
    assert!(stdout(&checked).contains(&shown), "{checked:?}");
    let mut server = longhaul(&["serve", file, "--data-dir", data.to_str().unwrap()])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut told = BufReader::new(server.stderr.take().unwrap())
        .lines()
        .map(Result::unwrap);
    let ready = told.find(|line| line.contains("serves")).unwrap();
    assert!(ready.contains(&shown), "{ready}");
    let mut stream = UnixStream::connect(&socket).unwrap();
    let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    let head = "POST /mcp HTTP/1.1\r\nHost: any\r\nContent-Type: application/json\r\nConnection: close\r\n";
    write!(stream, "{head}Content-Length: {}\r\n\r\n{ping}", ping.len()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let other = folder.path().join("other");
    let second = run(&["serve", file, "--data-dir", other.to_str().unwrap()]);
    let pid = server.id().to_string();
    second.ends(1).says("is in use by");
    if cfg!(target_os = "linux") {
        second.says(&pid);
    }
    let pid = rustix::process::Pid::from_child(&server);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    told.for_each(drop);
    assert!(server.wait().unwrap().success());
    assert!(!socket.exists());
}
