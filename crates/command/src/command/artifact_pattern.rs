//! Which files of a folder are artifacts.

use glob::{MatchOptions, Pattern};

/// `*` stays in one folder, and hidden files must be named as such.
const MATCHING: MatchOptions = MatchOptions {
    case_sensitive: true,
    require_literal_separator: true,
    require_literal_leading_dot: true,
};

/// A pattern of paths from the folder that a command runs in, such as `out/*.pdf`.
///
/// `*`, `?` and `[abc]` stand for characters of one name, `**/` for any folders. A pattern that ends with a name without such characters is also
/// that of all files in a folder of this name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArtifactPattern {
    text: String,
    file: Pattern,
    /// The files of a folder of this name.
    below: Option<Pattern>,
    steps: Vec<Step>,
}

/// What stands between two slashes.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Step {
    /// `**`
    AnyFolders,
    Name(Pattern),
}

/// A text is no pattern of artifacts.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ArtifactPatternError {
    /// There is no text.
    #[error("an empty pattern matches no file: write one such as \"out/*.pdf\"")]
    Empty,
    /// It begins at the root.
    #[error(
        "it is absolute, and patterns begin in the folder that the command runs in (`cwd`): write one from there, such as \"out/*.pdf\", or have the command write to the folder $LONGHAUL_ARTIFACTS"
    )]
    Absolute,
    /// It leads out of the folder.
    #[error(
        "it has `..`, and no file outside of the folder that the command runs in is kept: set `cwd` to a folder above"
    )]
    Parent,
    /// It is meant to be replaced.
    #[error(
        "`~` and variables are not replaced in patterns, which begin in the folder that the command runs in (`cwd`)"
    )]
    Variable,
    /// It names what is kept anyway.
    #[error("all of the folder $LONGHAUL_ARTIFACTS is kept anyway: leave this pattern out")]
    OwnFolder,
    /// The wildcards in it are wrong.
    #[error("{0}")]
    Wildcards(&'static str),
}

/// Reads several patterns.
///
/// # Errors
/// The first that is none, and why.
pub(super) fn parse_all(patterns: &[String]) -> Result<Vec<ArtifactPattern>, (String, ArtifactPatternError)> {
    let parse = |text: &String| ArtifactPattern::parse(text).map_err(|error| (text.clone(), error));
    patterns.iter().map(parse).collect()
}

impl ArtifactPattern {
    /// Reads a pattern.
    ///
    /// # Errors
    /// [`ArtifactPatternError`], for the author of the configuration.
    ///
    /// ```
    /// use longhaul_command::ArtifactPattern;
    /// let pattern = ArtifactPattern::parse("out/**/*.pdf").unwrap();
    /// assert!(pattern.matches("out/a.pdf") && pattern.matches("out/2026/11/b.pdf"));
    /// assert!(!pattern.matches("a.pdf"));
    /// assert!(ArtifactPattern::parse("../a.pdf").is_err());
    /// ```
    pub fn parse(text: &str) -> Result<Self, ArtifactPatternError> {
        let plain = text.strip_prefix("./").unwrap_or(text);
        if plain.contains("$LONGHAUL_ARTIFACTS") || plain.contains("${LONGHAUL_ARTIFACTS}") {
            return Err(ArtifactPatternError::OwnFolder);
        }
        if plain.starts_with('/') {
            return Err(ArtifactPatternError::Absolute);
        }
        if plain == "~" || plain.starts_with("~/") || plain.contains("${") {
            return Err(ArtifactPatternError::Variable);
        }
        let names: Vec<&str> = plain.split('/').filter(|name| !matches!(*name, "" | ".")).collect();
        if names.contains(&"..") {
            return Err(ArtifactPatternError::Parent);
        }
        let last = names.last().ok_or(ArtifactPatternError::Empty)?;
        let path = names.join("/");
        let pattern = |text: &str| Pattern::new(text).map_err(|error| ArtifactPatternError::Wildcards(error.msg));
        let names_folder = !last.contains(['*', '?', '[']);
        let steps = names.iter().map(|name| match *name {
            "**" => Ok(Step::AnyFolders),
            name => pattern(name).map(Step::Name),
        });
        Ok(Self {
            file: pattern(&path)?,
            below: match names_folder {
                true => Some(pattern(&format!("{path}/**/*"))?),
                false => None,
            },
            steps: steps.collect::<Result<_, _>>()?,
            text: text.to_owned(),
        })
    }

