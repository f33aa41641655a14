//! Counting the live tasks of each principal.

use super::principals::principals_view;
use crate::{context::AdminContext, query::MOST_EXAMINED};
use longhaul_admin_api::PrincipalsView;
use longhaul_core::{
    State,
    store::{SearchOrder, StoreError, TaskFilter, TaskSearch},
};
use std::sync::Arc;

impl AdminContext {
    /// Counts the newest live tasks by principal.
    pub(crate) async fn principals(&self) -> Result<Arc<PrincipalsView>, StoreError> {
        let clock = &self.engine.ports().clock;
        self.counted_principals
            .known_or(&**clock, self.count_principals())
            .await
    }

    async fn count_principals(&self) -> Result<PrincipalsView, StoreError> {
        let search = TaskSearch {
            filter: TaskFilter {
                states: State::LIVE.to_vec(),
                ..TaskFilter::default()
            },
            order: SearchOrder::NewestFirst,
            after: None,
            limit: MOST_EXAMINED,
            most_examined: MOST_EXAMINED,
        };
        let found = self.engine.store().search(search).await?;
        Ok(principals_view(&found.tasks, found.next.is_some(), self.now()))
    }
}
