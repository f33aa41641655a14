//! `subscriptions/listen` (modern): a stream of the notifications that the client asks for (U-20, G2-50..G2-55).

use super::Methods;
use crate::{
    admission::request::AdmittedRequest,
    catalog::resources,
    interaction::{
        Interaction,
        subscription::{Subscription, accepted_tasks},
    },
    response::{Answer, OwnedRequestId, store_failed, stream},
    session::preferences::SubscriptionGuard,
};
use longhaul_core::Capability;
use longhaul_wire::{RpcError, modern::subscription::write_acknowledged, params::SubscriptionFilter};
use std::{borrow::Cow, sync::Arc};

pub(crate) async fn answer(methods: &Methods, request: &AdmittedRequest<'_>) -> Result<Answer, RpcError> {
    let interaction = &methods.interaction;
    let params = request.params.listen()?;
    if !params.task_ids.is_empty() && !request.caller.declares_tasks {
        return Err(RpcError::missing_capability(Capability::Tasks));
    }
    if !request.caller.takes_stream {
        return Err(request.caller.no_stream());
    }
    let permit = interaction.admission.meter.stream(request.caller.principal())?;
    let names_something = !params.task_ids.is_empty() || !params.resource_subscriptions.is_empty();
    // What cannot be an id names nothing (S-05).
    let ids = params.task_ids.iter().filter_map(|id| id.parse().ok()).collect();
    let tasks = accepted_tasks(interaction, request.caller.scope(), ids)
        .await
        .map_err(store_failed)?;
    let (resource_subscriptions, held) =
        accepted_resources(interaction, request, params.resource_subscriptions).await?;
    let accepted = SubscriptionFilter {
        resource_subscriptions,
        task_ids: tasks
            .accepted()
            .iter()
            .map(|id| Cow::from(id.as_str().to_owned()))
            .collect(),
        ..params
    };
    let mut acknowledged = String::new();
    write_acknowledged(&mut acknowledged, request.id, &accepted);
    let subscription = Subscription::new(
        interaction,
        (request.caller.identity(), OwnedRequestId::of(request.id)),
        &accepted,
        (tasks, names_something),
        held,
    );
    let events = stream::events(interaction.engine.ports(), |sink| async move {
        // Nothing more is sent to a client that has left.
        let _ = subscription.write(sink, acknowledged).await;
        drop(permit);
    });
    Ok(Answer::Stream(events))
}

/// The resources that exist for this caller, and their guards; the others are left out silently, as tasks are.
async fn accepted_resources<'a>(
    interaction: &Arc<Interaction>,
    request: &AdmittedRequest<'_>,
    uris: Vec<Cow<'a, str>>,
) -> Result<(Vec<Cow<'a, str>>, Vec<SubscriptionGuard>), RpcError> {
    let (mut accepted, mut held) = (Vec::new(), Vec::new());
    for uri in uris {
        match resources::subscribe(interaction, &request.caller, &uri).await {
            Ok(subscribed) => {
                held.extend(subscribed);
                accepted.push(uri);
            }
            Err(error) if error.is_internal() => return Err(error),
            Err(_) => {}
        }
    }
    Ok((accepted, held))
}
