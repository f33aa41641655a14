//! Networks on which connections live, and notifications do not arrive, or are not sent.

use crate::{
    events::{is_of, listen, until},
    server::{Schema, Server},
    tasks::{new_task, open_node},
};
use longhaul_core::{
    State, Store, UnixMillis,
    store::{Claim, EventDelivery, LeaseStore, NewTask, NodeStatus, QueueStore, StoreEvent, TaskStore},
};
use longhaul_store_postgres::{PostgresOptions, PostgresStore};
use std::{
    io,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
};

/// PostgreSQL's `NotificationResponse`.
const NOTIFICATION: u8 = b'A';

/// Passes on what a server answers, without notifications while `drops` is set.
async fn pass_on(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, drops: Arc<AtomicBool>) -> io::Result<()> {
    loop {
        let kind = from.read_u8().await?;
        let length = from.read_u32().await?;
        let mut body = vec![0; length as usize - 4];
        from.read_exact(&mut body).await?;
        if kind == NOTIFICATION && drops.load(Ordering::Relaxed) {
            continue;
        }
        let message = [&[kind][..], &length.to_be_bytes(), &body].concat();
        to.write_all(&message).await?;
    }
}

/// What a client binds to the parameters of a statement.
const BIND: u8 = b'B';

/// Passes on what a client sends. While `mutes` is set, its notifications go to a channel on which nobody listens.
async fn pass_on_muted(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, mutes: Arc<AtomicBool>) -> io::Result<()> {
    let mut is_first = true;
    loop {
        let kind = match is_first {
            true => Vec::new(),
            false => vec![from.read_u8().await?],
        };
        is_first = false;
        let length = from.read_u32().await?;
        let mut body = vec![0; length as usize - 4];
        from.read_exact(&mut body).await?;
        if kind == [BIND] && mutes.load(Ordering::Relaxed) {
            let channel = body
                .windows(10)
                .position(|part| part.starts_with(b"longhaul_") && part[9].is_ascii_digit());
            if let Some(at) = channel {
                body[at] = b'x';
            }
        }
        to.write_all(&[&kind[..], &length.to_be_bytes(), &body].concat())
            .await?;
    }
}

/// A proxy in front of a server of whose clients nobody hears while `mutes` is set, and where it listens.
async fn muting_proxy(port: u16, mutes: Arc<AtomicBool>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let server = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
            let (from_client, mut to_client) = client.into_split();
            let (mut from_server, to_server) = server.into_split();
            tokio::spawn(pass_on_muted(from_client, to_server, Arc::clone(&mutes)));
            tokio::spawn(async move { tokio::io::copy(&mut from_server, &mut to_client).await });
        }
    });
    address
}

fn through(proxy: SocketAddr) -> String {
    format!(
        "host=127.0.0.1 port={} user=longhaul dbname=postgres sslmode=disable",
        proxy.port()
    )
}

/// What a node sends on its connection for events is lost: others get it all the same, since it sends on another one. It says so, until it is over.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mute_node_sends_on_another_connection() {
    let server = Server::private().await;
    let schema = Schema::new(&server);
    let other = schema.open().await;
    let there = open_node(&other, "there").await;
    let mutes = Arc::new(AtomicBool::new(true));
    let direct = Some(through(muting_proxy(server.port(), Arc::clone(&mutes)).await));
    let options = PostgresOptions {
        direct,
        ..schema.options()
    };
    let mute = PostgresStore::open(&schema.address, options).await.unwrap();
    let node = open_node(&mute, "here").await;
    let mut told = listen(&other);
    while mute.health().delivery != EventDelivery::Other {
        tokio::task::yield_now().await;
    }
    mute.create(new_task("heard", node)).await.unwrap();
    until(&mut told, |event| is_of(event, "heard")).await;
    mute.renew(node).await.unwrap();
    let status = |nodes: Vec<NodeStatus>| nodes.into_iter().find(|one| one.node == node).unwrap().delivery;
    assert_eq!(status(other.nodes().await.unwrap()), EventDelivery::Other);
    other.renew(there).await.unwrap();
    assert!(other.health().silent.is_empty() && other.health().heard > 0);
    mutes.store(false, Ordering::Relaxed);
    while mute.health().delivery != EventDelivery::Own {
        tokio::task::yield_now().await;
    }
}

