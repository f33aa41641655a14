//! The operations of a store, by what they are about.

mod journals;
mod nodes;
mod queues;
mod schedules;
mod search;
mod sessions;
mod tasks;
mod timers;

pub use journals::JournalStore;
pub use nodes::LeaseStore;
pub use queues::QueueStore;
pub use schedules::ScheduleStore;
pub use search::SearchStore;
pub use sessions::SessionStore;
pub use tasks::TaskStore;
pub use timers::TimerStore;
