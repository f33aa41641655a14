//! What the parameters of a request mean: the same in the API, on the page and in the command.

use crate::words::{LEGACY, MODERN, state_word};
use longhaul_admin_api::{TaskQuery, labels};
use longhaul_core::{
    Millis, Now, Origin, Principal, State, TaskId, UnixMillis, Verdict, parse_duration, plain_line,
    store::{SearchOrder, TaskFilter, TaskSearch},
};
use std::{ops::RangeBounds, str::FromStr};

/// Tasks of a page, unless `limit` says otherwise, and at most.
const LIMIT: usize = 50;
pub(crate) const MOST: usize = 500;
/// Tasks that are looked at for a page.
pub(crate) const MOST_EXAMINED: usize = 20_000;

const LABELS: &str = "a name and a value, such as team=infra, or several with commas between them";

/// Every state.
pub(crate) const STATES: [State; 8] = [
    State::Queued,
    State::Running,
    State::Suspended,
    State::Blocked,
    State::Done(Verdict::Succeeded),
    State::Done(Verdict::ToolError),
    State::Done(Verdict::RpcError),
    State::Done(Verdict::Cancelled),
];

/// A parameter that makes no sense.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{name}` cannot be {value:?}: it must be {must_be}")]
pub struct InvalidQuery {
    /// The parameter.
    pub name: &'static str,
    /// What it was.
    pub value: String,
    /// What would be right.
    pub must_be: &'static str,
}

/// The parts that restrict what is found, and their names.
pub(crate) fn filter(query: &TaskQuery) -> Vec<(&'static str, String)> {
    let fields = [
        ("state", &query.state),
        ("tool", &query.tool),
        ("upstream", &query.upstream),
        ("principal", &query.principal),
        ("client", &query.origin),
        ("parent", &query.parent),
        ("label", &query.label),
        ("asks", &query.asks),
        ("text", &query.text),
        ("older than", &query.older),
        ("younger than", &query.younger),
    ];
    let given = fields.into_iter().filter(|(_, value)| !value.is_empty());
    given.map(|(name, value)| (name, plain_line(value))).collect()
}

/// The search that it asks for at this time. Which tools `upstream` has is not known here: see [`AdminContext::search`](crate::context::AdminContext::search).
///
/// # Errors
/// [`InvalidQuery`] for the first parameter that makes no sense.
pub(crate) fn search(query: &TaskQuery, now: Now) -> Result<TaskSearch, InvalidQuery> {
    let filter = TaskFilter {
        principal: given(&query.principal).map(Principal::named),
        tool: given(&query.tool).map(Into::into),
        tools: None,
        states: states(&query.state)?,
        origin: match query.origin.as_str() {
            "" => None,
            LEGACY => Some(Origin::Legacy),
            MODERN => Some(Origin::Modern),
            _ => return Err(invalid("origin", &query.origin, "legacy or modern")),
        },
        parent: id("parent", &query.parent)?,
        labels: labels(&query.label).map_err(|_| invalid("label", &query.label, LABELS))?,
        asks: match query.asks.as_str() {
            "" if query.state.trim() == ASKING => true,
            "" | "no" | "false" => false,
            "yes" | "true" | "on" => true,
            _ => return Err(invalid("asks", &query.asks, "yes or no")),
        },
        since: age("younger", &query.younger, now)?,
        before: age("older", &query.older, now)?.map(|at| UnixMillis(at.0.saturating_add(1))),
        text: given(&query.text).map(str::to_owned),
    };
    Ok(TaskSearch {
        filter,
        order: match query.order.as_str() {
            "" | "newest" => SearchOrder::NewestFirst,
            "oldest" => SearchOrder::OldestFirst,
            _ => return Err(invalid("order", &query.order, "newest or oldest")),
        },
        after: id("after", &query.after)?,
        limit: number("limit", &query.limit, 1..=MOST, "a number from 1 to 500")?.unwrap_or(LIMIT),
        most_examined: MOST_EXAMINED,
    })
}

fn given(text: &str) -> Option<&str> {
    Some(text.trim()).filter(|text| !text.is_empty())
}

pub(crate) fn invalid(name: &'static str, value: &str, must_be: &'static str) -> InvalidQuery {
    InvalidQuery {
        name,
        value: value.to_owned(),
        must_be,
    }
}

/// The word of clients for live tasks with an open question.
const ASKING: &str = "asking";

/// The states that a text names; none if it is for all.
pub(crate) fn states(text: &str) -> Result<Vec<State>, InvalidQuery> {
    const WORDS: &str = "queued, running, suspended, blocked, succeeded, failed, cancelled, live or ended, or several of them with commas between them; or asking alone";
    let mut wanted = Vec::new();
    for word in text.split(',').map(str::trim).filter(|word| !word.is_empty()) {
        let means = |state: &State| match word {
            "live" => !matches!(state, State::Done(_)),
            ASKING if text.trim() == ASKING => !matches!(state, State::Done(_)),
            "ended" => matches!(state, State::Done(_)),
            word => state_word(*state) == word,
        };
        let before = wanted.len();
        wanted.extend(STATES.iter().copied().filter(means));
        if wanted.len() == before {
            return Err(invalid("state", word, WORDS));
        }
    }
    Ok(wanted)
}

