//! A network on which connections live and no notification arrives.

use crate::{
    events::{is_of, listen, until},
    server::{Schema, Server},
    tasks::{new_task, open_node},
};
use longhaul_core::{Store, store::StoreEvent};
use longhaul_store_postgres::PostgresStore;
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
