//! A small HTTP server that plays an issuer, also a bad one.

use parking_lot::Mutex;
use serde_json::Value;
use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};

/// How it answers.
#[derive(Clone)]
pub(crate) enum Reply {
    /// With status 200 and this.
    Json(Value),
    /// With this status line and body.
    Text(&'static str, &'static str),
    /// With a body that does not end.
    Endless,
    /// Not at all.
    Never,
}

/// The server. It answers each connection once.
pub(crate) struct IssuerServer {
    pub(crate) url: String,
    shared: Arc<Shared>,
}

struct Shared {
    reply: Mutex<Reply>,
    requests: AtomicUsize,
    last: Mutex<String>,
}

impl IssuerServer {
    pub(crate) async fn start(reply: Reply) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a listener");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let shared = Arc::new(Shared {
            reply: Mutex::new(reply),
            requests: AtomicUsize::new(0),
            last: Mutex::default(),
        });
        let serving = Arc::clone(&shared);
        spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let shared = Arc::clone(&serving);
                spawn(async move {
                    // The client may leave at any time.
                    let _ = shared.serve(stream).await;
                });
            }
        });
        Self { url, shared }
    }

    /// How it answers from now on.
    pub(crate) fn reply(&self, reply: Reply) {
        *self.shared.reply.lock() = reply;
    }

    /// How many requests came.
    pub(crate) fn requests(&self) -> usize {
        self.shared.requests.load(Ordering::SeqCst)
    }

    /// The last one.
    pub(crate) fn last_request(&self) -> String {
        self.shared.last.lock().clone()
    }

    /// Waits until this many have come.
    pub(crate) async fn came(&self, requests: usize) {
        while self.requests() < requests {
            tokio::task::yield_now().await;
        }
    }
}

impl Shared {
    async fn serve(&self, mut stream: TcpStream) -> std::io::Result<()> {
        let request = read_request(&mut stream).await?;
        *self.last.lock() = request;
        self.requests.fetch_add(1, Ordering::SeqCst);
        let reply = self.reply.lock().clone();
        let (status, body) = match reply {
            Reply::Json(value) => ("200 OK", value.to_string()),
            Reply::Text(status, body) => (status, body.to_owned()),
            Reply::Endless => {
                stream
                    .write_all(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n{\"keys\":[")
                    .await?;
                loop {
                    stream.write_all(&[b' '; 4096]).await?;
                }
            }
            Reply::Never => {
                let mut rest = Vec::new();
                return stream.read_to_end(&mut rest).await.map(drop);
            }
        };
        let head = format!(
            "HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
            body.len()
        );
        stream.write_all(head.as_bytes()).await?;
        stream.write_all(body.as_bytes()).await
    }
}

async fn read_request(stream: &mut TcpStream) -> std::io::Result<String> {
    let mut text = Vec::new();
    loop {
        let request = String::from_utf8_lossy(&text);
        if let Some((head, body)) = request.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| {
                line.to_ascii_lowercase()
                    .strip_prefix("content-length:")?
                    .trim()
                    .parse()
                    .ok()
            });
            if body.len() >= length.unwrap_or(0) {
                return Ok(request.into_owned());
            }
        }
        if stream.read_buf(&mut text).await? == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "a server of the test, not of the product")]
fn spawn(work: impl Future<Output = ()> + Send + 'static) {
    tokio::spawn(work);
}
