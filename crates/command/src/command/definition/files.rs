//! Arguments that a command gets as files.

use super::argument_error::CommandArgumentError;
use crate::command::attempt_dir::{ArgumentFile, secret_input::SECRET_FILE};
use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

/// The files that the templates of a call have asked for so far, by property.
pub(crate) struct ArgumentFiles<'a> {
    folder: &'a Path,
    secrets: &'a BTreeSet<String>,
    files: RefCell<BTreeMap<String, ArgumentFile>>,
}

impl<'a> ArgumentFiles<'a> {
    pub(super) fn in_folder(folder: &'a Path, secrets: &'a BTreeSet<String>) -> Self {
        Self {
            folder,
            secrets,
            files: RefCell::default(),
        }
    }

    /// The absolute path of the property's file, which will hold `contents`.
    pub(super) fn path(&self, property: &str, contents: String) -> Result<String, CommandArgumentError> {
        let Some(folder) = self.folder.to_str() else {
            return Err(CommandArgumentError::UnnamableFolder(property.to_owned()));
        };
        let mut files = self.files.borrow_mut();
        // A number, since a property may have any name.
        let name = match files.get(property) {
            Some(file) => file.name.clone(),
            None if self.secrets.contains(property) => format!("{SECRET_FILE}{}", files.len() + 1),
            None => format!("argument.{}", files.len() + 1),
        };
        let path = format!("{folder}/{name}");
        files.insert(property.to_owned(), ArgumentFile { name, contents });
        Ok(path)
    }

    /// Those that may be in the folder from the beginning, and those with secrets.
    pub(super) fn into_files(self) -> (Vec<ArgumentFile>, Vec<ArgumentFile>) {
        let (secret, plain): (Vec<_>, Vec<_>) =
            (self.files.into_inner().into_iter()).partition(|(property, _)| self.secrets.contains(property));
        let files = |files: Vec<(String, ArgumentFile)>| files.into_iter().map(|(_, file)| file).collect();
        (files(plain), files(secret))
    }
}
