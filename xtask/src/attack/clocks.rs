//! A system clock that is set while the server runs.

use super::{
    attempts::Attempts,
    site::{AttackSite, Programs, end_of},
};
use harness::{
    clock,
    mcp::{CallOutcome, Client, ClientEra, RequestError},
    rounds::RunError,
};
use serde_json::json;
use std::time::Duration;

const HOUR: i64 = 3_600;

pub(super) fn run(programs: &Programs, report: &mut Attempts) -> Result<(), RunError> {
    for (name, seconds) in [("back", -HOUR), ("forward", HOUR), ("back-a-day", -24 * HOUR)] {
        let settings = "[server.limits]\nrequests_per_second = 100";
        let mut site = AttackSite::start(programs, name, settings)?;
        let mut client = site.client(ClientEra::Modern);
        let mut tasks = Vec::new();
        for nth in 0..4 {
            tasks.push((
                format!("queued {nth}"),
                client.create("queued", json!({"seconds": 0.5}))?,
            ));
        }
        let retried = json!({"file": site.file("retried")});
        tasks.push(("retried".to_owned(), client.create("retried", retried)?));
        site.shim.shift_clock(seconds)?;
        // The rate limit must not depend on the system clock.
        let polled = polls(&mut client, &tasks[0].1);
        report.attempt(&format!("{name}: polls"), polled);
        tasks.push((
            "created after".to_owned(),
            client.create("queued", json!({"seconds": 0}))?,
        ));
        for (what, task) in &tasks {
            let end = retry_if_limited(|| end_of(&mut client, task));
            report.attempt(
                &format!("{name}: {what}"),
                match end {
                    Ok(CallOutcome::Result { is_error: false, .. }) => Ok(()),
                    end => Err(format!("ended as {end:?}")),
                },
            );
        }
        report.attempt(&format!("after {name}"), site.serves_clients());
        // After the restart the clock is behind the times in the database.
        let task = client.create("queued", json!({"seconds": 1}))?;
        let behind = client.create("queued", json!({"seconds": 0}))?;
        site.kill()?;
        site.shim.shift_clock(0)?;
        site.serve(&[])?;
        let mut client = site.client(ClientEra::Modern);
        for (what, task) in [("running", &task), ("queued", &behind)] {
            let end = end_of(&mut client, task);
            report.check(
                &format!("{name}: {what} over a restart with the clock set right"),
                matches!(end, Ok(CallOutcome::Result { is_error: false, .. })),
                || format!("ended as {end:?}"),
            );
        }
    }
    Ok(())
}

/// Polls more often than a burst allows, at half of the limit's rate.
fn polls(client: &mut Client, task: &str) -> Result<(), String> {
    for _ in 0..250 {
        retry_if_limited(|| client.get(task)).map_err(|error| format!("{error:?}"))?;
        clock::pause(Duration::from_millis(20));
    }
    Ok(())
}

/// Retries a request that was refused by the rate limit, unless the wait is longer than this limit can require.
fn retry_if_limited<T>(mut ask: impl FnMut() -> Result<T, RequestError>) -> Result<T, RequestError> {
    loop {
        match ask() {
            Err(RequestError::Refused { data, .. })
                if data["retryAfterMs"].as_u64().is_some_and(|wait| wait <= 5_000) =>
            {
                clock::pause(Duration::from_millis(data["retryAfterMs"].as_u64().unwrap_or_default()));
            }
            other => return other,
        }
    }
}
