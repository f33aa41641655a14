//! Who has how many live tasks.

use longhaul_admin_api::{PrincipalView, PrincipalsView};
use longhaul_core::{State, Task, UnixMillis};
use std::collections::HashMap;

fn count(view: &mut PrincipalView, task: &Task, now: UnixMillis) {
    let count = match task.state {
        State::Queued => &mut view.queued,
        State::Running => &mut view.running,
        State::Suspended => &mut view.suspended,
        State::Blocked => &mut view.blocked,
        State::Done(_) => return,
    };
    *count += 1;
    view.asking += u64::from(!task.open_inputs.is_empty());
    let age = u64::try_from(now.0.saturating_sub(task.created_at.0)).unwrap_or_default();
    view.oldest_ms = view.oldest_ms.max(age);
}

/// Counts these live tasks: the principal with the most first. `or_more`: there are more, which are older.
pub(crate) fn principals_view(tasks: &[Task], or_more: bool, now: UnixMillis) -> PrincipalsView {
    let mut principals: HashMap<&str, PrincipalView, foldhash::fast::RandomState> = HashMap::default();
    for task in tasks {
        let name = task.owner.principal.as_str();
        let view = principals.entry(name).or_insert_with(|| PrincipalView {
            principal: name.to_owned(),
            ..PrincipalView::default()
        });
        count(view, task, now);
    }
    let mut principals: Vec<PrincipalView> = principals.into_values().collect();
    principals.sort_unstable_by(|one, other| {
        let by_count = other.live().cmp(&one.live());
        by_count.then_with(|| one.principal.cmp(&other.principal))
    });
    PrincipalsView {
        principals,
        counted: tasks.len(),
        or_more,
    }
}
