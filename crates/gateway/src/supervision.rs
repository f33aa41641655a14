//! Keeps the connection of the gateway to an upstream, and what is offered of it.

use crate::{
    UpstreamStatus,
    catalog::{instructions, offer_members, offer_tools, offer_with_later, unavailable},
    lists::{LONGEST_SUBSCRIBING, ListChanges, UpstreamLists},
    relay::requests,
    upstream::{Upstream, UpstreamConnection, Upstreams, loops, with_pause},
};
use longhaul_client::{RequestError, TokenError};
use longhaul_core::{Entropy, Millis, whole_millis};
use longhaul_runtime::Engine;
use std::sync::Arc;

/// How long the tools of an upstream that is down stay offered, in milliseconds. Calls of them wait for it meanwhile.
pub const KEPT_WHILE_DOWN: Millis = 60_000;
/// How often an upstream is asked whether it is there, in milliseconds.
const LOOK_EVERY: Millis = 15_000;
/// The first and the longest pause before it is dialled again, in milliseconds.
const PAUSES: (Millis, Millis) = (500, 8_000);
/// The longest one before a child is started again that has failed to start or exits at once, in milliseconds. Whoever needs it has it started at once.
const LONGEST_OF_CHILD: Millis = 60_000;
/// The longest pause that an upstream can ask for, in milliseconds.
const LONGEST_ASKED: Millis = 600_000;

/// Follows an upstream until the gateway stops.
pub(crate) async fn supervise(upstreams: Arc<Upstreams>, engine: Engine, upstream: Arc<Upstream>) {
    let clock = &upstream.ports.clock;
    // By the monotonic clock.
    let (mut down_since, mut pause) = (None, PAUSES.0);
    loop {
        let error = match connect(&upstreams, &engine, &upstream).await {
            Ok((connection, changes)) => {
                if down_since.is_some() {
                    tracing::info!(upstream = upstream.name(), "an upstream can be reached again");
                }
                (down_since, pause) = (None, PAUSES.0);
                stay(&upstreams, &engine, &upstream, &connection, changes).await
            }
            Err(error) => error,
        };
        if down_since.is_none() {
            tracing::warn!(upstream = upstream.name(), %error, "an upstream cannot be reached");
        }
        let down_for = whole_millis(
            clock
                .monotonic()
                .saturating_sub(*down_since.get_or_insert_with(|| clock.monotonic())),
        );
        let is_loop = loops::is_loop(&error);
        *upstream.failure.write() = Some(unavailable::of_upstream(upstream.name(), &error));
        unavailable::offer(&upstreams, &engine);
        let reason = with_pause(&error, error.to_string());
        let needed = upstream.needed.notified();
        upstream.status.send_replace(UpstreamStatus::Down { reason });
        pause = match is_loop {
            true => after_loop(&*upstream.ports.entropy),
            false => pause.max(asked_pause(&error)),
        };
        let is_kept = down_for < KEPT_WHILE_DOWN || lacks_own_login(&upstream, &error);
        // What leads back must not be offered for a moment longer.
        if (is_loop || !is_kept) && upstream.lists().is_some() {
            tracing::warn!(
                upstream = upstream.name(),
                "the tools of an upstream that is down are no longer offered"
            );
            offer_tools(&engine, &upstreams, &upstream, None).await;
            upstream.set_lists(None);
            offer_lists(&upstreams, &engine);
        }
        let rest = KEPT_WHILE_DOWN.saturating_sub(down_for);
        let paused = upstream.pause(match upstream.lists().is_some() && rest > 0 {
            true => pause.min(rest),
            false => pause,
        });
        tokio::select! {
            biased;
            () = needed, if upstream.is_child() => {}
            () = paused => {}
        }
        let has_not_started = matches!(
            error,
            RequestError::NotStarted { .. } | RequestError::Unreachable { .. }
        );
        pause = (pause * 2).min(match upstream.is_child() && has_not_started {
            true => LONGEST_OF_CHILD,
            false => PAUSES.1,
        });
    }
}

/// Whether only the login is missing with which the lists are read. The logins of other principals may be good, so the tools stay as they were last seen.
fn lacks_own_login(upstream: &Upstream, error: &RequestError) -> bool {
    upstream.options().target.has_login_per_principal()
        && matches!(
            error,
            RequestError::Unauthorized { .. }
                | RequestError::Token {
                    error: TokenError::LoginRequired { .. },
                    ..
                }
        )
}

/// Offers what follows from the lists of all upstreams.
pub(crate) fn offer_lists(upstreams: &Arc<Upstreams>, engine: &Engine) {
    requests::offer(upstreams, engine);
    offer_members(upstreams, engine);
    instructions::offer(upstreams, engine);
    unavailable::offer(upstreams, engine);
}

/// How long an upstream asks not to be called, within bounds: whoever runs it may have mended it before.
fn asked_pause(error: &RequestError) -> Millis {
    error.retry_after().unwrap_or_default().min(LONGEST_ASKED)
}

/// The pause before an upstream is tried again that leads back here. It is random: of two gateways in front of each other one is tried first and found to lead
/// nowhere, and the other one stays refused.
fn after_loop(entropy: &dyn Entropy) -> Millis {
    let mut random = [0; 2];
    entropy.fill(&mut random);
    LOOK_EVERY * 2 + Millis::from(u16::from_le_bytes(random))
}

