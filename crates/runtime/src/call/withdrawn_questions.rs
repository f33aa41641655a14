//! Open questions of principals that nobody can be any more: nobody could answer them, so they are refused.

use crate::engine::Engine;
use longhaul_core::{
    Task,
    store::{SearchOrder, StoreError, TaskFilter, TaskSearch},
};

/// How many tasks are looked at in one search.
const BATCH: usize = 1_000;

/// Answers them as if their client had refused.
pub(crate) async fn refuse(engine: &Engine) -> Result<(), StoreError> {
    let inner = &engine.0;
    if inner.may_begin.is_none() {
        return Ok(());
    }
    let mut search = TaskSearch {
        filter: TaskFilter {
            asks: true,
            ..TaskFilter::default()
        },
        order: SearchOrder::OldestFirst,
        after: None,
        limit: BATCH,
        most_examined: BATCH,
    };
    loop {
        let found = inner.node.store.search(search.clone()).await?;
        for task in found
            .tasks
            .iter()
            .filter(|task| inner.is_nobodys(&task.owner.principal))
        {
            refuse_of(engine, task).await?;
        }
        match found.next {
            Some(next) => search.after = Some(next),
            None => return Ok(()),
        }
    }
}

async fn refuse_of(engine: &Engine, task: &Task) -> Result<(), StoreError> {
    let Some(record) = engine.0.node.store.get_unscoped(&task.id).await? else {
        return Ok(());
    };
    for input in record.inputs {
        let why = "The client cannot answer: its credentials were revoked";
        engine.refuse_question(&task.id, input.key, why).await?;
    }
    Ok(())
}
