//! A disk that is full, slow or broken.

use super::{
    attempts::Attempts,
    site::{AttackSite, Programs, end_of},
};
use harness::{
    clock,
    mcp::{CallOutcome, ClientEra, RequestError},
    rounds::RunError,
    shim::SystemCall,
};
use rustix::io::Errno;
use serde_json::json;
use std::time::Duration;

/// How long the disk is broken.
const BROKEN: Duration = Duration::from_secs(4);
const BYTES: u64 = 400_000;

pub(super) fn run(programs: &Programs, report: &mut Attempts) -> Result<(), RunError> {
    slow(programs, report)?;
    for (name, call, errno) in [
        ("full", SystemCall::Write, Errno::NOSPC),
        ("write-error", SystemCall::Write, Errno::IO),
        ("sync-error", SystemCall::Sync, Errno::IO),
    ] {
        let mut site = AttackSite::start(programs, name, "")?;
        let mut client = site.client(ClientEra::Modern);
        let mut acknowledged = Vec::new();
        for nth in 0..8 {
            acknowledged.push((nth, create(&mut client, &site, nth)?));
        }
        site.shim.fail(call, errno)?;
        for nth in 8..16 {
            match create(&mut client, &site, nth) {
                Ok(task) => acknowledged.push((nth, task)),
                Err(RequestError::Refused { .. } | RequestError::Broken(_)) => {}
                Err(error) => return Err(error.into()),
            }
        }
        clock::pause(BROKEN);
        let affected_calls = site.shim.affected_calls(call)?;
        report.check(&format!("{name}: calls that fail"), affected_calls > 0, || {
            "none did, so nothing was tested".to_owned()
        });
        site.shim.remove_faults()?;
        // The server must end after a failed fsync, and may end after the other faults.
        if !site.lives() {
            site.kill().or_else(|error| match error {
                harness::server::ServerError::Ended { .. } => Ok(()),
                error => Err(error),
            })?;
            site.serve(&[])?;
            client = site.client(ClientEra::Modern);
        }
        for (nth, task) in &acknowledged {
            let end = end_of(&mut client, task);
            let runs = site.lines(&format!("task-{nth}"));
            report.attempt(
                &format!("{name}: acknowledged task {nth}"),
                match end {
                    // Any outcome will do, for example interrupted.
                    Ok(CallOutcome::Result { .. } | CallOutcome::Error { .. }) if runs <= 1 => Ok(()),
                    end => Err(format!("ended as {end:?}, and ran {runs} times")),
                },
            );
        }
        report.attempt(&format!("after {name}"), site.serves_clients());
    }
    Ok(())
}

fn create(client: &mut harness::mcp::Client, site: &AttackSite, nth: u32) -> Result<String, RequestError> {
    let file = site.file(&format!("task-{nth}"));
    client.create("once", json!({"file": file, "seconds": 1}))
}

/// No output is lost, however slow the disk is.
fn slow(programs: &Programs, report: &mut Attempts) -> Result<(), RunError> {
    let mut site = AttackSite::start(programs, "slow", "")?;
    let mut client = site.client(ClientEra::Modern);
    site.shim.delay_ms(SystemCall::Write, 50)?;
    site.shim.delay_ms(SystemCall::Sync, 50)?;
    let tasks = (0..3)
        .map(|_| client.create("letters", json!({"bytes": BYTES})))
        .collect::<Result<Vec<_>, _>>()?;
    for (nth, task) in tasks.iter().enumerate() {
        let end = end_of(&mut client, task);
        report.attempt(
            &format!("slow: the output of task {nth}"),
            match end {
                Ok(CallOutcome::Result { is_error: false, text }) if text.len() as u64 == BYTES => Ok(()),
                Ok(CallOutcome::Result { text, .. }) => Err(format!("{} of {BYTES} bytes", text.len())),
                end => Err(format!("{end:?}")),
            },
        );
    }
    site.shim.remove_faults()?;
    report.attempt("after a slow disk", site.serves_clients());
    Ok(())
}
