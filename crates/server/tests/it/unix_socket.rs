//! HTTP on a Unix socket: the file, and whose a connection is.

use crate::{
    request::list,
    server::{Options, Server},
};
use longhaul_core::Principal;
use longhaul_server::{
    auth::{AuthDecision, Authenticator, Identity, Peer, Permissions, RequestHead},
    http::{SocketListener, UnixSocketError},
};
use std::{
    fs,
    os::unix::fs::{FileTypeExt, PermissionsExt},
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::UnixStream,
};

/// What the server answers to one request, with another host than its own.
async fn ask(path: &Path, headers: &str) -> String {
    let post = list().with("Host", "anything.example");
    let post = String::from_utf8(post.with("Connection", "close").to_bytes()).unwrap();
    let post = post.replacen("\r\n", &format!("\r\n{headers}"), 1);
    let mut stream = UnixStream::connect(path).await.unwrap();
    stream.write_all(post.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

fn is_socket(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket())
}

#[tokio::test]
async fn a_socket_is_served_and_its_file_goes_with_the_server() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mcp.sock");
    for mode in [0o600, 0o660] {
        let server = Server::start().await;
        let listener = SocketListener::bind(&path, mode).await.unwrap();
        let found = fs::symlink_metadata(&path).unwrap().permissions().mode();
        assert_eq!(found & 0o777, mode);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing else is left");
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let serving = listener.serve(Arc::clone(&server.protocol), async { stopped.await.unwrap_or(()) });
        let asking = async {
            let answer = ask(&path, "").await;
            assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
            let answer = ask(&path, "Origin: https://evil.example\r\n").await;
            assert!(answer.starts_with("HTTP/1.1 403"), "{answer}");
            drop(stop);
        };
        tokio::join!(serving, asking);
        assert!(!path.exists());
    }
}

#[tokio::test]
async fn only_a_socket_that_nobody_answers_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mcp.sock");
    // As a killed server leaves it.
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    assert!(is_socket(&path));
    let first = SocketListener::bind(&path, 0o600).await.unwrap();
    let refused = SocketListener::bind(&path, 0o600).await.err().unwrap();
    let this = std::process::id().to_string();
    assert!(
        matches!(&refused, UnixSocketError::InUse { by, .. } if cfg!(not(target_os = "linux")) || by.contains(&this)),
        "{refused}"
    );
    // Another server's file is left to it.
    fs::remove_file(&path).unwrap();
    let second = SocketListener::bind(&path, 0o600).await.unwrap();
    drop(first);
    assert!(is_socket(&path));
    drop(second);
    assert!(!path.exists());
    fs::write(&path, "mine").unwrap();
    let refused = SocketListener::bind(&path, 0o600).await.err().unwrap();
    assert!(matches!(refused, UnixSocketError::NotASocket { .. }), "{refused}");
    assert_eq!(fs::read_to_string(&path).unwrap(), "mine");
}

/// Sees whose the connection is, and has no say.
struct Watching(Arc<AtomicU32>);

impl Authenticator for Watching {
    fn authenticate<'a>(&'a self, head: &'a RequestHead<'a>) -> AuthDecision<'a> {
        if let Peer::Unix { uid } = head.peer {
            self.0.store(*uid, Ordering::SeqCst);
        }
        match head.bearer_token() {
            Some("key") => {
                let identity = Identity::verified(Principal::named("key:a"), Permissions::all());
                AuthDecision::Known(Ok(Arc::new(identity)))
            }
            _ => AuthDecision::NotMine,
        }
    }
}

#[tokio::test]
async fn authenticators_are_told_the_user() {
    let seen = Arc::new(AtomicU32::new(u32::MAX));
    let server = Server::with(Options::with_authenticator(Watching(Arc::clone(&seen)))).await;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mcp.sock");
    let listener = SocketListener::bind(&path, 0o600).await.unwrap();
    let asking = async {
        assert!(ask(&path, "").await.starts_with("HTTP/1.1 401"));
        let known = ask(&path, "Authorization: Bearer key\r\n").await;
        assert!(known.starts_with("HTTP/1.1 200"), "{known}");
    };
    tokio::select! {
        () = listener.serve(Arc::clone(&server.protocol), std::future::pending()) => {}
        () = asking => {}
    }
    let own = fs::metadata(folder.path()).map(|found| std::os::unix::fs::MetadataExt::uid(&found));
    assert_eq!(own.unwrap(), seen.load(Ordering::SeqCst));
}

/// Also where everyone of this machine would be served on a port. Needs to run as root, to be another user.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn another_user_is_nobody_without_credentials() {
    use std::io::{Read, Write};
    let nobody = rustix::process::Uid::from_raw(65534);
    if !rustix::process::geteuid().is_root() {
        eprintln!("this needs another user");
        return;
    }
    let server = Server::with(Options::with_clock(&crate::clock::TestClock::standing())).await;
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let path = folder.path().join("mcp.sock");
    let listener = SocketListener::bind(&path, 0o666).await.unwrap();
    let post = list().with("Connection", "close").to_bytes();
    let most = longhaul_server::Limits::default().denied_per_second.unwrap().get();
    let (answered, asking) = tokio::sync::oneshot::channel();
    #[expect(clippy::disallowed_methods, reason = "the user is one of this thread alone")]
    std::thread::spawn(move || {
        rustix::thread::set_thread_res_uid(nobody, nobody, nobody).unwrap();
        let ask = || {
            let mut stream = std::os::unix::net::UnixStream::connect(&path).unwrap();
            stream.write_all(&post).unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).unwrap();
            answer
        };
        let first = ask();
        for _ in 1..2 * most {
            ask();
        }
        answered.send((first, ask())).unwrap();
    });
    tokio::select! {
        () = listener.serve(Arc::clone(&server.protocol), std::future::pending()) => {}
        answers = asking => {
            let (first, last) = answers.unwrap();
            assert!(first.starts_with("HTTP/1.1 401"), "{first}");
            assert!(last.starts_with("HTTP/1.1 429"), "{last}");
        }
    }
}
