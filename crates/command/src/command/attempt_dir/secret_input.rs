//! What the supervisor of an attempt is given by a pipe, since it must not be in the folder.

use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeMap,
    fmt,
    io::{self, Read, Write},
};

/// What the names of files with secrets begin with: those the supervisor writes for its command, and removes when that has ended.
pub(in crate::command) const SECRET_FILE: &str = "secret.";

/// What a command gets of secret arguments.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SecretInput {
    /// Variables.
    pub env: BTreeMap<String, String>,
    /// All of the standard input, if there is a secret in it.
    pub stdin: Option<String>,
    /// Files of the attempt's folder, by their names.
    pub files: BTreeMap<String, String>,
}

/// Shows nothing of it.
impl fmt::Debug for SecretInput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretInput")
    }
}

impl SecretInput {
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    pub(in crate::command) fn to_bytes(&self) -> io::Result<Vec<u8>> {
        Ok(serde_json::to_vec(self)?)
    }

    /// Reads it to the end of the pipe.
    ///
    /// # Errors
    /// Also if the server has died before it had written all of it.
    pub(in crate::command) fn read(pipe: impl Read) -> io::Result<Self> {
        let mut bytes = Vec::new();
        { pipe }.read_to_end(&mut bytes)?;
        // The words of the parser could show a part of it.
        serde_json::from_slice(&bytes).map_err(|_| io::Error::other("the secret arguments did not arrive whole"))
    }
}

/// A pipe that holds `text`, to be the standard input of a command.
pub(in crate::command) fn pipe_with(text: String) -> io::Result<std::io::PipeReader> {
    let (reader, mut writer) = std::io::pipe()?;
    let write = move || {
        // A command need not read it.
        let _ = writer.write_all(text.as_bytes());
    };
    std::thread::Builder::new()
        .name("stdin".into())
        .stack_size(64 * 1024)
        .spawn(write)?;
    Ok(reader)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_cut_off_is_refused_and_not_shown() {
        let input = SecretInput {
            env: [("TOKEN".to_owned(), "hunter2".to_owned())].into(),
            ..SecretInput::default()
        };
        let bytes = input.to_bytes().unwrap();
        assert_eq!(SecretInput::read(&*bytes).unwrap(), input);
        for end in 0..bytes.len() {
            let error = SecretInput::read(&bytes[..end]).unwrap_err().to_string();
            assert!(!error.contains("hunter"), "{error}");
        }
        assert_eq!(format!("{input:?}"), "SecretInput");
    }
}
