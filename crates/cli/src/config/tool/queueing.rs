//! Which calls of a tool run at once, and in which order.

use super::{
    MAX_CONCURRENCY,
    template::{Rules, TemplateUse},
};
use crate::config::section::{Entry, Section};
use longhaul_core::{Priority, StartRate};

/// What a tool says of calls that wait for their turn.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct QueueSettings {
    /// The largest number of attempts of this tool at once; `None` for no limit of its own.
    pub(crate) concurrency: Option<u32>,
    /// Template of what no two live tasks of this tool have in common.
    pub(crate) unique: Option<String>,
    /// The priority of its calls, and the highest that a client can ask for.
    pub(crate) priority: Priority,
    /// How often its attempts begin at most.
    pub(crate) start_rate: Option<StartRate>,
}

/// Reads what is said of the queue; `None` after a problem.
pub(super) fn read(section: &Section<'_>, rules: &Rules<'_>) -> Option<QueueSettings> {
    let concurrency = section.optional("concurrency", |entry| entry.count(MAX_CONCURRENCY));
    let unique = section.optional("unique", |entry| {
        let text = entry.filled_text()?;
        rules.check(entry, text, TemplateUse::Key).then(|| text.to_owned())
    });
    let priority = section.get_or("priority", Priority::default(), read_priority);
    let start_rate = section.optional("start_rate", read_start_rate);
    Some(QueueSettings {
        concurrency: concurrency?,
        unique: unique?,
        priority: priority?,
        start_rate: start_rate?,
    })
}

fn read_priority(entry: &Entry<'_>) -> Option<Priority> {
    let number = entry.number_in(0..=Priority::HIGHEST.get().into())?;
    u8::try_from(number).ok().and_then(Priority::new)
}

fn read_start_rate(entry: &Entry<'_>) -> Option<StartRate> {
    let text = entry.text()?;
    text.parse()
        .map_err(|error| entry.report(format!("`start_rate`: {error}")))
        .ok()
}
