//! `tasks/list` (legacy): the caller's tasks, newest first, page by page (G1-47).

use crate::{
    dispatch::Call,
    methods::task_cursor,
    response::{Answer, store_failed},
    transport::front::Front,
};
use longhaul_wire::{RpcError, legacy};
use std::sync::Arc;

const PAGE: usize = 50;

pub(super) async fn answer(front: &Arc<Front>, call: &Call<'_>) -> Result<Answer, RpcError> {
    let scope = call.caller.list_scope()?;
    let before = match call.params.cursor()? {
        Some(text) => {
            let wrong = || RpcError::invalid_params("params.cursor is not one this list gave out");
            Some(task_cursor::read(&text, &scope, &front.cursors).ok_or_else(wrong)?)
        }
        None => None,
    };
    let page = front
        .engine
        .list(&scope, before.as_ref(), PAGE)
        .await
        .map_err(store_failed)?;
    let last = page.tasks.last().filter(|_| page.more);
    let next = last.map(|task| task_cursor::after(&task.id, &scope, &front.cursors));
    let now = front.engine.ports().clock.read();
    Ok(Answer::result(call.id, |out| {
        legacy::tasks::write_list(out, &page.tasks, next.as_deref(), now)
    }))
}
