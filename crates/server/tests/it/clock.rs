//! The system's clock, which a test can move on.

use longhaul_core::{BoxFuture, Clock, UnixMillis};
use longhaul_runtime::Ports;
use std::{sync::Arc, time::Duration};
use tokio::sync::watch;

#[derive(Clone)]
pub(crate) struct TestClock {
    system: Arc<dyn Clock>,
    ahead: Arc<watch::Sender<Duration>>,
}

impl Default for TestClock {
    fn default() -> Self {
        Self {
            system: Ports::system().clock,
            ahead: Arc::new(watch::Sender::new(Duration::ZERO)),
        }
    }
}

impl TestClock {
    pub(crate) fn advance(&self, by: Duration) {
        self.ahead.send_modify(|ahead| *ahead += by);
    }
}

impl Clock for TestClock {
    fn now(&self) -> UnixMillis {
        let ahead = u64::try_from(self.ahead.borrow().as_millis()).unwrap();
        self.system.now().plus(ahead)
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        let (system, mut ahead) = (self.system.sleep(duration), self.ahead.subscribe());
        let until = *ahead.borrow() + duration;
        Box::pin(async move {
            tokio::select! {
                () = system => {}
                _ = ahead.wait_for(|ahead| *ahead >= until) => {}
            }
        })
    }
}