/// Connects, and offers what there is.
async fn connect(
    upstreams: &Arc<Upstreams>,
    engine: &Engine,
    upstream: &Arc<Upstream>,
) -> Result<(Arc<UpstreamConnection>, ListChanges), RequestError> {
    let connection = upstream
        .connections
        .own()
        .map_err(|error| RequestError::Setup(error.to_string()))?;
    let server = connection.connection.server().await?;
    upstreams.note_silence(upstream);
    let mut changes = ListChanges::of(&connection.connection, ListChanges::filter(&server));
    // First, so that no change is missed and the lists are read once. An upstream that does not answer it is offered all the same.
    let subscribed = upstream.ports.within(LONGEST_SUBSCRIBING, changes.subscribed());
    if let Some(Err(error)) = subscribed.await {
        unless_transient(upstream, error)?;
    }
    read(upstreams, engine, upstream, &connection).await?;
    Ok((connection, changes))
}

/// Reads what the upstream offers, stores it and offers it, unless it leads back here.
async fn read(
    upstreams: &Arc<Upstreams>,
    engine: &Engine,
    upstream: &Arc<Upstream>,
    connection: &UpstreamConnection,
) -> Result<(), RequestError> {
    loops::check(upstreams, upstream).await?;
    let before = upstream.last_lists();
    let lists = UpstreamLists::read(&connection.connection, &upstream.ports, before.as_deref()).await?;
    offer_read(upstreams, engine, upstream, lists).await;
    Ok(())
}

/// Stores and offers what was read.
async fn offer_read(upstreams: &Arc<Upstreams>, engine: &Engine, upstream: &Arc<Upstream>, lists: UpstreamLists) {
    let (lists, known) = (Arc::new(lists), upstream.lists());
    let told = known.as_ref().map(|known| &known.failures);
    for (list, failure) in &lists.failures {
        if told.is_none_or(|told| !told.contains_key(list)) {
            tracing::warn!(
                upstream = upstream.name(),
                list,
                error = failure.why,
                is_asked_again = !failure.is_fatal,
                "a list of an upstream could not be read; its other lists are offered"
            );
        }
    }
    if known.as_ref() != Some(&lists) {
        let before = known.unwrap_or_default();
        upstreams.store_lists(upstream.name(), &lists);
        upstream.set_lists(Some(Arc::clone(&lists)));
        offer_lists(upstreams, engine);
        let catalog = engine.catalog();
        // What was never offered is not declared.
        let differs = |list: &str| before.members.get(list) != lists.members.get(list);
        if before.prompts != lists.prompts || differs("prompts") {
            catalog.prompt_list_changed();
        }
        if before.resources != lists.resources
            || before.templates != lists.templates
            || differs("resources")
            || differs("resourceTemplates")
        {
            catalog.resource_list_changed();
        }
    }
    offer_with_later(engine, upstreams, upstream, &lists).await;
    let tools = upstream.offered.lock().await.len();
    let no_tools = lists.failures.get("tools").filter(|_| tools == 0);
    *upstream.failure.write() = no_tools.map(|failure| unavailable::of_list(upstream.name(), &failure.why));
    unavailable::offer(upstreams, engine);
    upstream.status.send_replace(UpstreamStatus::Up { tools });
}

/// Follows changes of the upstream until it cannot be reached.
async fn stay(
    upstreams: &Arc<Upstreams>,
    engine: &Engine,
    upstream: &Arc<Upstream>,
    connection: &Arc<UpstreamConnection>,
    mut changes: ListChanges,
) -> RequestError {
    // Before lists are asked for again that could not be read.
    let mut pause = PAUSES.0;
    loop {
        let incomplete = upstream.lists().filter(|lists| lists.may_be_read_again());
        tokio::select! {
            biased;
            change = changes.next() => {
                if let Err(error) = change {
                    match unless_transient(upstream, error) {
                        Ok(()) => continue,
                        Err(error) => return error,
                    }
                }
                if let Err(error) = read(upstreams, engine, upstream, connection).await {
                    return error;
                }
            }
            () = upstream.pause(if incomplete.is_some() { pause } else { LOOK_EVERY }) => {
                if let Some(lists) = incomplete {
                    pause = (pause * 2).min(LOOK_EVERY);
                    let lists = lists.read_failed(&connection.connection).await;
                    offer_read(upstreams, engine, upstream, lists).await;
                }
                upstream.connections.close_idle(connection).await;
                match connection.check().await {
                    // One that does one thing at a time answers after its call.
                    Err(RequestError::TimedOut { .. }) if !connection.is_idle() => continue,
                    Err(error) => return error,
                    Ok(()) => {}
                }
                if let Err(error) = loops::check(upstreams, upstream).await {
                    return error;
                }
            }
        }
    }
}

/// Goes on without notifications after an error that will not pass.
fn unless_transient(upstream: &Upstream, error: RequestError) -> Result<(), RequestError> {
    if error.is_transient() {
        return Err(error);
    }
    tracing::debug!(upstream = upstream.name(), %error, "an upstream does not notify of changes");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_upstream_is_left_alone_for_as_long_as_it_asks() {
        let asks = |retry_after| {
            asked_pause(&RequestError::Http {
                status: 429,
                body: String::new(),
                retry_after,
            })
        };
        assert_eq!(asks(None), 0);
        assert_eq!(asks(Some(30_000)), 30_000);
        assert_eq!(asks(Some(Millis::MAX)), LONGEST_ASKED);
    }
}
