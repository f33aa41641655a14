//! HTTP/2, which clients of TLS ask for: what is served, and what is bounded.

use super::{Files, handshake, request, whole};
use crate::{
    clock::TestClock,
    request::{Post, list},
    server::{MAX_BODY, Options, Server, task_of, text},
};
use bytes::Bytes;
use futures_util::{FutureExt as _, StreamExt as _};
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::{
    body::{Body, Frame, Incoming},
    client::conn::http2::{self, SendRequest},
    rt::Executor,
};
use hyper_util::rt::TokioIo;
use longhaul_core::Principal;
use longhaul_runtime::Ports;
use longhaul_server::auth::{AuthDecision, Authenticator, Identity, Permissions, RequestHead};
use serde_json::{Value, json};
use std::{
    convert::Infallible,
    error::Error as _,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};
use tokio::sync::watch;

const ENDPOINT: &str = "https://localhost/mcp";

#[derive(Clone)]
struct Spawning;

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for Spawning {
    fn execute(&self, work: F) {
        Ports::system().spawner.spawn(Box::pin(work));
    }
}

/// A client with one connection.
struct Client {
    requests: SendRequest<Full<Bytes>>,
    /// Whether the connection has ended.
    ended: watch::Receiver<bool>,
}

/// Whether a request was refused so that it may be sent again.
fn is_refused(sent: &hyper::Result<Response<Incoming>>) -> bool {
    let reason = |error: &hyper::Error| error.source()?.downcast_ref::<h2::Error>()?.reason();
    sent.as_ref().err().and_then(reason) == Some(h2::Reason::REFUSED_STREAM)
}

impl Client {
    async fn connect(files: &Files, server: &Server) -> Self {
        let stream = handshake(server.address, &files.authority, &["h2", "http/1.1"])
            .await
            .unwrap();
        assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
        let (requests, connection) = http2::handshake(Spawning, TokioIo::new(stream)).await.unwrap();
        let (end, ended) = watch::channel(false);
        Ports::system().spawner.spawn(Box::pin(async move {
            let _ = connection.await;
            end.send_replace(true);
        }));
        Self { requests, ended }
    }

    async fn send(&self, request: Request<Full<Bytes>>) -> hyper::Result<Response<Incoming>> {
        self.requests.clone().send_request(request).await
    }

    async fn post(&self, post: &Post) -> Response<Incoming> {
        self.send(request(post, ENDPOINT.parse().unwrap())).await.unwrap()
    }

    async fn ask(&self, post: &Post) -> (u16, Value) {
        let (status, _, body) = whole(self.post(post).await).await;
        (status, body)
    }

    async fn session(&self) -> String {
        let response = self.post(&Post::initialize("2025-11-25")).await;
        let session = response.headers()["mcp-session-id"].to_str().unwrap().to_owned();
        let initialized = Post::legacy(Some(&session), "notifications/initialized", json!({})).without_id();
        assert_eq!(self.post(&initialized).await.status(), StatusCode::ACCEPTED);
        session
    }

    async fn get(&self, session: &str, last_event: Option<&str>) -> Response<Incoming> {
        let mut get = Request::get(ENDPOINT)
            .header("accept", "text/event-stream")
            .header("mcp-session-id", session);
        if let Some(last_event) = last_event {
            get = get.header("last-event-id", last_event);
        }
        let response = self.send(get.body(Full::default()).unwrap()).await.unwrap();
        assert_eq!(response.status(), StatusCode::OK);
        response
    }
}

/// The next event of a stream with this text in it.
async fn event(stream: &mut Response<Incoming>, text: &str) -> String {
    loop {
        let frame = stream.body_mut().frame().await.expect("the stream goes on").unwrap();
        let event = String::from_utf8(frame.into_data().unwrap().to_vec()).unwrap();
        if event.contains(text) {
            return event;
        }
    }
}

fn wait() -> Post {
    Post::plain_call("never", "wait").json_only()
}

#[tokio::test]
async fn t_09_t_11_requests_and_streams_share_a_connection() {
    let files = Files::new();
    let server = files.serve().await;
    let client = Client::connect(&files, &server).await;
    let session = client.session().await;
    let mut push = client.get(&session, None).await;
    let prime = event(&mut push, "id: ").await;
    let create = Post::legacy_task(Some(&session), "optional", "wait");
    let (status, created) = client.ask(&create).await;
    assert_eq!(status, 200);
    let task = task_of(&created["result"]);
    let result = Post::on_task(&session, "tasks/result", &task);
    let mut result = client.post(&result).await;
    assert_eq!(result.headers()["content-type"], "text/event-stream");
    // Others are answered meanwhile.
    assert_eq!(client.ask(&list()).await.0, 200);
    server.stage.released.count();
    event(&mut result, "\"done\"").await;
    let told = event(&mut push, "notifications/tasks/status").await;
    assert!(told.contains(&task), "{told}");
    drop(push);
    let id = prime.lines().find_map(|line| line.strip_prefix("id: ")).unwrap();
    let mut resumed = client.get(&session, Some(id)).await;
    event(&mut resumed, "notifications/tasks/status").await;
    let big = Post::call("optional", &"x".repeat(MAX_BODY));
    assert_eq!(client.ask(&big).await.0, 413);
    // Those that want no HTTP/2 get none.
    let old = handshake(server.address, &files.authority, &[]).await.unwrap();
    assert_eq!(old.get_ref().1.alpn_protocol(), None);
    server.stop().await;
}