/// The id of a task. A part of one, or another word, would find nothing and not say why.
pub(crate) fn id(name: &'static str, text: &str) -> Result<Option<TaskId>, InvalidQuery> {
    let Some(text) = given(text) else { return Ok(None) };
    whole_id(text)
        .map(Some)
        .ok_or_else(|| invalid(name, text, "the whole id of a task"))
}

/// The id, unless it is a part of one or another word.
pub(crate) fn whole_id(text: &str) -> Option<TaskId> {
    let id: Option<TaskId> = text.parse().ok();
    id.filter(|id| is_whole(id.as_str()))
}

/// Whether it has the form of the ids that servers make: 36 digits of Crockford's base 32 in lower case.
fn is_whole(id: &str) -> bool {
    let is_digit = |byte: u8| byte.is_ascii_digit() || (byte.is_ascii_lowercase() && !b"ilou".contains(&byte));
    id.len() == 36 && id.bytes().all(is_digit)
}

/// A number, if one is given.
pub(crate) fn number<N: FromStr + PartialOrd>(
    name: &'static str,
    text: &str,
    range: impl RangeBounds<N>,
    must_be: &'static str,
) -> Result<Option<N>, InvalidQuery> {
    let Some(text) = given(text) else { return Ok(None) };
    let number = text.parse().ok().filter(|number| range.contains(number));
    number.map(Some).ok_or_else(|| invalid(name, text, must_be))
}

/// A span of time, in milliseconds; `None` if none is given.
pub(crate) fn span(name: &'static str, text: &str) -> Result<Option<Millis>, InvalidQuery> {
    let Some(text) = given(text) else { return Ok(None) };
    let span = parse_duration(text).map_err(|_| invalid(name, text, "a duration such as 90s, 10m, 2h or 3d"))?;
    Ok(Some(span))
}

/// The time that was so long ago.
fn age(name: &'static str, text: &str, now: Now) -> Result<Option<UnixMillis>, InvalidQuery> {
    let Some(age) = span(name, text)? else { return Ok(None) };
    let age = i64::try_from(age).unwrap_or(i64::MAX);
    Ok(Some(UnixMillis(now.at.0.saturating_sub(age))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn search(change: impl FnOnce(&mut TaskQuery)) -> Result<TaskSearch, InvalidQuery> {
        let mut query = TaskQuery::default();
        change(&mut query);
        let at = UnixMillis(10_000_000);
        super::search(&query, Now { at, offset: 0 })
    }

    #[test]
    fn asking_is_a_word_for_live_tasks_with_a_question() {
        let asking = search(|query| query.state = "asking".into()).unwrap().filter;
        let live = search(|query| (query.state, query.asks) = ("live".into(), "yes".into()))
            .unwrap()
            .filter;
        assert_eq!((&asking.states, asking.asks), (&live.states, live.asks));
        assert!(search(|query| query.state = "asking,failed".into()).is_err());
    }

    #[test]
    fn words_stand_for_states() {
        let states = |text: &str| search(|query| query.state = text.to_owned()).map(|search| search.filter.states);
        assert_eq!(states("").unwrap(), []);
        assert_eq!(states("queued, blocked").unwrap(), [State::Queued, State::Blocked]);
        assert_eq!(
            states("failed").unwrap(),
            [State::Done(Verdict::ToolError), State::Done(Verdict::RpcError)]
        );
        assert_eq!(
            states("live").unwrap().len() + states("ended").unwrap().len(),
            STATES.len()
        );
        let error = states("queued,runing").unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with("`state` cannot be \"runing\": it must be queued,"),
            "{error}"
        );
    }

    #[test]
    fn ages_count_back_from_now() {
        let found = search(|query| {
            query.older = "1h".to_owned();
            query.younger = "2h".to_owned();
        });
        let filter = found.unwrap().filter;
        assert_eq!(filter.before, Some(UnixMillis(6_400_001)), "an hour old, or more");
        assert_eq!(filter.since, Some(UnixMillis(2_800_000)));
        assert_eq!(
            search(|query| query.older = "long".to_owned()).unwrap_err().name,
            "older"
        );
    }

    #[test]
    fn what_makes_no_sense_is_named() {
        let name = |change: fn(&mut TaskQuery)| search(change).unwrap_err().name;
        assert_eq!(name(|query| query.limit = "501".into()), "limit");
        assert_eq!(name(|query| query.limit = "0".into()), "limit");
        assert_eq!(name(|query| query.after = "a b".into()), "after");
        assert_eq!(name(|query| query.after = "garbage".into()), "after");
        assert_eq!(name(|query| query.parent = "01m8514byrekt12".into()), "parent");
        assert_eq!(name(|query| query.origin = "old".into()), "origin");
        assert_eq!(name(|query| query.order = "up".into()), "order");
        assert_eq!(name(|query| query.asks = "maybe".into()), "asks");
        assert_eq!(name(|query| query.label = "infra".into()), "label");
    }
}
