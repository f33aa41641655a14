//! Subscribing to resources in both eras.

use super::task_resources;
use crate::{
    admission::request::AdmittedRequest,
    interaction::{Interaction, resource_watch},
    session::preferences::SubscriptionGuard,
};
use longhaul_runtime::FollowError;
use longhaul_wire::{Method, RpcError};
use std::sync::Arc;

/// A subscription to a resource, which may need a guard to be kept. A resource that does not exist, and a task that is not the
/// caller's, are the same to the subscriber.
///
/// # Errors
/// As `resources/read` has them.
pub(crate) async fn subscribe(
    interaction: &Arc<Interaction>,
    request: &AdmittedRequest<'_>,
    uri: &str,
) -> Result<Option<SubscriptionGuard>, RpcError> {
    let (caller, snapshot) = (&request.caller, interaction.engine.catalog().snapshot());
    let not_found = || RpcError::resource_not_found(caller.generation, uri);
    // Which resources there are is known only to the author, if the author reads them.
    let author_reads = || snapshot.methods.contains_key(Method::ResourcesRead.as_str()) && !task_resources::is_uri(uri);
    if snapshot.find_resource(uri).is_some() || author_reads() {
        let Some(follower) = &snapshot.follower else {
            return Ok(None);
        };
        let requestor = Arc::new(caller.requestor(request.meta)?);
        let subscriber = interaction.engine.catalog().subscriber(caller.owner(), requestor);
        let followed = Arc::clone(follower).follow(uri.into(), subscriber).await;
        return followed.map(Some).map_err(|error| match error {
            FollowError::NotFound => not_found(),
            FollowError::Refused(why) => RpcError::invalid_params(why),
            FollowError::Rpc(failure) => RpcError::of_handler(&failure),
            FollowError::Failed(why) => RpcError::internal(why),
        });
    }
    let subscribed = resource_watch::subscribe(interaction, caller, uri).await?;
    subscribed.map(Some).ok_or_else(not_found)
}