#[tokio::test]
async fn s_06_a_connection_has_so_many_requests_at_once() {
    const MOST: usize = 100;
    let files = Files::new();
    let options = Options::with(|options| options.max_running = Some(2 * MOST));
    let server = files.serve_with(options).await;
    let client = Client::connect(&files, &server).await;
    client.ask(&list()).await;
    let calls = (0..=MOST).map(|_| client.requests.clone());
    let calls = calls.map(|mut requests| async move {
        let response = requests.send_request(request(&wait(), ENDPOINT.parse().unwrap()));
        whole(response.await.unwrap()).await.0
    });
    let released = async {
        server.stage.begun.reaches(MOST).await;
        // Another client is served.
        Client::connect(&files, &server).await.ask(&list()).await;
        assert_eq!(server.stage.begun.get(), MOST);
        server.stage.released.count();
    };
    let (statuses, ()) = tokio::join!(futures_util::future::join_all(calls), released);
    assert!(statuses.iter().all(|status| *status == 200));
}

/// The stream of the slow reader is reset, and the others of its connection go on.
#[tokio::test]
async fn a_reader_of_one_stream_that_stops_reading_loses_that_stream() {
    const SIZE: usize = 4 << 20;
    let files = Files::new();
    let clock = TestClock::standing();
    let server = files.serve_with(Options::with_clock(&clock)).await;
    let client = Client::connect(&files, &server).await;
    let session = client.session().await;
    let mut push = client.get(&session, None).await;
    event(&mut push, "id: ").await;
    let call = Post::plain_call("never", &format!("blob {SIZE}")).json_only();
    let read = client.ask(&call).await.1;
    assert_eq!(text(&read["result"]).len(), SIZE);
    // Neither the silent stream, nor one that was read to its end, nor one that waits for less than a window.
    let slow = client.post(&call).await;
    assert_eq!(slow.status(), 200);
    for _ in 0..3 {
        clock.advance(Duration::from_secs(31));
        client.ask(&list()).await;
    }
    let mut body = slow.into_body();
    let mut length = 0;
    let failed = loop {
        match body.frame().await {
            Some(Ok(frame)) => length += frame.into_data().unwrap().len(),
            Some(Err(error)) => break error,
            None => panic!("all {length} bytes were sent"),
        }
    };
    assert!(length < SIZE, "{failed}");
    assert_eq!(client.ask(&list()).await.0, 200);
    event(&mut push, ":").await;
}

/// Knows one token, and of another one it never gets to know whose it is.
struct OneToken;

impl Authenticator for OneToken {
    fn authenticate<'a>(&'a self, head: &'a RequestHead<'a>) -> AuthDecision<'a> {
        match head.bearer_token() {
            Some("ann") => {
                let identity = Identity::verified(Principal::named("key:ann"), Permissions::all());
                AuthDecision::Known(Ok(Arc::new(identity)))
            }
            Some("asking") => AuthDecision::Pending(Box::pin(std::future::pending())),
            _ => AuthDecision::NotMine,
        }
    }
}

/// A server that knows one token, and its clock.
async fn knowing(files: &Files) -> (Server, TestClock) {
    let clock = TestClock::standing();
    let mut options = Options::with_authenticator(OneToken);
    options.clock = clock.clone();
    (files.serve_with(options).await, clock)
}

/// A body of so many pieces of 1 KiB, which counts those that were taken from it.
struct Pieces {
    left: usize,
    taken: Arc<AtomicUsize>,
}

impl Body for Pieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.left == 0 {
            return Poll::Ready(None);
        }
        self.left -= 1;
        self.taken.fetch_add(1, Ordering::Relaxed);
        Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(&[b'x'; 1024])))))
    }
}

/// Some clients do not read an answer that comes before they have sent all, so it waits for that, if it is not too much.
#[tokio::test]
async fn a_request_that_is_refused_is_answered_when_it_was_sent() {
    let files = Files::new();
    let (server, _) = knowing(&files).await;
    let refused = async |kibibytes: usize, uri: &str, token: &str, kind: &str| {
        let stream = handshake(server.address, &files.authority, &["h2"]).await.unwrap();
        let (mut requests, connection) = http2::handshake(Spawning, TokioIo::new(stream)).await.unwrap();
        Ports::system().spawner.spawn(Box::pin(async move {
            let _ = connection.await;
        }));
        let taken = Arc::new(AtomicUsize::new(0));
        let body = Pieces {
            left: kibibytes,
            taken: Arc::clone(&taken),
        };
        let request = Request::post(uri)
            .header("authorization", format!("Bearer {token}"))
            .header("content-type", kind);
        let response = requests.send_request(request.body(body).unwrap()).await.unwrap();
        (response.status().as_u16(), taken.load(Ordering::Relaxed))
    };
    let json = "application/json";
    for (uri, token, kind, status) in [
        (ENDPOINT, "bob", json, 401),
        ("https://elsewhere.example/mcp", "ann", json, 403),
        (ENDPOINT, "ann", "text/plain", 415),
    ] {
        assert_eq!(refused(3 * 1024, uri, token, kind).await, (status, 3 * 1024));
    }
    let (status, taken) = refused(16 * 1024, ENDPOINT, "bob", json).await;
    assert!(status == 401 && taken < 6 * 1024, "{status} {taken}");
}

