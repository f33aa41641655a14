//! `subscriptions/listen` (modern): a stream of the notifications that the client asks for.

use crate::{
    admission::request::AdmittedRequest,
    audit::AuditOutcome,
    catalog::resources,
    interaction::{
        Interaction,
        subscription::{Subscription, accepted_tasks},
    },
    methods::Methods,
    response::{Answer, OwnedRequestId, store_failed, stream},
    session::preferences::SubscriptionGuard,
};
use longhaul_core::{Capability, TaskId};
use longhaul_wire::{RpcError, modern::subscription::write_acknowledged, params::SubscriptionFilter};
use std::{borrow::Cow, collections::HashSet, num::NonZeroU32, sync::Arc};

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
    // What cannot be an id names nothing.
    let ids: Vec<TaskId> = params.task_ids.iter().filter_map(|id| id.parse().ok()).collect();
    let tasks = accepted_tasks(interaction, &request.caller, ids.clone())
        .await
        .map_err(store_failed)?;
    count_and_record(request, &ids, tasks.accepted(), interaction)?;
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

/// Each unknown id counts as a request for an unknown task, up to a burst: a client may follow again what has expired meanwhile, however much that is. The
/// audit log gets a line for each task that is there, and one for the first that is not.
fn count_and_record(
    request: &AdmittedRequest<'_>,
    asked: &[TaskId],
    accepted: &[TaskId],
    interaction: &Interaction,
) -> Result<(), RpcError> {
    let known: HashSet<&TaskId> = accepted.iter().collect();
    let mut unknown = asked.iter().filter(|id| !known.contains(id)).peekable();
    let first_unknown = unknown.peek().copied();
    let unknown: HashSet<&TaskId> = unknown.collect();
    if let Some(count) = u32::try_from(unknown.len()).ok().and_then(NonZeroU32::new) {
        let meter = &interaction.admission.meter;
        meter.unknown_ids(request.caller.identity(), request.address, count)?;
    }
    if let Some(audit) = &request.audit {
        for id in accepted {
            audit.record_for(id, AuditOutcome::Ok);
        }
        if let Some(id) = first_unknown {
            audit.record_for(id, AuditOutcome::Unknown);
        }
    }
    Ok(())
}

/// The resources that exist for this caller, and their guards; the others are left out silently, as tasks are.
async fn accepted_resources<'a>(
    interaction: &Arc<Interaction>,
    request: &AdmittedRequest<'_>,
    uris: Vec<Cow<'a, str>>,
) -> Result<(Vec<Cow<'a, str>>, Vec<SubscriptionGuard>), RpcError> {
    let (mut accepted, mut held) = (Vec::new(), Vec::new());
    for uri in uris {
        match resources::subscribe(interaction, request, &uri).await {
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
