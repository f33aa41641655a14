//! A machine on which no process can be started.

use super::{
    AttackError,
    report::Report,
    shim::Call,
    site::{Programs, Site, end_of},
};
use crate::{
    clock,
    mcp::{Era, Outcome},
};
use rustix::io::Errno;
use serde_json::json;
use std::time::Duration;

/// How long no process can be started.
const SHORTAGE: Duration = Duration::from_secs(6);

pub(super) fn run(programs: &Programs, report: &mut Report) -> Result<(), AttackError> {
    for (name, errno) in [
        ("eagain", Errno::AGAIN),
        ("enomem", Errno::NOMEM),
        ("emfile", Errno::MFILE),
    ] {
        let mut site = Site::start(programs, name, "max_running = 2")?;
        let mut client = site.client(Era::Modern);
        site.shim.fail(Call::Spawn, errno)?;
        let tasks = (0..4)
            .map(|nth| {
                let arguments = json!({"file": site.file(&format!("task-{nth}")), "seconds": 0});
                client.create("once", arguments)
            })
            .collect::<Result<Vec<_>, _>>()?;
        clock::pause(SHORTAGE);
        let (failed, folders) = (site.shim.affected_calls(Call::Spawn)?, site.attempts().len());
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
                    Ok(Outcome::Result { is_error: false, text }) if text == "over" && runs == 1 => Ok(()),
                    end => Err(format!("ended as {end:?}, and ran {runs} times")),
                },
            );
        }
        report.attempt(&format!("after {name}"), site.serves_clients());
    }
    Ok(())
}
