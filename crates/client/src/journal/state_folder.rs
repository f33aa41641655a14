//! Where the programs of a user keep what they share.

use std::{ffi::OsString, path::PathBuf};

/// The folder of the calls and tokens of this user: `$XDG_STATE_HOME/longhaul/.client`, or the same in `~/.local/state`. `None` if neither `XDG_STATE_HOME` nor
/// `HOME` is set to an absolute path.
pub fn state_folder() -> Option<PathBuf> {
    folder_of(|name| std::env::var_os(name))
}

fn folder_of(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let absolute = |name| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let state = absolute("XDG_STATE_HOME").or_else(|| Some(absolute("HOME")?.join(".local/state")))?;
    Some(state.join("longhaul/.client"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_in_the_users_state_directory() {
        let folder = |state: Option<&str>, home: Option<&str>| {
            folder_of(|name| match name {
                "XDG_STATE_HOME" => state.map(Into::into),
                "HOME" => home.map(Into::into),
                _ => None,
            })
        };
        let in_home = Some(PathBuf::from("/home/a/.local/state/longhaul/.client"));
        assert_eq!(folder(None, Some("/home/a")), in_home);
        assert_eq!(folder(Some("relative"), Some("/home/a")), in_home);
        let elsewhere = Some(PathBuf::from("/state/longhaul/.client"));
        assert_eq!(folder(Some("/state"), Some("/home/a")), elsewhere);
        for home in [None, Some(""), Some("relative")] {
            assert_eq!(folder(None, home), None);
        }
    }
}
