//! The file that is read, and the problems found in it.

use std::{
    cell::RefCell,
    fmt,
    ops::Range,
    path::{Path, PathBuf},
};
use toml::{Spanned, de::DeTable};

/// A configuration file in memory. Collects what is wrong with it, so that all of it can be reported at once.
pub(super) struct File {
    /// Absolute.
    path: PathBuf,
    text: String,
    problems: RefCell<Vec<Problem>>,
}

/// One mistake.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Problem {
    /// Line, counted from 1; `None` when the mistake is that something is nowhere to be found.
    pub(crate) line: Option<usize>,
    /// What is wrong and what would be right.
    pub(crate) message: String,
}

/// A configuration file that cannot be used, and every reason found.
#[derive(Debug)]
pub(crate) struct ConfigError {
    /// The file as the user named it.
    pub(crate) file: String,
    /// In the order of their lines; never empty.
    pub(crate) problems: Vec<Problem>,
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
        };
        let text = std::fs::read_to_string(path).map_err(failed)?;
        let absolute = std::path::absolute(path).map_err(failed)?;
        Ok(Self {
            path: absolute,
            text,
            problems: RefCell::default(),
        })
    }

    /// The folder that relative paths in the file start from.
    pub(super) fn folder(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new("/"))
    }

    /// The document; `None` after reporting every syntax error. Values are not judged then: half of them would be
    /// consequences of the syntax.
    pub(super) fn parse(&self) -> Option<Spanned<DeTable<'_>>> {
        let (document, errors) = DeTable::parse_recoverable(&self.text);
        for error in &errors {
            self.report(error.span(), error.message().to_owned());
        }
        errors.is_empty().then_some(document)
    }

    /// Notes a mistake at `span`, a range of bytes in the file.
    pub(super) fn report(&self, span: Option<Range<usize>>, message: String) {
        let line = span.map(|span| self.line(span.start));
        self.problems.borrow_mut().push(Problem { line, message });
    }

    /// The line, counted from 1, that holds the byte at `offset`.
    pub(super) fn line(&self, offset: usize) -> usize {
        1 + self.text.bytes().take(offset).filter(|&byte| byte == b'\n').count()
    }

    /// All that was noted, in the order of the lines.
    pub(super) fn into_problems(self) -> Vec<Problem> {
        let mut problems = self.problems.into_inner();
        problems.sort_by_key(|problem| problem.line);
        problems
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, Problem { line, message }) in self.problems.iter().enumerate() {
            let separator = if index == 0 { "" } else { "\n" };
            match line {
                Some(line) => write!(f, "{separator}{}:{line}: {message}", self.file)?,
                None => write!(f, "{separator}{}: {message}", self.file)?,
            }
        }
        Ok(())
    }
}

impl std::error::Error for ConfigError {}
