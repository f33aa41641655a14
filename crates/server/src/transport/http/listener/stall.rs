//! A socket whose reader reads too slowly is closed, so that it cannot hold an answer in memory for long.

use longhaul_core::{BoxFuture, Clock};
use std::{
    convert::Infallible,
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Between two checks of a reader that keeps writes waiting.
pub(super) const WINDOW: Duration = Duration::from_secs(30);
/// What it must have read by then, in bytes. What is written for a slower reader would stay in memory for minutes.
pub(super) const LEAST: usize = 1024 * 1024;

/// A stream that fails when writes wait for a reader that takes less than [`LEAST`] in a [`WINDOW`].
pub(super) struct StallGuard<S> {
    stream: S,
    clock: Arc<dyn Clock>,
    behind: Option<Behind>,
}

/// Something waits to be written.
struct Behind {
    window: BoxFuture<'static, ()>,
    /// Bytes that the reader has taken in this window.
    bytes_read: usize,
}

impl<S> StallGuard<S> {
    pub(super) fn new(stream: S, clock: Arc<dyn Clock>) -> Self {
        Self {
            stream,
            clock,
            behind: None,
        }
    }

    /// Returns the result of a write, and counts what the reader reads from when it first made a write wait.
    fn written(&mut self, cx: &mut Context<'_>, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        match &written {
            Poll::Ready(Ok(bytes)) => {
                if let Some(behind) = &mut self.behind {
                    behind.bytes_read += bytes;
                }
                written
            }
            Poll::Ready(Err(_)) => written,
            Poll::Pending => match ready!(self.check_window(cx)) {
                Ok(never) => match never {},
                Err(error) => Poll::Ready(Err(error)),
            },
        }
    }

    /// Fails when a window ends in which too little was taken.
    fn check_window(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Infallible>> {
        let clock = &self.clock;
        loop {
            let behind = self.behind.get_or_insert_with(|| Behind {
                window: clock.sleep(WINDOW),
                bytes_read: 0,
            });
            ready!(behind.window.as_mut().poll(cx));
            if behind.bytes_read < LEAST {
                let error = io::Error::new(io::ErrorKind::TimedOut, "the reader reads too slowly, or not at all");
                return Poll::Ready(Err(error));
            }
            self.behind = None;
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for StallGuard<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for StallGuard<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.written(cx, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, parts);
        self.written(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // Everything before it was written.
        let flushed = Pin::new(&mut self.stream).poll_flush(cx);
        if flushed.is_ready() {
            self.behind = None;
        }
        flushed
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use longhaul_core::UnixMillis;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    /// Tokio's paused clock, which advances as soon as all tasks wait.
    pub(in crate::transport::http) struct PausedClock;

    impl Clock for PausedClock {
        fn now(&self) -> UnixMillis {
            UnixMillis(0)
        }

        fn monotonic(&self) -> Duration {
            Duration::ZERO
        }

        #[expect(clippy::disallowed_methods, reason = "this is the port")]
        fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
            Box::pin(tokio::time::sleep(duration))
        }
    }

    /// Writes `bytes` for one who reads so much every so many seconds; whether all of it was written.
    async fn write(bytes: usize, read: usize, every: u64) -> bool {
        let (near, mut far) = duplex(64 * 1024);
        let mut guard = StallGuard::new(near, Arc::new(PausedClock));
        let writing = async {
            let written = guard.write_all(&vec![0; bytes]).await.is_ok() && guard.flush().await.is_ok();
            drop(guard);
            written
        };
        let reading = async {
            let mut piece = vec![0; read];
            loop {
                PausedClock.sleep(Duration::from_secs(every)).await;
                let (mut bytes_read, mut ended) = (0, false);
                while bytes_read < read && !ended {
                    let more = far.read(&mut piece[bytes_read..]).await.unwrap_or(0);
                    (bytes_read, ended) = (bytes_read + more, more == 0);
                }
                if ended {
                    return;
                }
            }
        };
        tokio::join!(writing, reading).0
    }

    #[tokio::test(start_paused = true)]
    async fn a_reader_that_takes_a_little_now_and_then_is_left() {
        const MIB: usize = 1 << 20;
        assert!(!write(4 * MIB, 1, 20).await, "a byte every 20 s");
        assert!(!write(4 * MIB, 100_000, 20).await);
        assert!(write(4 * MIB, 100_000, 1).await, "100 KB a second");
        assert!(write(50_000, 1_000, 60).await, "there is nothing it keeps waiting");
    }
}
