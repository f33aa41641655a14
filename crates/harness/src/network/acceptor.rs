//! A listener, each of whose connections has a thread of its own.

use std::{
    io,
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
};

/// Listens until it is dropped.
pub struct Acceptor {
    address: SocketAddr,
    stopped: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Acceptor {
    pub fn start(serve: impl Fn(TcpStream) + Send + Sync + 'static) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        let stopped = Arc::new(AtomicBool::new(false));
        let (is_stopped, serve) = (Arc::clone(&stopped), Arc::new(serve));
        let accepting = move || {
            for stream in listener.incoming() {
                if is_stopped.load(Ordering::Relaxed) {
                    return;
                }
                let (Ok(stream), serve) = (stream, Arc::clone(&serve)) else {
                    continue;
                };
                // Without a thread the connection is closed.
                let _ = thread::Builder::new()
                    .name("connection".to_owned())
                    .spawn(move || serve(stream));
            }
        };
        let thread = thread::Builder::new().name("listener".to_owned()).spawn(accepting)?;
        Ok(Self {
            address,
            stopped,
            thread: Some(thread),
        })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Acceptor {
    fn drop(&mut self) {
        self.stopped.store(true, Ordering::Relaxed);
        // Wakes the listener.
        let _ = TcpStream::connect(self.address);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
