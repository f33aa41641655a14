//! The tests that every store must pass: one file for each promise, and one random run against the model.
//!
//! This is library code, so that a store written elsewhere can be tested too. Write a [`Subject`], and let
//! [`contract_tests!`](crate::contract_tests) make a test of every promise:
//!
//! ```
//! # use longhaul_store::{MemoryStore, contract::Subject};
//! # use longhaul_core::{BoxFuture, Millis, Store};
//! # use std::sync::Arc;
//! struct Model(Arc<MemoryStore>);
//! impl Subject for Model {
//!     fn store(&self) -> Arc<dyn Store> { self.0.clone() }
//!     fn reopen(&mut self) -> BoxFuture<'_, ()> { Box::pin(async {}) }
//! }
//! fn new_subject() -> BoxFuture<'static, Box<dyn Subject>> {
//!     Box::pin(async { Box::new(Model(Arc::new(MemoryStore::new()))) as Box<dyn Subject> })
//! }
//! # fn block_on<F: Future>(_future: F) {}
//! longhaul_store::contract_tests!(new_subject, block_on);
//! ```
//!
//! The suite names no executor: `block_on` is whatever drives the store's futures. A broken promise panics with what was
//! expected.

use longhaul_core::{BoxFuture, Millis, Store};
use std::{pin::Pin, sync::Arc};

pub(crate) mod fixture;

mod changes;
mod creation;
pub mod differential;
mod execution;
mod lookups;
mod nodes;
pub mod schedules;
pub mod sessions;
pub mod signing_keys;

pub use self::{changes::*, creation::*, execution::*, lookups::*, nodes::*};

/// A store under test.
pub trait Subject: Send {
    /// The store.
    fn store(&self) -> Arc<dyn Store>;

    /// Closes the store and opens it again on the same data. Everyone else has dropped it. A store without a disk does nothing.
    fn reopen(&mut self) -> BoxFuture<'_, ()>;

    /// Lets time pass by the store's clock. Only needed for a store that many nodes share.
    fn pass(&mut self, _millis: Millis) {}

    /// Called before a random run compares everything for the last time: what is done here must change nothing of it.
    fn before_last_comparison(&mut self) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }
}

/// Makes a [`Subject`] with nothing in it.
pub type NewSubject = fn() -> BoxFuture<'static, Box<dyn Subject>>;

/// A promise of the contract.
pub type Promise = fn(NewSubject) -> Pin<Box<dyn Future<Output = ()>>>;

/// Every promise, with its name: for a store that is better tested in one process, because it needs a server for instance. The last one is the random run
/// against the model, which a slow store may [end sooner](differential::run_for).
pub const PROMISES: &[(&str, Promise)] = crate::with_promises!({ named_promises });

macro_rules! named_promises {
    ($($file:ident: $($promise:ident),+;)+) => {
        &[$($((stringify!($promise), |new_subject| Box::pin($file::$promise(new_subject))),)+)+]
    };
}
use named_promises;

