//! `longhaul service status`

use super::{NOT_INSTALLED, NOT_RUNNING, ServiceError, Target, unit_of};
use crate::{args::ServiceOf, output};
use serde_json::json;
use std::process::ExitCode;

pub(super) fn run(of: &ServiceOf) -> Result<ExitCode, ServiceError> {
    let target = Target::of(of)?;
    let Some(installed) = target.installed(of)? else {
        if of.json {
            output::json_line(
                &json!({"file": target.file.display().to_string(), "installed": false, "running": false}),
            );
        } else {
            output::text(&target.not_installed().to_string());
            if let Some(why) = target.scope.absence() {
                output::note(&format!("longhaul: {why}"));
            }
        }
        return Ok(ExitCode::from(NOT_INSTALLED));
    };
    let unit = unit_of(&installed.path);
    let absence = target.scope.absence();
    let state = match &absence {
        None => target.scope.state(&unit)?,
        Some(_) => super::systemd::UnitState::default(),
    };
    let log = target.scope.log_command(&unit);
    if of.json {
        output::json_line(&json!({
            "unit": unit,
            "path": installed.path.display().to_string(),
            "file": target.file.display().to_string(),
            "installed": true,
            "enabled": state.is_enabled(),
            "running": state.runs(),
            "state": state.active,
            "since": state.since.as_ref().filter(|_| state.runs()),
            "pid": state.pid,
            "dataDir": target.data_dir(),
            "log": log,
            "problem": absence,
        }));
    } else {
        let standing = match (&absence, state.runs()) {
            (Some(why), _) => format!("does not run: {why}"),
            (None, false) => format!("does not run: it is {} ({})", state.active, state.sub),
            (None, true) => {
                let since = state.since.as_ref().map(|since| format!(" since {since}"));
                let pid = state.pid.map(|pid| format!(", process {pid}"));
                format!("runs{}{}", since.unwrap_or_default(), pid.unwrap_or_default())
            }
        };
        let at_boot = match (&absence, state.is_enabled()) {
            (Some(_), _) => "",
            (None, true) => ", and starts by itself",
            (None, false) => ", and does not start by itself (systemctl enable)",
        };
        let mut text = format!("{unit} {standing}{at_boot}\n  file  {}\n", target.file.display());
        if let Some(data_dir) = target.data_dir() {
            text.push_str(&format!("  data  {}\n", data_dir.display()));
        }
        text.push_str(&format!("  unit  {}\n  log   {log}\n", installed.path.display()));
        output::text(&text);
    }
    Ok(match state.runs() {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(NOT_RUNNING),
    })
}
