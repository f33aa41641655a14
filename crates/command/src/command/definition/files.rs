//! Arguments that a command gets as files.

use super::argument_error::CommandArgumentError;
use crate::command::attempt_dir::ArgumentFile;
use std::{cell::RefCell, collections::BTreeMap, path::Path};

/// The files that the templates of a call have asked for so far, by property.
pub(crate) struct ArgumentFiles<'a> {
    folder: &'a Path,
    files: RefCell<BTreeMap<String, ArgumentFile>>,
}

impl<'a> ArgumentFiles<'a> {
    pub(super) fn in_folder(folder: &'a Path) -> Self {
        Self {
            folder,
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
            None => format!("argument.{}", files.len() + 1),
        };
        let path = format!("{folder}/{name}");
        files.insert(property.to_owned(), ArgumentFile { name, contents });
        Ok(path)
    }

    pub(super) fn into_files(self) -> Vec<ArgumentFile> {
        self.files.into_inner().into_values().collect()
    }
}
