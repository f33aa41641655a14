//! The ports through which time, randomness and concurrency come in, and what a server plugs into them.

pub(crate) mod alarm;
pub(crate) mod argument_cipher;
pub(crate) mod backoff;
pub(crate) mod engine_clock;

use longhaul_core::{BoxFuture, Clock, Entropy, UnixMillis};
use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

/// The longest sleep before the clock is read again, in milliseconds: the system's clock may be set, the machine may sleep, and another node may have
/// written something that is due earlier.
pub(crate) const LONGEST_SLEEP: u64 = 60_000;

/// Starts concurrent work.
pub trait Spawner: Send + Sync {
    /// Runs `work` to its end, unless the process ends first.
    fn spawn(&self, work: BoxFuture<'static, ()>);

    /// Runs `work`, which may block, away from the threads that run futures.
    fn spawn_blocking(&self, work: Box<dyn FnOnce() + Send>);
}

/// All ports together, cheap to clone.
#[derive(Clone)]
pub struct Ports {
    /// The only clock.
    pub clock: Arc<dyn Clock>,
    /// The only source of random bytes.
    pub entropy: Arc<dyn Entropy>,
    /// The only way to start concurrent work.
    pub spawner: Arc<dyn Spawner>,
}

impl Ports {
    /// The system's clock and random source, and the current tokio runtime.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn system() -> Self {
        Self {
            clock: Arc::new(SystemClock),
            entropy: Arc::new(SystemEntropy),
            spawner: Arc::new(TokioSpawner(tokio::runtime::Handle::current())),
        }
    }

    /// Runs `work`, which may block, away from the threads that run futures, and waits for what it returns.
    pub async fn blocking<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
        let (done, result) = tokio::sync::oneshot::channel();
        self.spawner.spawn_blocking(Box::new(move || {
            let _ = done.send(work());
        }));
        result.await.ok()
    }

    /// Does the work. If the returned future is dropped before its end, the work goes on without it, so that what it has committed it also records.
    pub async fn run_to_completion<T: Send + 'static>(&self, work: impl Future<Output = T> + Send + 'static) -> T {
        let work: Option<BoxFuture<'static, T>> = Some(Box::pin(work));
        DetachOnDrop { work, ports: self }.await
    }

    /// Waits for `future`, at most `limit`; `None` if the time ran out first.
    pub async fn within<T>(&self, limit: Duration, future: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            value = future => Some(value),
            () = self.clock.sleep(limit) => None,
        }
    }
}

/// Work that goes on when this is dropped.
struct DetachOnDrop<'a, T: Send + 'static> {
    /// `None` once it is done.
    work: Option<BoxFuture<'static, T>>,
    ports: &'a Ports,
}

impl<T: Send + 'static> Future for DetachOnDrop<'_, T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        let Some(work) = &mut self.work else {
            unreachable!("a future is not polled after its end")
        };
        let done = std::task::ready!(work.as_mut().poll(cx));
        self.work = None;
        Poll::Ready(done)
    }
}

impl<T: Send + 'static> Drop for DetachOnDrop<'_, T> {
    fn drop(&mut self) {
        if let Some(work) = self.work.take() {
            self.ports.spawner.spawn(Box::pin(async { drop(work.await) }));
        }
    }
}

/// The system's clock.
struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is the port")]
    fn now(&self) -> UnixMillis {
        let since = std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .unwrap_or_default();
        UnixMillis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
    }

    /// Of the kind that goes on while the machine sleeps, where there is one.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    fn monotonic(&self) -> Duration {
        let passed = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
        Duration::try_from(passed).unwrap_or_default()
    }

    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    #[expect(clippy::disallowed_methods, reason = "this is the port")]
    fn monotonic(&self) -> Duration {
        static ORIGIN: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
        ORIGIN.get_or_init(std::time::Instant::now).elapsed()
    }

    #[expect(clippy::disallowed_methods, reason = "this is the port")]
    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(duration))
    }
}

/// The operating system's cryptographic source.
struct SystemEntropy;

impl Entropy for SystemEntropy {
    #[expect(clippy::disallowed_methods, reason = "this is the port")]
    fn fill(&self, bytes: &mut [u8]) {
        // Weak ids would be worse than no server.
        getrandom::fill(bytes).unwrap_or_else(|error| panic!("the system's random source failed: {error}"));
    }
}

struct TokioSpawner(tokio::runtime::Handle);

impl Spawner for TokioSpawner {
    #[expect(clippy::disallowed_methods, reason = "this is the port")]
    fn spawn(&self, work: BoxFuture<'static, ()>) {
        self.0.spawn(work);
    }

    #[expect(clippy::disallowed_methods, reason = "this is the port")]
    fn spawn_blocking(&self, work: Box<dyn FnOnce() + Send>) {
        self.0.spawn_blocking(work);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::poll_fn;
    use tokio::sync::oneshot;

    #[tokio::test]
    async fn work_that_is_not_waited_for_goes_on() {
        let ports = Ports::system();
        let (begun, has_begun) = oneshot::channel();
        let (let_end, may_end) = oneshot::channel::<()>();
        let (ended, has_ended) = oneshot::channel();
        let mut work = Box::pin(ports.run_to_completion(async move {
            begun.send(()).unwrap();
            may_end.await.unwrap();
            ended.send(()).unwrap();
        }));
        let polled = poll_fn(|cx| Poll::Ready(work.as_mut().poll(cx))).await;
        assert!(polled.is_pending());
        has_begun.await.unwrap();
        drop(work);
        let_end.send(()).unwrap();
        let in_time = ports.within(Duration::from_secs(60), has_ended).await;
        in_time.unwrap().unwrap();
        assert_eq!(ports.run_to_completion(async { 1 }).await, 1);
    }
}
