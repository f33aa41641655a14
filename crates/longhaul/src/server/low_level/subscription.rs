//! Subscriptions to resources that the author is asked about.

use super::FunctionFuture;
use crate::{Error, RequestContext, ServerHandle, error::ErrorKind};
use longhaul_core::BoxFuture;
use longhaul_runtime::{FollowError, Followed, HandlerError, ResourceFollower, Subscriber};
use std::sync::Arc;

/// The function that is asked about a subscription to a resource.
pub(crate) type SubscribeFunction = Arc<dyn Fn(RequestContext, String) -> FunctionFuture<Followed> + Send + Sync>;

pub(crate) fn function<F, W, G>(function: F) -> SubscribeFunction
where
    F: Fn(RequestContext, String) -> W + Send + Sync + 'static,
    W: Future<Output = Result<G, Error>> + Send + 'static,
    G: Send + Sync + 'static,
{
    Arc::new(move |cx, uri| {
        let subscribed = function(cx, uri);
        Box::pin(async move { Ok(Arc::new(subscribed.await?) as Followed) })
    })
}

/// Binds a function to `server`.
pub(super) fn follower(function: SubscribeFunction, server: &ServerHandle) -> Arc<dyn ResourceFollower> {
    let server = server.clone();
    Arc::new(FunctionFollower { function, server })
}

struct FunctionFollower {
    function: SubscribeFunction,
    server: ServerHandle,
}

impl ResourceFollower for FunctionFollower {
    fn follow(
        self: Arc<Self>,
        uri: Arc<str>,
        subscriber: Subscriber,
    ) -> BoxFuture<'static, Result<Followed, FollowError>> {
        Box::pin(async move {
            let running = self.server.running();
            let running = running.ok_or_else(|| FollowError::Failed("the server has stopped".to_owned()))?;
            let ports = running.engine.ports().clone();
            let (owner, requestor) = (subscriber.owner, subscriber.requestor);
            let cx = longhaul_runtime::RequestContext::without_channel(owner, requestor, ports);
            let cx = RequestContext::of_request(cx, self.server.clone());
            (self.function)(cx, uri.to_string()).await.map_err(refusal)
        })
    }
}

/// An error of the author is a refusal, which concerns this resource alone.
fn refusal(error: Error) -> FollowError {
    if let ErrorKind::Text(why) = error.0 {
        return FollowError::Refused(why);
    }
    match HandlerError::from(error) {
        HandlerError::NotFound => FollowError::NotFound,
        HandlerError::Rpc(failure) => FollowError::Rpc(failure),
        lacks @ HandlerError::Lacks(_) => FollowError::Refused(lacks.to_string()),
    }
}
