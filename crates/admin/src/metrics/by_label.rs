//! Ended tasks by the values of their labels.

use crate::words::state_word;
use longhaul_core::{State, Task, Verdict};
use parking_lot::Mutex;
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family},
};
use std::collections::{BTreeMap, BTreeSet};

/// Values of a label that are counted apart.
const MOST_VALUES: usize = 50;
/// The value for all others. A label with this value is counted there, too.
const OTHER: &str = "other";

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct OfLabel {
    label: String,
    value: String,
    outcome: &'static str,
}

/// Counts of the labels that the operator has named.
pub(super) struct EndsByLabel {
    /// The values of each that are counted apart: the first that were seen.
    values: BTreeMap<String, Mutex<BTreeSet<String>>>,
    pub(super) ended: Family<OfLabel, Counter>,
}

impl EndsByLabel {
    pub(super) fn new(names: BTreeSet<String>) -> Self {
        Self {
            values: names.into_iter().map(|name| (name, Mutex::default())).collect(),
            ended: Family::default(),
        }
    }

    /// A task has ended. Without such a label it costs nothing.
    pub(super) fn task_ended(&self, task: &Task) {
        if self.values.is_empty() {
            return;
        }
        let outcome = match task.state {
            State::Done(Verdict::ToolError) => State::Done(Verdict::RpcError),
            state => state,
        };
        for label in task.labels.iter() {
            let Some(values) = self.values.get(label.name()) else {
                continue;
            };
            let of_label = OfLabel {
                label: label.name().to_owned(),
                value: counted(&mut values.lock(), label.value()).to_owned(),
                outcome: state_word(outcome),
            };
            self.ended.get_or_create(&of_label).inc();
        }
    }
}

/// The value, or [`OTHER`] if there is no room for it.
fn counted<'a>(values: &mut BTreeSet<String>, value: &'a str) -> &'a str {
    if values.contains(value) {
        return value;
    }
    if values.len() >= MOST_VALUES {
        return OTHER;
    }
    values.insert(value.to_owned());
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_room_is_counted_together() {
        let mut values = BTreeSet::new();
        for n in 0..MOST_VALUES {
            assert_eq!(counted(&mut values, &n.to_string()), n.to_string());
        }
        assert_eq!(counted(&mut values, "one more"), OTHER);
        assert_eq!(counted(&mut values, "0"), "0");
        assert_eq!(values.len(), MOST_VALUES);
    }
}
