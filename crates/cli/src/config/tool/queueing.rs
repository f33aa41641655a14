//! Which calls of a tool run at once, and in which order.

use super::{
    MAX_CONCURRENCY,
    template::{Rules, TemplateUse},
};
use crate::config::section::{Entry, Section};
use longhaul_command::Template;
use longhaul_core::{Priority, StartRate};

/// What a tool says of calls that wait for their turn.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct QueueSettings {
    /// The largest number of attempts of this tool at once; `None` for no limit. With `concurrency_key`: the largest number of tasks in progress for each value.
    pub(crate) concurrency: Option<u32>,
    /// The template of `concurrency_key`: calls with the same text share the limit.
    pub(crate) concurrency_key: Option<String>,
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
    let template = |entry: &Entry<'_>| {
        let text = entry.filled_text()?;
        rules.check(entry, text, TemplateUse::Key).then(|| text.to_owned())
    };
    let concurrency_key = section.optional("concurrency_key", |entry| {
        let text = template(entry)?;
        let names_arguments = Template::parse(&text).is_ok_and(|parsed| parsed.properties().next().is_some());
        if !names_arguments {
            entry.warn(format!(
                "`concurrency_key`: `{text}` has no argument in it, so all calls have the same value: write for example \"{{branch}}\", or leave it out"
            ));
        }
        Some(text)
    });
    let unique = section.optional("unique", template);
    let priority = section.get_or("priority", Priority::default(), read_priority);
    let start_rate = section.optional("start_rate", read_start_rate);
    Some(QueueSettings {
        concurrency: concurrency?,
        concurrency_key: concurrency_key?,
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
