//! What each method needs of its sender: the only list of it.

use crate::{
    admission::{identity::Identity, permissions::Permission, request::AdmittedRequest},
    call::{follow_tools::FollowTool, start},
    catalog::task_resources,
    interaction::Interaction,
    response::Answer,
};
use longhaul_wire::{Method, RequestId, RpcError};

/// The refusal of a request whose sender may not do what it asks for. It depends on the request alone and not on what exists.
pub(super) fn refuse(interaction: &Interaction, method: Method, request: &AdmittedRequest<'_>) -> Option<Answer> {
    let identity = request.caller.identity();
    if identity.permissions().allows_everything() {
        return None;
    }
    let params = request.params;
    // Params that cannot be read are refused by the method, which does nothing.
    match method {
        Method::ToolsCall => {
            let name = params.call_tool().ok()?.name;
            let tools = interaction.engine.catalog().snapshot();
            match FollowTool::named(&name, &tools) {
                Some(tool) => need(interaction, request, tool.needs()),
                None => need(interaction, request, Permission::Call(&name)).or_else(|| {
                    // A task that its creator could not read would run for nobody.
                    let tool = interaction.engine.catalog().tool(&name)?;
                    start::is_task(request, &tool).then(|| need(interaction, request, Permission::ReadTasks))?
                }),
            }
        }
        Method::TasksGet | Method::TasksResult | Method::TasksList => need(interaction, request, Permission::ReadTasks),
        Method::TasksCancel | Method::TasksUpdate | Method::TasksDelete => {
            need(interaction, request, Permission::WriteTasks)
        }
        Method::ResourcesRead | Method::ResourcesSubscribe | Method::ResourcesUnsubscribe => {
            let uri = params.uri().ok()?;
            task_resources::is_uri(&uri)
                .then(|| need(interaction, request, Permission::ReadTasks))
                .flatten()
        }
        Method::SubscriptionsListen => {
            let asked = params.listen().ok()?;
            let of_tasks = !asked.task_ids.is_empty()
                || asked
                    .resource_subscriptions
                    .iter()
                    .any(|uri| task_resources::is_uri(uri));
            of_tasks
                .then(|| need(interaction, request, Permission::ReadTasks))
                .flatten()
        }
        // They tell nothing of tasks, or are not requests of clients.
        _ => None,
    }
}

/// The refusal of a response to a request of ours: whoever may neither call a tool nor change a task was asked nothing.
pub(super) fn refuse_response(interaction: &Interaction, identity: &Identity) -> Answer {
    refusal(interaction, None, identity, &[Permission::WriteTasks])
}

/// The refusal of a stream whose reader lacks these permissions, if it lacks any. It belongs to no message.
pub(crate) fn refuse_stream(
    interaction: &Interaction,
    identity: &Identity,
    missing: &[Permission<'_>],
) -> Option<Answer> {
    (!missing.is_empty()).then(|| refusal(interaction, None, identity, missing))
}

fn need(interaction: &Interaction, request: &AdmittedRequest<'_>, permission: Permission<'_>) -> Option<Answer> {
    let identity = request.caller.identity();
    if identity.permissions().allows(permission) {
        return None;
    }
    // A call may become a task, so what is needed to follow it is asked for together (S-22).
    let all = match permission {
        Permission::Call(_) => &[permission, Permission::ReadTasks][..],
        _ => &[permission],
    };
    let missing: Vec<Permission<'_>> = all
        .iter()
        .copied()
        .filter(|permission| !identity.permissions().allows(*permission))
        .collect();
    Some(refusal(interaction, Some(request.id), identity, &missing))
}

fn refusal(
    interaction: &Interaction,
    id: Option<RequestId<'_>>,
    identity: &Identity,
    missing: &[Permission<'_>],
) -> Answer {
    let names: Vec<String> = missing.iter().map(ToString::to_string).collect();
    let challenge = interaction.admission.access.insufficient(identity, missing);
    Answer::challenge(id, &RpcError::not_permitted(&names.join(" ")), challenge)
}
