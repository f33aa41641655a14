//! `longhaul service uninstall`

use super::{ServiceError, Target, agreed, systemd::Scope, unit_of};
use crate::{
    args::ServiceChange,
    output::{self, shell_word::shell_word},
};
use serde_json::json;
use std::{fs, path::Path, process::ExitCode};

pub(super) fn run(change: &ServiceChange) -> Result<ExitCode, ServiceError> {
    let target = Target::of(&change.of)?;
    let installed = target.installed(&change.of)?.ok_or_else(|| target.not_installed())?;
    let unit = unit_of(&installed.path);
    let is_done = !change.dry_run && (change.yes || !change.of.json);
    let path = installed.path.display();
    if is_done {
        target.needs_systemd()?;
        if target.scope == Scope::System && !rustix::process::geteuid().is_root() {
            return Err(ServiceError::NotRoot);
        }
        let shown = format!(
            "{unit} is stopped and removed ({path}). Its data stay, and running commands go on.\n{}",
            how_to_cancel(&target.file)
        );
        agreed(change.yes, &shown, &format!("Uninstall {unit}?"))?;
        target.scope.control(&["disable", "--now", &unit])?;
        fs::remove_file(&installed.path).map_err(|error| ServiceError::File {
            path: path.to_string(),
            error,
        })?;
        target.scope.control(&["daemon-reload"])?;
        // One that had not failed is not known any more.
        let _ = target.scope.control(&["reset-failed", &unit]);
    }
    let data_dir = target.data_dir();
    if change.of.json {
        output::json_line(&json!({
            "unit": unit,
            "path": path.to_string(),
            "file": target.file.display().to_string(),
            "dataDir": data_dir,
            "removed": is_done,
        }));
        return Ok(ExitCode::SUCCESS);
    }
    if !is_done {
        output::note(&format!(
            "{unit} would be stopped, and {path} removed; nothing was changed"
        ));
        return Ok(ExitCode::SUCCESS);
    }
    let mut text = format!("{unit} is uninstalled. Commands that were running go on.\n");
    if let Some(data_dir) = data_dir {
        text.push_str(&format!(
            "  data stay in {}: tasks, logs, results and keys\n",
            data_dir.display()
        ));
    }
    let changes = installed.path.with_extension("service.d");
    if changes.exists() {
        text.push_str(&format!("  your changes of the unit stay in {}\n", changes.display()));
    }
    output::text(&text);
    Ok(ExitCode::SUCCESS)
}

fn how_to_cancel(file: &Path) -> String {
    let file = shell_word(&file.display().to_string());
    format!("If they are to end, cancel them before: longhaul admin cancel {file} --all --state live")
}