/// Nothing that a node sends arrives: the others see by its lease that they have missed something, and poll, and so does it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn others_notice_a_node_whose_events_are_lost() {
    let server = Server::private().await;
    let schema = Schema::new(&server);
    let other = schema.open().await;
    let there = open_node(&other, "there").await;
    let mutes = Arc::new(AtomicBool::new(false));
    let address = through(muting_proxy(server.port(), Arc::clone(&mutes)).await);
    let mute = PostgresStore::open(&address, schema.options()).await.unwrap();
    let node = open_node(&mute, "here").await;
    mute.renew(node).await.unwrap();
    other.renew(there).await.unwrap();
    mutes.store(true, Ordering::Relaxed);
    let mut told = listen(&other);
    // As the two renew their leases.
    while other.health().silent != [node] {
        mute.renew(node).await.unwrap();
        other.renew(there).await.unwrap();
    }
    for _ in 0..4 {
        until(&mut told, |event| *event == StoreEvent::Resync).await;
    }
    while mute.health().delivery != EventDelivery::Lost {
        tokio::task::yield_now().await;
    }
    mutes.store(false, Ordering::Relaxed);
    while !other.health().silent.is_empty() {
        mute.renew(node).await.unwrap();
        other.renew(there).await.unwrap();
    }
}

/// A pause holds at a node that has not heard of it: what it would claim waits, also what is created there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pause_that_was_not_heard_of_holds() {
    let server = Server::find().await;
    let schema = Schema::new(&server);
    let (one, other) = (schema.open().await, schema.open().await);
    let node = open_node(&other, "there").await;
    let claim = || Claim {
        tool: "tool".into(),
        node,
        host: None,
        limit: 1,
        at: UnixMillis(2),
        rate: None,
    };
    let claimed = |name: &str| NewTask {
        claim: Some((node, None)),
        ..new_task(name, node)
    };
    assert!(other.paused().await.unwrap().is_empty());
    other.create(new_task("queued", node)).await.unwrap();
    one.set_paused("another", true).await.unwrap();
    let mut told = listen(&other);
    let is_pause = |event: &StoreEvent| *event == StoreEvent::PausesChanged;
    assert!(
        other.claim(claim()).await.unwrap().is_empty(),
        "what is paused was not read"
    );
    until(&mut told, is_pause).await;
    let created = other.create(claimed("created")).await.unwrap().into_task();
    assert_eq!(created.state, State::Queued);
    until(&mut told, is_pause).await;
    assert_eq!(*other.paused().await.unwrap()[0], *"another");
    assert_eq!(other.claim(claim()).await.unwrap().len(), 1, "it is another tool");
    let created = other.create(claimed("claimed")).await.unwrap().into_task();
    assert_eq!(created.state, State::Running);
}

/// A proxy in front of a server, and where it listens.
async fn proxy(port: u16, drops: Arc<AtomicBool>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let server = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
            let (mut from_client, to_client) = client.into_split();
            let (from_server, mut to_server) = server.into_split();
            tokio::spawn(async move { tokio::io::copy(&mut from_client, &mut to_server).await });
            tokio::spawn(pass_on(from_server, to_client, Arc::clone(&drops)));
        }
    });
    address
}

/// A node that hears nothing reads again and again, until it hears.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_hears_no_events_polls() {
    let server = Server::private().await;
    let schema = Schema::new(&server);
    let one = schema.open().await;
    let node = open_node(&one, "here").await;
    let drops = Arc::new(AtomicBool::new(true));
    let through = proxy(server.port(), Arc::clone(&drops)).await;
    let address = format!(
        "host=127.0.0.1 port={} user=longhaul dbname=postgres sslmode=disable",
        through.port()
    );
    let other = PostgresStore::open(&address, schema.options()).await.unwrap();
    let mut told = listen(&other);
    one.create(new_task("unheard", node)).await.unwrap();
    // One is for the connection.
    for _ in 0..4 {
        let event = until(&mut told, |event| {
            *event == StoreEvent::Resync || is_of(event, "unheard")
        })
        .await;
        assert_eq!(event, StoreEvent::Resync);
    }
    drops.store(false, Ordering::Relaxed);
    one.create(new_task("heard", node)).await.unwrap();
    until(&mut told, |event| is_of(event, "heard")).await;
}
