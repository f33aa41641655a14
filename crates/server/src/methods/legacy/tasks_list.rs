//! `tasks/list` (legacy): the caller's tasks, newest first, page by page. A cursor names where the next page begins and whose list it belongs to,
//! under signature.

use crate::{
    admission::request::AdmittedRequest,
    methods::Methods,
    response::{Answer, store_failed},
    signer::{Signer, VerifiedBody},
};
use longhaul_core::{Capability, Scope, Task, TaskId};
use longhaul_wire::{RpcError, legacy};

const PAGE: usize = 50;

pub(crate) async fn answer(methods: &Methods, request: &AdmittedRequest<'_>) -> Result<Answer, RpcError> {
    let (scope, signer) = (request.caller.list_scope()?, &methods.lists.cursors);
    let before = match request.params.cursor()? {
        Some(text) => {
            let wrong = || {
                RpcError::invalid_params(
                    "params.cursor is not one this list gave out, or it is too old: begin again without it",
                )
            };
            Some(read_cursor(&text, &scope, signer).ok_or_else(wrong)?)
        }
        None => None,
    };
    let page = methods.engine.list(&scope, before.as_ref(), PAGE).await;
    let mut page = page.map_err(store_failed)?;
    if !request.caller.capabilities().has(Capability::ElicitationForm) {
        page.tasks.iter_mut().for_each(Task::hide_confirmation);
    }
    let last = page.tasks.last().filter(|_| page.more);
    let next = last.map(|task| cursor_after(&task.id, &scope, signer));
    let now = methods.engine.ports().clock.read();
    Ok(Answer::result(request.id, |out| {
        legacy::tasks::write_list(out, &page.tasks, next.as_deref(), now);
    }))
}

/// The cursor after `last`, valid for this scope only.
fn cursor_after(last: &TaskId, scope: &Scope, signer: &Signer) -> String {
    let mut body = owner_of(scope);
    body.extend(last.as_str().as_bytes());
    signer.sign(&body)
}

/// The task a cursor points behind; `None` if it is not one of ours for this scope.
fn read_cursor(cursor: &str, scope: &Scope, signer: &Signer) -> Option<TaskId> {
    let VerifiedBody(body) = signer.verify(cursor)?;
    let id = body.strip_prefix(&*owner_of(scope))?;
    std::str::from_utf8(id).ok()?.parse().ok()
}

fn owner_of(scope: &Scope) -> Vec<u8> {
    let session = scope.session.as_ref().map_or("", |session| session.as_str());
    format!("{}\0{session}\0", scope.principal.as_str()).into_bytes()
}
