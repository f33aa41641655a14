//! Finds upstreams that lead back to this gateway.
//!
//! The lists of a gateway are made of those of its upstreams, so a circle would grow names without end. A gateway therefore asks each upstream that is a
//! Longhaul server whether it leads back, before it reads its lists and from time to time, and the question is passed on to the upstreams behind it. Circles
//! that run through other programs are stopped by a count of the gateways that a request has passed.

use super::{Upstream, upstreams::Upstreams};
use futures_util::future::join_all;
use longhaul_client::RequestError;
use longhaul_core::{BoxFuture, Json, JsonMembers, RpcFailure};
use longhaul_runtime::{CustomMethod, Engine, HandlerError, MethodHandler, RequestContext};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::{sync::Arc, time::Duration};

/// Asks a gateway whether an upstream of it leads back to one of those that the question has passed.
const METHOD: &str = "dev.longhaul/gateways";
/// Key of the number of gateways that a request has passed, in `_meta`.
const HOPS: &str = "dev.longhaul/hops";
/// How many gateways a request may pass.
const MOST_HOPS: usize = 8;
/// How long a gateway may take to answer the question.
const LONGEST_ANSWER: Duration = Duration::from_secs(5);
/// The reason in the data of the error that says that there is a loop.
const REASON: &str = "loop";

/// A gateway that the question has passed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Hop {
    /// A random name that the gateway has while it runs.
    gateway: String,
    /// Its name for the upstream that it has asked.
    upstream: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Params {
    through: Vec<Hop>,
}

/// Answers the question of other gateways.
pub(crate) fn offer(upstreams: &Arc<Upstreams>, engine: &Engine) {
    let handler = Arc::new(LoopCheck(Arc::clone(upstreams)));
    match CustomMethod::new(METHOD, handler) {
        Ok(method) => engine.catalog().put_method(method),
        Err(error) => tracing::error!(%error, "loops of gateways cannot be found"),
    }
}

/// Asks an upstream whether it leads back to this gateway.
///
/// # Errors
/// An error that says so, or that the upstream cannot be reached.
pub(crate) async fn check(upstreams: &Upstreams, upstream: &Upstream) -> Result<(), RequestError> {
    match ask(upstreams, upstream, Vec::new()).await {
        // It is no gateway, or does not like the question.
        Err(RequestError::Rpc(failure)) if !says_loop(&failure) => Ok(()),
        answer => answer,
    }
}

/// Whether an upstream was refused because it leads back.
pub(crate) fn is_loop(error: &RequestError) -> bool {
    matches!(error, RequestError::Rpc(failure) if says_loop(failure))
}

fn says_loop(failure: &RpcFailure) -> bool {
    let data = failure
        .data
        .as_ref()
        .map(|data| serde_json::from_str::<Value>(data.as_str()));
    matches!(data, Some(Ok(data)) if data["reason"] == REASON)
}

async fn ask(upstreams: &Upstreams, upstream: &Upstream, mut through: Vec<Hop>) -> Result<(), RequestError> {
    let own = upstream.connections.own();
    let connection = own.map_err(|error| RequestError::Setup(error.to_string()))?;
    if !connection.connection.server().await?.takes_idempotency_keys() {
        return Ok(());
    }
    through.push(Hop {
        gateway: upstreams.id.clone(),
        upstream: upstream.name().to_owned(),
    });
    connection
        .connection
        .send(METHOD, json!({"through": through}))
        .await
        .map(drop)
}

struct LoopCheck(Arc<Upstreams>);

impl MethodHandler for LoopCheck {
    fn call(self: Arc<Self>, params: Json, _: RequestContext) -> BoxFuture<'static, Result<Json, HandlerError>> {
        Box::pin(async move {
            let Params { through } = serde_json::from_str(params.as_str()).unwrap_or_default();
            if let Some(begin) = through.iter().position(|hop| hop.gateway == self.0.id) {
                let names: Vec<String> = through
                    .iter()
                    .skip(begin)
                    .map(|hop| format!("`{}`", hop.upstream))
                    .collect();
                let path = names.join(", then its upstream ");
                return Err(refusal(format!(
                    "a loop of gateways: upstream {path} leads back to the server that is in front of it"
                )));
            }
            if through.len() >= MOST_HOPS {
                return Err(refusal(too_many()));
            }
            // Also those whose lists are not known yet: two gateways that start together would both answer that nothing leads back.
            let asked = self.0.all().into_iter().map(|upstream| {
                let (upstreams, through) = (Arc::clone(&self.0), through.clone());
                async move {
                    let clock = &upstream.ports.clock;
                    tokio::select! {
                        biased;
                        answer = ask(&upstreams, &upstream, through) => answer.err(),
                        // It answers the next time.
                        () = clock.sleep(LONGEST_ANSWER) => None,
                    }
                }
            });
            let found = join_all(asked)
                .await
                .into_iter()
                .flatten()
                .find_map(|error| match error {
                    RequestError::Rpc(failure) if says_loop(&failure) => Some(failure),
                    _ => None,
                });
            match found {
                Some(failure) => Err(HandlerError::Rpc(failure)),
                None => Ok(Json::trusted("{}")),
            }
        })
    }
}

fn refusal(message: String) -> HandlerError {
    HandlerError::Rpc(RpcFailure {
        code: -32600,
        message: message.into(),
        data: Some(Json::from(&json!({"reason": REASON}))),
    })
}

fn too_many() -> String {
    format!("a loop of gateways: the request has passed {MOST_HOPS} of them, more than are expected in a row")
}

/// Notes in the `_meta` of a request that it passes this gateway. `received` is the one that it came with.
///
/// # Errors
/// It has passed too many, with words for the caller.
pub(crate) fn count_hop(received: &JsonMembers, sent: &mut JsonMembers) -> Result<(), String> {
    let passed = received.get(HOPS).and_then(|passed| passed.as_str().parse().ok());
    let passed: u64 = passed.unwrap_or_default();
    if passed >= MOST_HOPS as u64 {
        return Err(too_many());
    }
    sent.insert(HOPS.to_owned(), Json::trusted((passed + 1).to_string()));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_passes_eight_gateways_and_no_more() {
        let mut meta = JsonMembers::new();
        for hop in 1..=8 {
            let received = std::mem::take(&mut meta);
            assert_eq!(count_hop(&received, &mut meta), Ok(()));
            assert_eq!(meta[HOPS].as_str(), hop.to_string());
        }
        let error = count_hop(&meta.clone(), &mut meta).unwrap_err();
        assert!(error.contains("has passed 8"), "{error}");
    }
}
