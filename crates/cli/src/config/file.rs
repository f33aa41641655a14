//! A configuration file and the problems found in it.

use super::digest;
use std::{
    cell::RefCell,
    fmt,
    ops::Range,
    path::{Path, PathBuf},
};
use toml::{Spanned, de::DeTable};

/// No TOML begins with a brace or such a comment, and a file of `mcpServers` does.
const IS_JSON: &str = "this is JSON, and a configuration is TOML. `longhaul serve` and `longhaul check` read an `mcpServers` file with --mcp-config; for \
     its server other commands take the data directory, which `longhaul serve` shows when it starts";

/// A configuration file in memory. It collects all problems, so that they can be reported at once.
pub(super) struct File {
    /// Absolute.
    path: PathBuf,
    text: String,
    problems: RefCell<Vec<Problem>>,
    warnings: RefCell<Vec<Problem>>,
}

/// One mistake.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Problem {
    /// The line, from 1; `None` when something is missing from the file.
    pub(crate) line: Option<usize>,
    /// What is wrong and how to fix it.
    pub(crate) message: String,
}

/// An invalid configuration file, and every problem found in it.
#[derive(Debug)]
pub(crate) struct ConfigError {
    /// The file as the user named it.
    pub(crate) file: String,
    /// In the order of their lines; never empty.
    pub(crate) problems: Vec<Problem>,
    /// Settings that are valid but probably a mistake.
    pub(crate) warnings: Vec<Problem>,
}

impl File {
    /// Reads the file's text.
    pub(super) fn read(path: &Path) -> Result<Self, ConfigError> {
        let failed = |error: std::io::Error| ConfigError {
            file: path.display().to_string(),
            problems: vec![Problem {
                line: None,
                message: format!("cannot be read: {error}"),
            }],
            warnings: Vec::new(),
        };
        let text = longhaul_private_dir::read_named_text(path).map_err(failed)?;
        let absolute = std::path::absolute(path).map_err(failed)?;
        Ok(Self::of_text(absolute, text))
    }

    /// A configuration that was made of the file at `path`, which is absolute.
    pub(super) fn of_text(path: PathBuf, text: String) -> Self {
        Self {
            path,
            text,
            problems: RefCell::default(),
            warnings: RefCell::default(),
        }
    }

    /// The digest of its text.
    pub(super) fn digest(&self) -> String {
        digest(self.text.as_bytes())
    }

    /// The digest of the sections `[server]` and `[admin]`, without comments and layout.
    pub(super) fn settings_digest(&self) -> String {
        let sections: toml::Table = toml::from_str(&self.text).unwrap_or_default();
        digest(format!("{:?}", [sections.get("server"), sections.get("admin")]).as_bytes())
    }

    /// Where it is.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The folder that relative paths in the file start from.
    pub(super) fn folder(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new("/"))
    }

    /// Parses the document; `None` after reporting every syntax error. Values are not checked then, since syntax errors would cause
    /// most of their problems.
    pub(super) fn parse(&self) -> Option<Spanned<DeTable<'_>>> {
        let begin = self.text.trim_start_matches('\u{feff}').trim_start();
        if ["{", "//", "/*"].iter().any(|json| begin.starts_with(json)) {
            self.report(None, IS_JSON.to_owned());
            return None;
        }
        let (document, errors) = DeTable::parse_recoverable(&self.text);
        for error in &errors {
            self.report(error.span(), error.message().to_owned());
        }
        errors.is_empty().then_some(document)
    }

    /// Reports a mistake at `span`, a range of bytes in the file.
    pub(super) fn report(&self, span: Option<Range<usize>>, message: String) {
        let line = span.map(|span| self.line(span.start));
        self.problems.borrow_mut().push(Problem { line, message });
    }

    /// Whether a mistake was reported.
    pub(super) fn has_problems(&self) -> bool {
        !self.problems.borrow().is_empty()
    }

    /// Reports a warning at `span`.
    pub(super) fn warn(&self, span: Range<usize>, message: String) {
        let line = Some(self.line(span.start));
        self.warnings.borrow_mut().push(Problem { line, message });
    }

    /// The line, counted from 1, that holds the byte at `offset`.
    pub(super) fn line(&self, offset: usize) -> usize {
        1 + self.text.bytes().take(offset).filter(|&byte| byte == b'\n').count()
    }

    /// All mistakes, then all warnings, each in the order of the lines.
    pub(super) fn into_problems(self) -> (Vec<Problem>, Vec<Problem>) {
        let mut problems = self.problems.into_inner();
        problems.sort_by_key(|problem| problem.line);
        let mut warnings = self.warnings.into_inner();
        warnings.sort_by_key(|warning| warning.line);
        (problems, warnings)
    }
}

impl ConfigError {
    /// What is wrong with a file as a whole.
    pub(crate) fn of_file(file: &Path, message: String) -> Self {
        Self {
            file: file.display().to_string(),
            problems: vec![Problem { line: None, message }],
            warnings: Vec::new(),
        }
    }
}

impl Problem {
    /// The mistake with its file and line.
    pub(crate) fn at(&self, file: &str) -> String {
        match self.line {
            Some(line) => format!("{file}:{line}: {}", self.message),
            None => format!("{file}: {}", self.message),
        }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.problems.iter().enumerate() {
            let separator = if index == 0 { "" } else { "\n" };
            write!(f, "{separator}{}", problem.at(&self.file))?;
        }
        Ok(())
    }
}

impl std::error::Error for ConfigError {}
