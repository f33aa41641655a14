//! What the audit log is told of each request: the only list of it.

use crate::{
    admission::{identity::Identity, request::AdmittedRequest},
    audit::{AuditAction, AuditOutcome, Auditor, RequestAudit, name_and_version, shortened},
    call::follow_tools::FollowTool,
    catalog::task_resources,
    interaction::Interaction,
    session::{Session, replies},
};
use longhaul_core::TaskId;
use longhaul_wire::{Method, RpcError, TaskUri, jsonrpc::Response};
use serde::Deserialize;
use std::{net::IpAddr, sync::Arc};

/// What is recorded of a request; `None` of one that is about no task, and reads no resource and no prompt. Completions are left out: they are for
/// each key that a user presses, and tell only what an author's function offers.
pub(super) fn begin(
    auditor: &Arc<Auditor>,
    interaction: &Interaction,
    method: Method,
    request: &AdmittedRequest<'_>,
) -> Option<Arc<RequestAudit>> {
    let params = request.params;
    let named = || params.task_id().ok()?.parse().ok();
    let (mut resource, mut prompt) = (None, None);
    let (action, task, tool) = match method {
        Method::ToolsCall => {
            let call = params.call_tool().ok()?;
            match FollowTool::named(
                &call.name,
                &interaction.engine.catalog().snapshot(),
                request.caller.mode.handoff,
            ) {
                Some(tool) => {
                    #[derive(Deserialize)]
                    struct Arguments {
                        task: String,
                    }
                    let arguments: Option<Arguments> =
                        call.arguments.and_then(|raw| serde_json::from_str(raw.get()).ok());
                    let task = arguments.and_then(|arguments| arguments.task.parse().ok());
                    (tool.audited_as(), task, Some(shortened(&call.name)))
                }
                None => {
                    // A retry with answers: the round of a modern client.
                    let action = match call.input_responses.is_empty() {
                        true => AuditAction::Call,
                        false => AuditAction::Answer,
                    };
                    (action, None, Some(shortened(&call.name)))
                }
            }
        }
        Method::TasksGet | Method::TasksResult => (AuditAction::Read, named(), None),
        Method::TasksList => (AuditAction::Read, None, None),
        Method::TasksCancel => (AuditAction::Cancel, named(), None),
        Method::CallsCancel => {
            let name = params.call_tool().ok()?.name;
            (AuditAction::Cancel, None, Some(shortened(&name)))
        }
        Method::TasksUpdate => (AuditAction::Answer, named(), None),
        Method::TasksDelete => (AuditAction::Delete, named(), None),
        Method::ResourcesRead | Method::ResourcesSubscribe => {
            let uri = params.uri().ok()?;
            let task = task_of(&uri);
            resource = task.is_none().then(|| without_query(&uri));
            (AuditAction::Read, task, None)
        }
        Method::PromptsGet => {
            prompt = Some(shortened(&params.get_prompt().ok()?.name));
            (AuditAction::Read, None, None)
        }
        Method::SubscriptionsListen => {
            let asked = params.listen().ok()?;
            let mut tasks = asked.task_ids.iter().filter_map(|id| id.parse().ok());
            let uris = || asked.resource_subscriptions.iter();
            let task = tasks.next().or_else(|| uris().find_map(|uri| task_of(uri)));
            resource = uris().next().filter(|_| task.is_none()).map(|uri| without_query(uri));
            if task.is_none() && resource.is_none() {
                return None;
            }
            (AuditAction::Read, task, None)
        }
        _ => return None,
    };
    let mut event = auditor.event(action)?;
    let caller = &request.caller;
    let info = match caller.session() {
        Some(session) => session.client.as_deref().map(str::to_owned),
        None => request.meta.client_info().map(|raw| raw.get().to_owned()),
    };
    let (client, version) = info.as_deref().map(name_and_version).unwrap_or_default();
    (event.task, event.tool, event.method) = (task, tool, Some(method.as_str()));
    (event.resource, event.prompt) = (resource, prompt);
    event.principal = Some(caller.principal().as_str().into());
    event.session = caller.session_key().map(|key| key.as_str().to_owned());
    (event.client, event.client_version, event.address) = (client, version, request.address);
    Some(RequestAudit::new(auditor, event))
}

/// A client's response to a request of ours, which is an answer to a question.
pub(super) fn answered(
    auditor: &Auditor,
    identity: &Identity,
    session: Option<&Session>,
    response: &Response<'_>,
    address: Option<IpAddr>,
    outcome: AuditOutcome,
) {
    let Some(mut event) = auditor.event(AuditAction::Answer) else {
        return;
    };
    let id = response
        .id
        .and_then(|id| serde_json::from_str::<String>(id.as_json()).ok());
    event.task = id.and_then(|id| replies::question_of(&id)).map(|(task, _)| task);
    event.principal = Some(identity.principal().as_str().into());
    if let Some(session) = session {
        event.session = Some(session.key.as_str().to_owned());
        (event.client, event.client_version) = session.client.as_deref().map(name_and_version).unwrap_or_default();
    }
    (event.address, event.outcome) = (address, outcome);
    auditor.record(event);
}

/// Whether an error says that there is no such task. What is another principal's does not exist.
pub(super) fn is_unknown_task(method: Method, request: &AdmittedRequest<'_>, error: &RpcError) -> bool {
    match method {
        Method::ResourcesRead | Method::ResourcesSubscribe => {
            error.is_resource_not_found() && request.params.uri().is_ok_and(|uri| task_resources::is_uri(&uri))
        }
        Method::TasksGet | Method::TasksCancel if request.caller.declares_legacy_tasks_only() => error.code() == -32021,
        _ => error.is_task_not_found(),
    }
}

pub(super) fn outcome_of(error: &RpcError) -> AuditOutcome {
    match error.status() {
        403 => AuditOutcome::Denied,
        429 => AuditOutcome::Limited,
        _ => AuditOutcome::Failed(error.code()),
    }
}

fn task_of(uri: &str) -> Option<TaskId> {
    Some(uri.parse::<TaskUri>().ok()?.task)
}

/// A URI as it is recorded: without its query, which may hold arguments, and without a name and a password before its host.
fn without_query(uri: &str) -> String {
    let uri = uri.split(['?', '#']).next().unwrap_or_default();
    let Some((scheme, rest)) = uri.split_once("://") else {
        return shortened(uri);
    };
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    match authority.rsplit_once('@') {
        Some((_, host)) => shortened(&format!("{scheme}://{host}{path}")),
        None => shortened(uri),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_password_of_a_uri_is_recorded() {
        for (uri, recorded) in [
            ("http://u:PASSWORD@h/x?secret=1", "http://h/x"),
            ("http://u@v:PASSWORD@h", "http://h"),
            ("file:///a@b", "file:///a@b"),
            ("https://h/u:p@x#y", "https://h/u:p@x"),
            ("a:b", "a:b"),
        ] {
            assert_eq!(without_query(uri), recorded);
        }
    }
}