/// Before a request was accepted, only as much is taken as a few heads may have.
#[tokio::test]
async fn s_06_heads_of_unknown_senders_are_bounded() {
    let much = "x".repeat(50_000);
    heads_are_bounded(|list| request(&list.with("X-Big", &much), ENDPOINT.parse().unwrap())).await;
    heads_are_bounded(|list| request(&list, format!("{ENDPOINT}?{much}").parse().unwrap())).await;
}

/// More requests than it takes until something is seen.
const TRIES: usize = 1_000;

async fn heads_are_bounded(big: impl Fn(Post) -> Request<Full<Bytes>>) {
    let files = Files::new();
    let (server, _) = knowing(&files).await;
    let client = Client::connect(&files, &server).await;
    let big = |token: &str| big(list().with("Authorization", &format!("Bearer {token}")));
    let mut asking = futures_util::stream::FuturesUnordered::new();
    for _ in 0..4 {
        asking.push(client.send(big("asking")));
    }
    // The first two go on. That the others are refused is seen before a request that comes after them is answered, or soon after it.
    let mut refused = 0;
    for _ in 0..TRIES {
        while let Some(Some(sent)) = asking.next().now_or_never() {
            assert!(is_refused(&sent));
            refused += 1;
        }
        if refused == 2 {
            break;
        }
        let _ = client.send(request(&list(), ENDPOINT.parse().unwrap())).await;
    }
    assert_eq!(refused, 2, "as much as is bounded");
    assert!([401, 429].contains(&client.ask(&list()).await.0));
    assert!(is_refused(&client.send(big("ann")).await));
    // The memory is there again when they have left.
    drop(asking);
    let mut tries = 0;
    while is_refused(&client.send(big("ann")).await) {
        tries += 1;
        assert!(tries < TRIES, "the memory is there again");
    }
    // Now somebody is known.
    let many = (0..50).map(|_| client.send(big("ann")));
    let many = futures_util::future::join_all(many).await;
    assert!(
        many.iter()
            .all(|sent| sent.as_ref().is_ok_and(|response| response.status() == 200))
    );
}

/// Credentials that were accepted once hold a connection as long as what they have opened, and not for good.
#[tokio::test]
async fn s_06_a_connection_whose_credentials_have_ended_is_closed_soon() {
    let files = Files::new();
    let (server, clock) = knowing(&files).await;
    let anns = |post: Post| post.with("Authorization", "Bearer ann");
    let ended = Client::connect(&files, &server).await;
    let waiting = Client::connect(&files, &server).await;
    for client in [&ended, &waiting] {
        assert_eq!(client.ask(&anns(list())).await.0, 200);
    }
    let call = waiting.send(request(&anns(wait()), ENDPOINT.parse().unwrap()));
    let denied = async {
        server.stage.begun.reaches(1).await;
        for client in [&ended, &waiting] {
            assert_eq!(client.ask(&list()).await.0, 401);
        }
        // Whoever was accepted in this time gets another one to read why.
        clock.advance(Duration::from_secs(10));
        for _ in 0..20 {
            assert_eq!(ended.ask(&list()).await.0, 401);
        }
        // It is not idle, so it would stay otherwise.
        let mut asked = 0;
        while ended.send(request(&list(), ENDPOINT.parse().unwrap())).await.is_ok() {
            clock.advance(Duration::from_secs(10));
            tokio::task::yield_now().await;
            asked += 1;
            assert!(asked < 100, "it is closed");
        }
        server.stage.released.count();
    };
    let (called, ()) = tokio::join!(call, denied);
    assert_eq!(called.unwrap().status(), 200);
}

#[tokio::test]
async fn s_06_idle_connections_are_closed_and_soon_if_nobody_is_known() {
    let files = Files::new();
    let (server, clock) = knowing(&files).await;
    let mut nobody = Client::connect(&files, &server).await;
    assert_eq!(nobody.ask(&list()).await.0, 401);
    let mut ann = Client::connect(&files, &server).await;
    let list = list().with("Authorization", "Bearer ann");
    assert_eq!(ann.ask(&list).await.0, 200);
    clock.advance(Duration::from_secs(10));
    nobody.ended.wait_for(|ended| *ended).await.unwrap();
    assert_eq!(ann.ask(&list).await.0, 200);
    clock.advance(Duration::from_secs(75));
    // The request above was within this time.
    assert_eq!(ann.ask(&list).await.0, 200);
    while !*ann.ended.borrow_and_update() {
        clock.advance(Duration::from_secs(75));
        tokio::task::yield_now().await;
    }
}