    /// As it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether it is the pattern of the file at this path.
    pub fn matches(&self, path: &str) -> bool {
        let matches = |pattern: &Pattern| pattern.matches_with(path, MATCHING);
        matches(&self.file) || self.below.as_ref().is_some_and(matches)
    }

    /// Whether it may match a file in a folder, so that the folder has to be searched.
    pub(crate) fn may_match_in(&self, folder: &str) -> bool {
        let mut steps = self.steps.iter();
        for name in folder.split('/') {
            match steps.next() {
                Some(Step::Name(pattern)) if pattern.matches_with(name, MATCHING) => {}
                Some(Step::Name(_)) => return false,
                Some(Step::AnyFolders) => return true,
                None => return self.below.is_some(),
            }
        }
        self.below.is_some() || steps.next().is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pattern(text: &str) -> ArtifactPattern {
        ArtifactPattern::parse(text).unwrap()
    }

    #[test]
    fn patterns_match_paths_from_the_folder() {
        for (text, matching, others) in [
            (
                "out/*.pdf",
                &["out/a.pdf"][..],
                &["a.pdf", "out/x/a.pdf", "out/.a.pdf", "out"][..],
            ),
            ("./out/*.pdf", &["out/a.pdf"], &["a.pdf"]),
            ("out", &["out", "out/a", "out/x/b"], &["outs", "x/out", "out/.a"]),
            ("out/", &["out/a", "out/x/b"], &["outs/a"]),
            ("**/*.xml", &["a.xml", "x/y/a.xml"], &[".git/a.xml", "a.xml/b"]),
            ("**/report", &["report", "x/report/a.html"], &["reports"]),
            (".coverage", &[".coverage"], &["coverage"]),
            ("log [1].txt", &["log 1.txt"], &["log [1].txt"]),
            ("log?.txt", &["logé.txt"], &["log.txt"]),
        ] {
            for path in matching {
                assert!(pattern(text).matches(path), "{text} {path}");
            }
            for path in others {
                assert!(!pattern(text).matches(path), "{text} {path}");
            }
        }
    }

    #[test]
    fn what_is_no_pattern_is_refused() {
        use ArtifactPatternError::{Absolute, Empty, OwnFolder, Parent, Variable};
        for (text, error) in [
            ("", Empty),
            ("./", Empty),
            ("/srv/*.pdf", Absolute),
            ("../a", Parent),
            ("out/../../a", Parent),
            ("~/a", Variable),
            ("${HOME}/a", Variable),
            ("$LONGHAUL_ARTIFACTS/*", OwnFolder),
        ] {
            assert_eq!(ArtifactPattern::parse(text), Err(error), "{text}");
        }
        for text in ["out/[", "a**", "***"] {
            let error = ArtifactPattern::parse(text).unwrap_err();
            assert!(matches!(error, ArtifactPatternError::Wildcards(_)), "{text}");
        }
    }

    proptest! {
        /// No folder is left out of the search that has a file of the pattern.
        #[test]
        fn folders_of_matching_files_are_searched(
            text in "(\\./)?([ab.*]|\\*\\*|[ab]\\*|\\?)(/([ab.]|\\*\\*|\\*b|\\*)){0,3}/?",
            path in "[ab.]{1,2}(/[ab.]{1,2}){0,4}",
        ) {
            let Ok(pattern) = ArtifactPattern::parse(&text) else { return Ok(()) };
            prop_assume!(path.split('/').all(|name| name != "." && name != ".."));
            if pattern.matches(&path) {
                for (at, _) in path.match_indices('/') {
                    prop_assert!(pattern.may_match_in(&path[..at]), "{text} {path}");
                }
            }
        }
    }
}
