//! An application around the endpoint, with routes of its own.

use super::{Authenticated, of};
use crate::{client::Connection, clock::TestClock, request::list, server::Options};
use axum::{body::Body, routing::get};
use futures_util::stream;
use http::StatusCode;
use longhaul_server::http::{Listener, router};
use std::{convert::Infallible, sync::Arc, time::Duration};
use tokio::sync::mpsc;

/// Who may use a route of its own, the application decides: its responses are not cut because the server knows no sender.
#[tokio::test]
async fn s_06_responses_of_own_routes_are_not_cut() {
    let served = Authenticated::with(Options::with_clock(&TestClock::standing())).await;
    let clock = &served.tokens.clock;
    let (send, receive) = mpsc::unbounded_channel::<&str>();
    let parts = stream::unfold(receive, async |mut parts| {
        let part = parts.recv().await?;
        Some((Ok::<_, Infallible>(part), parts))
    });
    let parts = Arc::new(std::sync::Mutex::new(Some(parts)));
    let app = router(Arc::clone(&served.server.protocol))
        .route(
            "/own",
            get(async move || Body::from_stream(parts.lock().unwrap().take().unwrap())),
        )
        .route("/late", get(async || std::future::pending::<()>().await))
        .route("/refused", get(async || StatusCode::UNAUTHORIZED));
    let listener = Listener::bind(([127, 0, 0, 1], 0).into()).await.unwrap();
    let (address, protocol) = (listener.address(), Arc::clone(&served.server.protocol));
    let spawner = &served.server.engine.ports().spawner;
    spawner.spawn(Box::pin(listener.serve_router(app, protocol, std::future::pending())));

    let request = |path: &str| format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").into_bytes();
    let mut own = Connection::open(address).await;
    own.send(&request("/own")).await;
    assert_eq!(own.head().await.status, 200);
    let mut late = Connection::open(address).await;
    late.send(&request("/late")).await;

    // Those whom the endpoint or the application refuses leave meanwhile.
    for round in 0..8 {
        let mut refused = Connection::open(address).await;
        if round % 2 == 0 {
            refused.send(&list().to_bytes()).await;
        } else {
            refused.send(&request("/refused")).await;
        }
        assert_eq!(refused.reply().await.status(), 401);
        close(refused, clock).await;
        send.send("event\n\n").unwrap();
        assert_eq!(own.event_text().await.unwrap(), "event");
    }
    assert!(!late.has_news());

    // With its end the response stops counting.
    drop(send);
    assert_eq!(own.event_text().await, None);
    close(own, clock).await;

    // Who is known by the endpoint stays.
    let mut ann = Connection::open(address).await;
    assert_eq!(ann.exchange(&of("ann", list())).await.status(), 200);
    clock.advance(Duration::from_secs(10));
    assert_eq!(ann.exchange(&of("ann", list())).await.status(), 200);
}

/// Lets time pass until the server has closed the connection.
async fn close(mut connection: Connection, clock: &TestClock) {
    let closed = connection.read_to_close();
    clock.advance_until(Duration::from_secs(10), closed).await;
}
