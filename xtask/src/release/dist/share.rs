//! What comes with the program: manual pages, completions, documents.

use super::{DistError, at, program::PackagedProgram, source, write};
use harness::workspace;
use std::{fs, path::Path};

/// The folders below `share`, which differ between an archive and a package of Debian.
pub(super) struct Layout {
    pub(super) man: &'static str,
    pub(super) bash: &'static str,
    pub(super) zsh: &'static str,
    pub(super) fish: &'static str,
}

/// Writes the manual pages and the completions below a folder.
pub(super) fn write_pages(packaged: &PackagedProgram, layout: &Layout, share: &Path) -> Result<(), DistError> {
    let man = share.join(layout.man);
    fs::create_dir_all(&man).map_err(at(&man))?;
    packaged.prints(&["man", "--dir", &man.to_string_lossy()])?;
    for (shell, file) in [("bash", layout.bash), ("zsh", layout.zsh), ("fish", layout.fish)] {
        write(&share.join(file), &packaged.prints(&["completions", shell])?)?;
    }
    Ok(())
}

/// Copies files of the repository into a folder.
pub(super) fn copy_sources(sources: &[&str], folder: &Path) -> Result<(), DistError> {
    for path in sources {
        let name = path.rsplit('/').next().unwrap_or(path);
        write(&folder.join(name), source(path)?.as_bytes())?;
    }
    Ok(())
}

/// Writes the pages for users into a folder.
pub(super) fn copy_documents(folder: &Path) -> Result<(), DistError> {
    let docs = workspace::root().join("docs");
    for entry in fs::read_dir(&docs).map_err(at(&docs))? {
        let page = entry.map_err(at(&docs))?.path();
        if page.extension().is_some_and(|extension| extension == "md") {
            let name = page.file_name().unwrap_or_default();
            write(&folder.join(name), &fs::read(&page).map_err(at(&page))?)?;
        }
    }
    Ok(())
}
