//! `longhaul service install`

use super::{
    ServiceError, Target, agreed,
    installed::{self, InstalledUnit},
    owner::Owner,
    systemd::{self, Scope},
    unit::{Manager, Unit},
    unit_of,
};
use crate::{
    args::ServiceChange,
    check::{self, CheckedConfig},
    config::{self, Config, Environment},
    operate::admin,
    output::{self, shell_word::shell_word},
};
use longhaul_client::SystemClock;
use longhaul_core::{Clock as _, plain_line};
use longhaul_store::DirectoryReport;
use serde_json::json;
use std::{
    env, fs, io,
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

/// How long a server may take until it answers.
const START_TIMEOUT: Duration = Duration::from_secs(30);
const INTERVAL: Duration = Duration::from_millis(100);
/// As many lines of its log are shown if it does not.
const LOG_LINES: u32 = 20;
/// Folders whose programs are removed without being asked.
const CACHES: [&str; 3] = ["/_npx/", "/.cache/uv/", "/uv/cache/"];

/// Variables that each service has.
const SET_BY_SYSTEMD: [&str; 5] = ["HOME", "LOGNAME", "PATH", "SHELL", "USER"];
/// Variables that override the file, and may have a password: they are not written into a unit.
const STORES: [&str; 2] = ["LONGHAUL_STORE", "LONGHAUL_STORE_DIRECT"];

/// What is to be done.
struct Plan {
    target: Target,
    path: PathBuf,
    text: String,
    /// The unit that is there already.
    before: Option<InstalledUnit>,
    config: Config,
    /// As whom it runs, if that is not said by the manager.
    user: Option<String>,
}

pub(super) fn run(change: &ServiceChange) -> Result<ExitCode, ServiceError> {
    let plan = Plan::make(change)?;
    if change.dry_run || (change.of.json && !change.yes) {
        match change.of.json {
            true => plan.print_json(false, None),
            false => {
                output::text(&plan.text);
                output::note(&format!("this would be {}; nothing was changed", plan.path.display()));
                if let Err(error) = plan.target.needs_systemd() {
                    output::note(&format!("warning: {error}"));
                }
            }
        }
        return Ok(ExitCode::SUCCESS);
    }
    plan.target.needs_systemd()?;
    if plan.target.scope == Scope::System && !rustix::process::geteuid().is_root() {
        return Err(ServiceError::NotRoot);
    }
    let unit = unit_of(&plan.path);
    let was_running = plan.target.scope.state(&unit)?.runs();
    plan.refuse_other_server(was_running)?;
    let is_new = plan.is_new();
    if is_new {
        let (shown, question) = plan.question();
        agreed(change.yes, &shown, &question)?;
        installed::write(&plan.path, &plan.text).map_err(|error| ServiceError::File {
            path: plan.path.display().to_string(),
            error,
        })?;
    }
    let scope = plan.target.scope;
    scope.control(&["daemon-reload"])?;
    scope.control(&["enable", "--now", &unit])?;
    if is_new && was_running {
        scope.control(&["restart", &unit])?;
    }
    plan.wait_until_it_answers(&unit)?;
    let lingers = match scope {
        Scope::User => systemd::lingers(),
        Scope::System => None,
    };
    match change.of.json {
        true => plan.print_json(true, lingers),
        false => plan.report(&unit, is_new, lingers),
    }
    Ok(ExitCode::SUCCESS)
}

impl Plan {
    fn make(change: &ServiceChange) -> Result<Self, ServiceError> {
        let target = Target::of(&change.of)?;
        let shown = target.file.display().to_string();
        let program = this_program().map_err(ServiceError::Program)?;
        let (config, manager) = match target.scope {
            Scope::User => {
                let environment = Environment::of_this_process();
                let config = config::load(&target.file, &environment).map_err(ServiceError::Config)?;
                (config, Manager::User { variables: variables() })
            }
            Scope::System => {
                let owner = Owner::of(&target.file)?;
                if let Some(why) = owner.unreachable(&program) {
                    output::note(&format!("warning: {why}"));
                }
                if owner.id == 0 {
                    output::note(&format!(
                        "warning: the service will run as root, with all commands of its tools: {} belongs to root",
                        owner.config.server.data_dir.display()
                    ));
                }
                let manager = Manager::System {
                    writable: owner.writable()?,
                    user: owner.name,
                };
                (owner.config, manager)
            }
        };
        warn_of_variables(&target.file);
        // As root nothing of another user's file is started.
        let is_offline = target.scope == Scope::System || change.dry_run;
        let CheckedConfig { config, warnings } = check::look(config, is_offline).map_err(|problems| {
            let problems = problems
                .iter()
                .map(|problem| plain_line(&format!("{shown}: {problem}")));
            ServiceError::Refused(problems.collect())
        })?;
        check::warn(&shown, &config.warnings);
        for warning in warnings {
            output::note(&plain_line(&format!("warning: {shown}: {warning}")));
        }
        if let Some(cache) = CACHES.iter().find(|cache| program.to_string_lossy().contains(*cache)) {
            output::note(&format!(
                "warning: this program, {}, is in a cache ({cache}) that may be emptied: install it, and run that",
                program.display()
            ));
        }
        let before = target.installed(&change.of)?;
        let name = change.of.name.as_ref().unwrap_or(&config.server.name);
        let (path, before) = match before {
            Some(before) => (before.path.clone(), Some(before)),
            // One of the name may be for another file.
            None => {
                let path = target.path(name);
                let found = InstalledUnit::read(&path).map_err(|error| ServiceError::File {
                    path: path.display().to_string(),
                    error,
                })?;
                (path, found.map(|found| target.own(found)).transpose()?)
            }
        };
        let unit = Unit {
            name: &config.server.name,
            program: &program,
            file: &target.file,
            manager: &manager,
        };
        Ok(Self {
            text: unit.text()?,
            user: match manager {
                Manager::User { .. } => None,
                Manager::System { user, .. } => Some(user),
            },
            target,
            path,
            before,
            config,
        })
    }

    fn is_new(&self) -> bool {
        self.before.as_ref().is_none_or(|before| before.text != self.text)
    }

    /// What is shown before anything is done, and what is asked.
    fn question(&self) -> (String, String) {
        let path = self.path.display();
        match &self.before {
            None => (
                format!("{path}:\n\n{}", self.text),
                format!("Install {path}, and start it?"),
            ),
            Some(before) => (
                format!("{path}:\n{}", installed::difference(&before.text, &self.text)),
                format!("Change {path}, and restart it? Running commands go on."),
            ),
        }
    }

    /// Another server would keep the data directory from the service.
    fn refuse_other_server(&self, is_running: bool) -> Result<(), ServiceError> {
        let data_dir = &self.config.server.data_dir;
        match DirectoryReport::owner(data_dir) {
            Ok(Some(owner)) if !is_running => Err(ServiceError::InUse {
                data_dir: data_dir.display().to_string(),
                owner,
            }),
            _ => Ok(()),
        }
    }

    fn wait_until_it_answers(&self, unit: &str) -> Result<(), ServiceError> {
        let scope = self.target.scope;
        let waiting = async {
            let until = SystemClock.monotonic() + START_TIMEOUT;
            loop {
                let state = scope.state(unit)?;
                if state.runs() && admin::answers(&self.config.server.data_dir).await {
                    return Ok(());
                }
                let is_late = SystemClock.monotonic() >= until;
                if state.has_failed() || is_late {
                    let state = match is_late {
                        true => format!("{unit} is {} for {} s", state.active, START_TIMEOUT.as_secs()),
                        false => format!("{unit} is {}", state.active),
                    };
                    return Err(ServiceError::NotStarted {
                        state,
                        log: scope.log(unit, LOG_LINES),
                        undo: format!(
                            "Mend that and install it again, or take it back: {}",
                            self.command("uninstall")
                        ),
                    });
                }
                SystemClock.sleep(INTERVAL).await;
            }
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.map_err(ServiceError::Runtime)?.block_on(waiting)
    }

    /// A command about this service.
    fn command(&self, what: &str) -> String {
        let scope = match self.target.scope {
            Scope::User if rustix::process::geteuid().is_root() => " --user",
            _ => "",
        };
        let file = shell_word(&self.target.file.display().to_string());
        format!("longhaul service {what} {file}{scope}")
    }

    fn url(&self) -> String {
        let server = &self.config.server;
        server.listen.url(server.tls.is_some())
    }

    fn report(&self, unit: &str, is_new: bool, lingers: Option<bool>) {
        let what = match (is_new, &self.before) {
            (false, _) => "was installed already, and runs",
            (true, None) => "is installed, and runs",
            (true, Some(_)) => "is changed, and runs",
        };
        let user = self
            .user
            .as_ref()
            .map_or_else(String::new, |user| format!(", as {user}"));
        output::text(&format!(
            "{unit} {what}{user}: `{}` serves {}\n  data    {}\n  unit    {}\n  log     {}\n  status  {}\n  reload  systemctl{} reload {unit}",
            self.config.server.name,
            self.url(),
            self.config.server.data_dir.display(),
            self.path.display(),
            self.target.scope.log_command(unit),
            self.command("status"),
            self.target.scope.typed(),
        ));
        if self.target.scope == Scope::User && lingers != Some(true) {
            output::note(
                "It runs while you are logged in. To start it at boot, and keep it after you log out: loginctl enable-linger",
            );
        }
    }

    fn print_json(&self, is_done: bool, lingers: Option<bool>) {
        let unit = unit_of(&self.path);
        output::json_line(&json!({
            "unit": unit,
            "path": self.path.display().to_string(),
            "file": self.target.file.display().to_string(),
            "user": self.user,
            "url": self.url(),
            "dataDir": self.config.server.data_dir,
            "log": self.target.scope.log_command(&unit),
            "text": self.text,
            "changed": self.is_new(),
            "written": is_done && self.is_new(),
            "running": is_done,
            "lingers": lingers,
        }));
    }
}

/// This program: as it is found in `PATH`, where an upgrade may replace it, else where it is.
fn this_program() -> io::Result<PathBuf> {
    let program = env::current_exe()?;
    let folders = env::var_os("PATH").unwrap_or_default();
    let mut named = env::split_paths(&folders)
        .filter(|folder| folder.is_absolute())
        .map(|folder| folder.join("longhaul"));
    let found = named.find(|named| fs::canonicalize(named).is_ok_and(|found| found == program));
    Ok(found.unwrap_or(program))
}

/// The variables of this shell without which the server would look elsewhere for programs and for its data.
fn variables() -> Vec<(&'static str, String)> {
    let value = |name: &'static str| {
        let value = env::var(name).ok()?;
        (!value.is_empty() && !value.chars().any(char::is_control)).then_some((name, value))
    };
    ["PATH", "XDG_STATE_HOME"].into_iter().filter_map(value).collect()
}

/// Warns of variables that the file names: a service has none of this shell.
fn warn_of_variables(file: &Path) {
    for name in STORES.iter().filter(|name| env::var_os(name).is_some()) {
        output::note(&format!(
            "warning: {name} is set in this shell, and a service has no variables of it: write the address into the file, or set it with `systemctl edit` (Environment=)"
        ));
    }
    let environment = Environment {
        variable: |name| SET_BY_SYSTEMD.contains(&name).then(|| env::var(name).ok()).flatten(),
        ..Environment::of_this_process()
    };
    let Err(error) = config::load(file, &environment) else {
        return;
    };
    for problem in &error.problems {
        output::note(&format!(
            "warning: {}; a service has no variables of this shell: set it with `systemctl edit` (Environment=)",
            problem.at(&error.file)
        ));
    }
}
