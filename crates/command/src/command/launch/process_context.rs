//! What an attempt gets besides its command line: its environment and its folder. Both are looked up as it starts.

use crate::command::definition::{CommandDefinition, Invocation, env_file::parse_env_file};
use std::{
    collections::BTreeMap,
    ffi::OsString,
    os::unix::ffi::OsStringExt,
    path::{Path, PathBuf},
};

/// What a command sees of the server's environment.
const ALLOWED_ENV: [&str; 5] = ["PATH", "HOME", "LANG", "TMPDIR", "TZ"];
/// And those that begin so: the parts of the locale.
const ALLOWED_PREFIX: &str = "LC_";

/// The environment and the folder of an attempt.
pub(in crate::command) struct ProcessContext {
    /// Variables in UTF-8.
    pub(in crate::command) env: BTreeMap<String, String>,
    /// Variables whose values are not UTF-8.
    pub(in crate::command) env_bytes: BTreeMap<String, Vec<u8>>,
    /// The folder.
    pub(in crate::command) cwd: PathBuf,
    /// The folder that `cwd` lies in, if a caller has chosen it. Both are without links.
    pub(in crate::command) cwd_within: Option<PathBuf>,
}

impl ProcessContext {
    /// Looks them up: in the environment of this process, and on disk.
    ///
    /// # Errors
    /// What is missing, for the caller to read. It shows no values.
    pub(in crate::command) fn look_up(definition: &CommandDefinition, invocation: &Invocation) -> Result<Self, String> {
        let mut variables: BTreeMap<String, OsString> = inherited().collect();
        if let Some(file) = &definition.env_file {
            let shown = file.display();
            let text = longhaul_private_dir::read_named_text(file)
                .map_err(|error| format!("{shown}, the `env_file` of this tool, cannot be read: {error}"))?;
            let read =
                parse_env_file(&text).map_err(|error| format!("{shown}, the `env_file` of this tool: {error}"))?;
            variables.extend(read.into_iter().map(|(name, value)| (name, value.into())));
        }
        for name in &definition.env_from {
            let value = std::env::var_os(name).ok_or_else(|| {
                format!(
                    "the variable {name}, which `env_from` of this tool names, is not set in the server's environment"
                )
            })?;
            variables.insert(name.clone(), value);
        }
        let own = definition.env.iter().chain(&invocation.env);
        variables.extend(own.map(|(name, value)| (name.clone(), value.into())));
        let (mut env, mut env_bytes) = (BTreeMap::new(), BTreeMap::new());
        for (name, value) in variables {
            match value.into_string() {
                Ok(text) => drop(env.insert(name, text)),
                Err(value) => drop(env_bytes.insert(name, value.into_vec())),
            }
        }
        let (cwd, cwd_within) = match &invocation.cwd {
            None => (definition.cwd.clone(), None),
            Some(folder) => {
                let (cwd, within) = resolve_within(folder, &definition.cwd)?;
                (cwd, Some(within))
            }
        };
        Ok(Self {
            env,
            env_bytes,
            cwd,
            cwd_within,
        })
    }

    /// Sets a variable to a path.
    pub(in crate::command) fn set(&mut self, name: &str, path: PathBuf) {
        match path.into_os_string().into_string() {
            Ok(text) => drop(self.env.insert(name.to_owned(), text)),
            Err(bytes) => {
                self.env.remove(name);
                self.env_bytes.insert(name.to_owned(), bytes.into_vec());
            }
        }
    }
}

/// The folder that a caller has chosen and the one that it lies in, both without links. A relative one starts from `within`.
///
/// # Errors
/// There is no such folder. Of what lies outside nothing is said, not even whether it is there.
fn resolve_within(folder: &str, within: &Path) -> Result<(PathBuf, PathBuf), String> {
    let base = within.canonicalize().map_err(|error| {
        format!(
            "{}, the `cwd_within` of this tool, cannot be entered: {error}",
            within.display()
        )
    })?;
    let resolved = base.join(folder).canonicalize();
    match resolved {
        Ok(resolved) if resolved.starts_with(&base) && resolved.is_dir() && resolved.to_str().is_some() => {
            Ok((resolved, base))
        }
        _ => Err(format!(
            "there is no folder {folder:?} within {}, where this tool runs; name one that lies there",
            within.display()
        )),
    }
}

fn inherited() -> impl Iterator<Item = (String, OsString)> {
    std::env::vars_os().filter_map(|(name, value)| {
        let name = name.into_string().ok()?;
        (ALLOWED_ENV.contains(&&*name) || name.starts_with(ALLOWED_PREFIX)).then_some((name, value))
    })
}
