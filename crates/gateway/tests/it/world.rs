//! A gateway that runs, with its data directory.

use crate::upstream::Upstream;
use longhaul::{Server, ServerHandle, auth::Authenticator};
use longhaul_core::TaskPolicy;
use longhaul_gateway::{Gateway, GatewayError, Reloaded, Target, ToolRule, UpstreamOptions, UpstreamStatus};
use longhaul_private_dir::PrivateDir;
use longhaul_runtime::{Handoff, Ports};
use std::{path::Path, sync::Arc, time::Duration};
use tokio::sync::oneshot;

/// A condition that never comes fails the test.
const PATIENCE: Duration = Duration::from_secs(30);

/// Waits for a condition.
#[expect(clippy::disallowed_methods, reason = "the test waits for the outside world")]
pub(crate) async fn until(what: &str, mut is_met: impl FnMut() -> bool) {
    let met = async {
        while !is_met() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let met = tokio::time::timeout(PATIENCE, met).await;
    assert!(met.is_ok(), "waited in vain for {what}");
}

/// A future that must complete.
#[expect(clippy::disallowed_methods, reason = "the test waits for the outside world")]
pub(crate) async fn guarded<T>(what: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(PATIENCE, future).await {
        Ok(done) => done,
        Err(_) => panic!("waited in vain for {what}"),
    }
}

/// A server at this URL, without a login.
pub(crate) fn at_url(url: String) -> Target {
    Target::Http {
        url,
        headers: http::HeaderMap::new(),
        tokens: None,
    }
}

/// A running gateway.
pub(crate) struct RunningGateway {
    pub(crate) url: String,
    pub(crate) server: ServerHandle,
    pub(crate) gateway: Gateway,
    stop: oneshot::Sender<()>,
}

/// Upstreams with all their calls as tasks, where a client has tasks.
pub(crate) fn options(upstreams: &[(&str, &Upstream)]) -> Vec<UpstreamOptions> {
    let options = upstreams.iter().map(|(name, upstream)| upstream.options(name));
    options.map(with_every_call_a_task).collect()
}

/// Its lists are those of the upstream alone.
pub(crate) fn without_handoff(mut options: UpstreamOptions) -> UpstreamOptions {
    let mut every_tool = ToolRule::new("*".parse().unwrap());
    every_tool.handoff = Some(Handoff::Off);
    options.rules.push(every_tool);
    options
}

pub(crate) fn with_every_call_a_task(options: UpstreamOptions) -> UpstreamOptions {
    let mut every_tool = ToolRule::new("*".parse().unwrap());
    every_tool.task = Some(TaskPolicy::Optional);
    UpstreamOptions {
        rules: vec![every_tool],
        ..options
    }
}

impl RunningGateway {
    pub(crate) async fn start(directory: &Path, upstreams: Vec<UpstreamOptions>) -> Self {
        Self::start_with(directory, upstreams, None::<NoOne>).await
    }

    /// Listens at an address that is known before.
    pub(crate) async fn start_at(directory: &Path, upstreams: Vec<UpstreamOptions>, address: &str) -> Self {
        let prefix = upstreams.len() > 1;
        Self::begin(directory, upstreams, prefix, None::<NoOne>, address).await
    }

    /// Tools have no prefixes.
    pub(crate) async fn start_bare(directory: &Path, upstreams: Vec<UpstreamOptions>) -> Self {
        Self::begin(directory, upstreams, false, None::<NoOne>, "127.0.0.1:0").await
    }

    /// Has these upstreams from now on.
    pub(crate) async fn reload(&self, upstreams: Vec<UpstreamOptions>) -> Result<Reloaded, GatewayError> {
        let engine = self.server.engine().unwrap();
        let prefix = upstreams.len() > 1;
        guarded("the reload", self.gateway.reload(&engine, upstreams, prefix)).await
    }

    /// The same, without prefixes.
    pub(crate) async fn reload_bare(&self, upstreams: Vec<UpstreamOptions>) -> Result<Reloaded, GatewayError> {
        let engine = self.server.engine().unwrap();
        guarded("the reload", self.gateway.reload(&engine, upstreams, false)).await
    }

    /// How many calls of the only upstream wait, and how many may run.
    pub(crate) async fn waiting(&self) -> (usize, Option<usize>) {
        let present = self.gateway.present().await;
        (present[0].waiting, present[0].concurrency)
    }

    /// Waits until a call of the only upstream waits.
    pub(crate) async fn has_waiting(&self) {
        let waits = async {
            while self.waiting().await.0 == 0 {
                tokio::task::yield_now().await;
            }
        };
        guarded("a call that waits", waits).await;
    }

    /// What is known of each upstream.
    pub(crate) async fn statuses(&self) -> Vec<(String, UpstreamStatus)> {
        guarded("the upstreams", self.gateway.settled()).await
    }

    pub(crate) async fn start_with(
        directory: &Path,
        upstreams: Vec<UpstreamOptions>,
        authenticator: Option<impl Authenticator + 'static>,
    ) -> Self {
        let prefix = upstreams.len() > 1;
        Self::begin(directory, upstreams, prefix, authenticator, "127.0.0.1:0").await
    }

    async fn begin(
        directory: &Path,
        upstreams: Vec<UpstreamOptions>,
        prefix: bool,
        authenticator: Option<impl Authenticator + 'static>,
        address: &str,
    ) -> Self {
        let folder = PrivateDir::create(&directory.join("upstreams")).unwrap();
        let gateway = Gateway::new(upstreams, prefix, "1.0.0", Some(folder), &Ports::system()).unwrap();
        let mut server = Server::new("gateway", "1.0.0")
            .data_dir(directory.join("data"))
            .provider(gateway.provider());
        if let Some(authenticator) = authenticator {
            server = server.authenticator(authenticator);
        }
        let server = server.start().await.unwrap();
        let engine = server.engine().unwrap();
        let unseen = gateway.start(&engine).await;
        gateway.wait(&engine, unseen).await;
        drop(engine);
        guarded("the upstreams", gateway.settled()).await;
        let listener = server.listen(address).await.unwrap();
        let url = listener.url();
        let (stop, stopped) = oneshot::channel();
        #[expect(clippy::disallowed_methods, reason = "the test is the outside world")]
        tokio::spawn(listener.serve_until(async move {
            let _: Result<(), _> = stopped.await;
        }));
        Self {
            url,
            server,
            gateway,
            stop,
        }
    }

    /// Stops it. What runs is adopted by the next one on the same directory.
    pub(crate) async fn stop(self) {
        drop(self.stop);
        self.gateway.stop().await;
        self.server.stop().await;
    }
}

/// Nobody.
pub(crate) struct NoOne;

impl Authenticator for NoOne {
    fn authenticate<'a>(&'a self, _: &'a longhaul::auth::RequestHead<'a>) -> longhaul::auth::AuthDecision<'a> {
        longhaul::auth::AuthDecision::NotMine
    }
}

/// A shared list.
pub(crate) type Seen<T> = Arc<std::sync::Mutex<Vec<T>>>;
