//! A machine on which no process can be started.

use super::{
    attempts::Attempts,
    site::{AttackSite, Programs, end_of},
};
use harness::{
    clock,
    mcp::{CallOutcome, ClientEra},
    rounds::RunError,
    shim::SystemCall,
};
use rustix::io::Errno;
use serde_json::json;
use std::time::Duration;

/// How long no process can be started.
const SHORTAGE: Duration = Duration::from_secs(6);

pub(super) fn run(programs: &Programs, report: &mut Attempts) -> Result<(), RunError> {
    for (name, errno) in [
        ("eagain", Errno::AGAIN),
        ("enomem", Errno::NOMEM),
        ("emfile", Errno::MFILE),
    ] {
        let mut site = AttackSite::start(programs, name, "max_running = 2")?;
        let mut client = site.client(ClientEra::Modern);
        site.shim.fail(SystemCall::Spawn, errno)?;
        let tasks = (0..4)
            .map(|nth| {
                let arguments = json!({"file": site.file(&format!("task-{nth}")), "seconds": 0});
                client.create("once", arguments)
            })
            .collect::<Result<Vec<_>, _>>()?;
        clock::pause(SHORTAGE);
        let (failed, folders) = (site.shim.affected_calls(SystemCall::Spawn)?, site.attempts().len());
        report.check(&format!("{name}: forks that fail"), failed > 0, || {
            "none did, so nothing was tested".to_owned()
        });
        report.check(&format!("{name}: tries"), failed < 24, || {
            format!("{failed} in {} s: no backoff", SHORTAGE.as_secs())
        });
        report.check(&format!("{name}: folders"), folders <= tasks.len(), || {
            format!("{folders} for {} tasks", tasks.len())
        });
        site.shim.remove_faults()?;
        for (nth, task) in tasks.iter().enumerate() {
            let end = end_of(&mut client, task);
            let runs = site.lines(&format!("task-{nth}"));
            report.attempt(
                &format!("{name}: task {nth}"),
                match end {
                    Ok(CallOutcome::Result { is_error: false, text }) if text == "over" && runs == 1 => Ok(()),
                    end => Err(format!("ended as {end:?}, and ran {runs} times")),
                },
            );
        }
        report.attempt(&format!("after {name}"), site.serves_clients());
    }
    Ok(())
}
