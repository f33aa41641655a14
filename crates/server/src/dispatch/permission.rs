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
            match FollowTool::named(&name, &tools, request.caller.mode.handoff) {
                Some(tool) => need(interaction, request, tool.needs()),
                None => need(interaction, request, Permission::Call(&name)).or_else(|| {
                    // A task that its creator could not read would run for nobody.
                    let tool = interaction.engine.catalog().tool(&name)?;
                    let needed = [Permission::Call(&name), Permission::ReadTasks];
                    start::is_task(request, &tool).then(|| need_all(interaction, request, &needed))?
                }),
            }
        }
        // Its caller may close the stream of a call without a key, which cancels it, too.
        Method::CallsCancel => need(interaction, request, Permission::Call(&params.call_tool().ok()?.name)),
        Method::TasksGet | Method::TasksResult | Method::TasksList => need(interaction, request, Permission::ReadTasks),
        Method::TasksCancel | Method::TasksUpdate | Method::TasksDelete => {
            need(interaction, request, Permission::WriteTasks)
        }
        Method::ResourcesRead | Method::ResourcesSubscribe | Method::ResourcesUnsubscribe => {
            need(interaction, request, of_resource(&params.uri().ok()?))
        }
        Method::PromptsGet | Method::CompletionComplete => need(interaction, request, Permission::ReadResources),
        Method::SubscriptionsListen => {
            let asked = params.listen().ok()?;
            let of_tasks = (!asked.task_ids.is_empty()).then_some(Permission::ReadTasks);
            let of_resources = asked.resource_subscriptions.iter().map(|uri| of_resource(uri));
            let needed: Vec<Permission<'_>> = of_tasks.into_iter().chain(of_resources).collect();
            need_all(interaction, request, &needed)
        }
        Method::Ping => None,
        // They show what the sender may use and nothing more. If that is nothing, its client would not find out that it needs another token.
        _ => (identity.scope_for_any()).map(|scope| {
            let challenge = interaction.admission.access.insufficient(Some(scope));
            Answer::challenge(Some(request.id), &RpcError::not_permitted(scope), challenge)
        }),
    }
}

/// Whether the method lists what the sender may not use: then the list is the server's own, which leaves it out, and not one of the author's.
pub(super) fn hides_list(method: Method, identity: &Identity) -> bool {
    let lists = [
        Method::PromptsList,
        Method::ResourcesList,
        Method::ResourceTemplatesList,
    ];
    lists.contains(&method) && !identity.permissions().allows(Permission::ReadResources)
}

/// The refusal of a response to a request of ours: whoever may neither call a tool nor change a task was asked nothing.
pub(super) fn refuse_response(interaction: &Interaction, identity: &Identity) -> Answer {
    let needed = [Permission::WriteTasks];
    refusal(interaction, None, identity.scope_for(&needed), &needed)
}

/// The refusal of a stream whose reader lacks these permissions, if it lacks any. It belongs to no message.
pub(crate) fn refuse_stream(
    interaction: &Interaction,
    identity: &Identity,
    missing: &[Permission<'_>],
) -> Option<Answer> {
    (!missing.is_empty()).then(|| refusal(interaction, None, identity.scope_for(missing), missing))
}

/// What it takes to read or to follow the resource.
fn of_resource(uri: &str) -> Permission<'static> {
    match task_resources::is_uri(uri) {
        true => Permission::ReadTasks,
        false => Permission::ReadResources,
    }
}

fn need(interaction: &Interaction, request: &AdmittedRequest<'_>, permission: Permission<'_>) -> Option<Answer> {
    if request.caller.identity().permissions().allows(permission) {
        return None;
    }
    match permission {
        // A call may become a task, so what is needed to follow it is asked for together.
        Permission::Call(_) => need_all(interaction, request, &[permission, Permission::ReadTasks]),
        _ => need_all(interaction, request, &[permission]),
    }
}

/// The refusal of a request that needs all of these, if its sender lacks one.
fn need_all(interaction: &Interaction, request: &AdmittedRequest<'_>, needed: &[Permission<'_>]) -> Option<Answer> {
    let identity = request.caller.identity();
    let mut once: Vec<Permission<'_>> = Vec::new();
    for permission in needed {
        if !once.contains(permission) {
            once.push(*permission);
        }
    }
    let lacks = |permission: &Permission<'_>| !identity.permissions().allows(*permission);
    let missing: Vec<Permission<'_>> = once.iter().copied().filter(lacks).collect();
    // Some clients ask their user for what the challenge names, so it names nothing that a sender has made up.
    let scope = match once.iter().all(|permission| permission.is_nameable()) {
        true => identity.scope_for(&once),
        false => None,
    };
    (!missing.is_empty()).then(|| refusal(interaction, Some(request.id), scope, &missing))
}

/// The error says what is missing. The challenge names all that is needed, since some clients ask for exactly what it names, and lose what they had.
fn refusal(
    interaction: &Interaction,
    id: Option<RequestId<'_>>,
    scope: Option<String>,
    missing: &[Permission<'_>],
) -> Answer {
    let names: Vec<String> = missing.iter().map(ToString::to_string).collect();
    let challenge = interaction.admission.access.insufficient(scope.as_deref());
    Answer::challenge(id, &RpcError::not_permitted(&names.join(" ")), challenge)
}