/// Hands all promises to a macro.
#[doc(hidden)]
#[macro_export]
macro_rules! with_promises {
    ({ $($receiver:tt)+ } $($first:tt)*) => {
        $($receiver)+! { $($first)*
            acknowledged_is_kept: changes_survive_reopening, nodes_are_never_numbered_twice;
            all_or_nothing: a_refused_change_leaves_no_trace, a_refused_task_leaves_no_trace;
            blocked: blocked_work_records_events_and_is_not_woken, blocked_work_holds_nothing, a_block_lasts_until_an_entry,
                blocked_tasks_are_found_in_order, an_entry_records_its_attempt;
            calls: a_call_is_written_once_with_its_change, a_call_is_written_with_its_question_or_with_nothing,
                a_refused_call_leaves_no_trace_and_a_written_one_is_counted, a_hint_of_an_end_may_carry_the_record;
            claims: no_task_is_given_to_two_claimers, a_queue_is_in_order_of_readiness, starts_of_a_tool_with_a_rate_are_spaced,
                a_task_may_be_claimed_as_it_is_created;
            confirmation: a_task_waits_for_its_confirmation, what_is_not_confirmed_ends,
                a_step_of_the_clock_does_not_end_a_confirmation, a_client_does_not_confirm_for_an_operator,
                a_parent_learns_that_its_child_was_declined;
            counts: live_tasks_are_counted;
            done_is_final: invariant_2_a_done_task_never_changes, a_task_may_be_over_as_it_is_created;
            groups: a_group_has_no_more_tasks_than_its_limit, a_task_enters_its_group_when_it_is_confirmed, a_task_is_in_its_group_until_its_attempt_has_stopped,
                the_first_of_the_queue_is_let_in, what_waits_for_its_group_ends_as_other_queued_tasks,
                a_replaced_task_leaves_its_group, another_limit_lets_tasks_in, groups_are_kept_apart, of_concurrent_changes_a_group_has_no_more_than_its_limit;
            hints: events_are_never_wrong, versions_are_read_together;
            idempotent_creation: the_same_call_is_made_once, a_key_is_not_used_for_another_call, a_key_belongs_to_principal_and_tool,
                a_key_lives_as_long_as_its_task, of_concurrent_calls_one_is_made, a_caller_with_a_key_can_return;
            inputs_answered_once: invariant_4_an_input_key_is_answered_once, questions_are_withdrawn_with_their_attempt, who_has_answered_is_kept;
            isolation: invariant_5_a_principal_cannot_learn_of_anothers_task, a_task_never_announced_is_not_shown;
            journal: invariant_10_journal_entries_stay, an_existing_entry_takes_another_value,
                output_is_found_among_other_entries, entries_come_in_order_and_from_their_worker, entries_are_counted_and_go_with_their_task,
                a_task_may_begin_with_the_journal_of_another;
            leases: a_renewal_lists_what_the_node_holds, the_node_before_has_lost_its_lease,
                leases_end_where_nodes_are_many, a_lease_ends_unless_it_is_renewed,
                leases_that_ran_out_together_are_renewed, a_lease_can_be_given_up, attempts_are_lost_with_their_host,
                a_front_keeps_nothing_of_its_host, what_is_to_stop_is_lost_with_its_host_at_once, a_host_can_be_given_up,
                a_host_knows_its_own_dead_process, nodes_are_listed;
            lineage: a_childs_end_reaches_its_parent_with_it, a_childs_long_end_is_its_own, a_child_is_written_with_its_parents_entry_or_not_at_all,
                a_repeated_call_writes_nothing_of_the_parent, a_child_may_be_over_as_it_is_created,
                the_end_of_a_child_changes_no_parent_that_is_over, children_of_finished_parents_are_found,
                all_that_a_task_started_is_found;
            lists: lists_go_from_new_to_old_in_pages, a_sessions_live_tasks_are_found_oldest_first,
                a_session_filters_lists_and_nothing_else;
            live_is_never_deleted: invariant_6_live_work_is_not_deleted, a_deleted_task_leaves_nothing,
                an_ended_task_can_be_deleted_before_its_time;
            numbered_changes: a_numbered_change_is_made_once, numbers_belong_to_an_attempt;
            permits: nodes_share_the_limit_of_a_tool, a_late_report_changes_nothing, attempts_of_dead_nodes_keep_their_permits;
            queues: queues_are_known_by_their_tools, the_position_in_a_queue_is_known, a_queue_is_in_order_of_priority,
                limits_are_kept_by_tool, pauses_are_kept_by_tool;
            quotas: live_tasks_are_limited, stored_bytes_are_limited, counts_survive_reopening, a_quota_refuses_creates_and_nothing_else;
            recovery: orphans_are_adopted_with_their_epoch, orphans_of_other_hosts_are_left, orphaned_calls_are_found;
            replacement: an_end_and_a_creation_are_one_write, of_an_end_and_a_creation_neither_is_made_alone,
                what_cannot_end_at_once_is_not_replaced, a_full_quota_leaves_room_for_a_replacement, a_call_is_replaced;
            requestor: the_requestor_is_kept_with_the_arguments, a_question_keeps_its_name;
            schedules: a_start_and_its_schedules_row_are_one_write, a_refused_start_leaves_its_schedule_as_it_was,
                live_tasks_and_pauses_keep_schedules_from_starting, a_planned_time_passes_once, schedules_are_kept_by_their_plans,
                of_concurrent_starts_one_is_made;
            searches: a_filter_finds_what_it_says, a_search_goes_on_where_it_stopped, calls_in_memory_are_found_in_order,
                tasks_are_found_by_all_of_their_labels, arguments_are_kept_as_they_were;
            sessions: ended_sessions_stay_ended_until_their_time, ended_sessions_are_bounded;
            signing_keys: keys_are_replaced_and_forgotten;
            specs: definitions_are_kept_as_they_were;
            stale_fences: invariant_3_a_stale_fence_is_refused, workers_must_show_a_fence;
            suspension: events_before_a_suspension_are_not_lost, awaited_events_wake_suspended_work,
                timers_of_suspended_work_can_be_made_due_at_once,
                suspended_work_holds_nothing;
            timers: due_tasks_are_listed_earliest_first;
            unique: one_live_task_has_a_value, of_concurrent_unique_calls_one_is_made, a_value_is_free_with_the_end_of_its_task,
                a_key_is_looked_at_before_the_value, a_child_does_not_join, a_replacement_takes_the_value_over,
                a_caller_of_a_unique_call_can_return;
            tombstones: the_host_of_the_files_learns_of_a_deletion, a_host_that_lost_an_attempt_learns_of_the_deletion;
            differential: a_random_run_agrees_with_the_model;
        }
    };
}

/// Makes a test of every promise: `contract_tests!(new_subject, block_on)` with a [`NewSubject`] and a function that drives a future.
#[macro_export]
macro_rules! contract_tests {
    ($new_subject:expr, $block_on:expr) => {
        $crate::with_promises!({ $crate::contract_tests } @each $new_subject, $block_on,);
    };
    (@each $new_subject:expr, $block_on:expr, $($file:ident: $($promise:ident),+;)+) => {
        $(
            #[cfg(test)]
            mod $file {
                use super::*;
                $(
                    #[test]
                    fn $promise() {
                        $block_on($crate::contract::$file::$promise($new_subject));
                    }
                )+
            }
        )+
    };
}
