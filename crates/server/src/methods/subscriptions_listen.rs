//! `subscriptions/listen` (modern): a stream of what the client wants to hear of (U-20, G2-50..G2-55).

use super::resources_read;
use crate::{
    dispatch::Call,
    interaction::{
        resource_watch::TaskSubscription,
        subscription::{Subscription, accepted_tasks},
    },
    response::{Answer, KeptId, store_failed, stream},
    transport::front::Front,
};
use longhaul_wire::{Capability, RpcError, modern::subscription::write_acknowledged, params::SubscriptionFilter};
use std::{borrow::Cow, sync::Arc};

pub(super) async fn answer(front: &Arc<Front>, call: &Call<'_>) -> Result<Answer, RpcError> {
    let wish = call.params.listen()?;
    if !wish.task_ids.is_empty() && !call.caller.declares_tasks {
        return Err(RpcError::missing_capability(Capability::Tasks));
    }
    if !call.caller.takes_stream {
        return Err(RpcError::invalid_request("Accept must list text/event-stream").with_status(406));
    }
    let permit = front.meter.stream(call.caller.principal())?;
    let for_tasks = !wish.task_ids.is_empty();
    // What cannot be an id names nothing (S-05).
    let ids = wish.task_ids.iter().filter_map(|id| id.parse().ok()).collect();
    let tasks = accepted_tasks(front, call.caller.scope(), ids)
        .await
        .map_err(store_failed)?;
    let (resource_subscriptions, held) = accepted_resources(front, call, wish.resource_subscriptions).await?;
    let accepted = SubscriptionFilter {
        resource_subscriptions,
        task_ids: tasks
            .accepted()
            .iter()
            .map(|id| Cow::from(id.as_str().to_owned()))
            .collect(),
        ..wish
    };
    let mut acknowledged = String::new();
    write_acknowledged(&mut acknowledged, call.id, &accepted);
    let subscription = Subscription::new(front, KeptId::of(call.id), &accepted, (tasks, for_tasks), held);
    let events = stream::events(front, |sink| async move {
        // Whoever has gone is told no more.
        let _ = subscription.write(sink, acknowledged).await;
        drop(permit);
    });
    Ok(Answer::Stream(events))
}

/// The resources that there are for this caller, and what is held for them; the others are left out without a word, as tasks are.
async fn accepted_resources<'a>(
    front: &Arc<Front>,
    call: &Call<'_>,
    uris: Vec<Cow<'a, str>>,
) -> Result<(Vec<Cow<'a, str>>, Vec<TaskSubscription>), RpcError> {
    let (mut accepted, mut held) = (Vec::new(), Vec::new());
    for uri in uris {
        match resources_read::subscribe(front, &call.caller, &uri).await {
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
