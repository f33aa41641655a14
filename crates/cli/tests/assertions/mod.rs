//! Assertions about what a program has written. Each shows all of it when it fails.

use serde_json::Value;
use std::process::Output;

pub(crate) trait TextAssertions {
    fn has(&self, part: &str) -> &Self;
    fn lacks(&self, part: &str) -> &Self;
    fn begins_with(&self, part: &str) -> &Self;
    fn finishes_with(&self, part: &str) -> &Self;
}

impl TextAssertions for str {
    #[track_caller]
    fn has(&self, part: &str) -> &Self {
        assert!(self.contains(part), "no {part:?} in: {self}");
        self
    }

    #[track_caller]
    fn lacks(&self, part: &str) -> &Self {
        assert!(!self.contains(part), "there is {part:?} in: {self}");
        self
    }

    #[track_caller]
    fn begins_with(&self, part: &str) -> &Self {
        assert!(self.starts_with(part), "no {part:?} at the start of: {self}");
        self
    }

    #[track_caller]
    fn finishes_with(&self, part: &str) -> &Self {
        assert!(self.ends_with(part), "no {part:?} at the end of: {self}");
        self
    }
}

pub(crate) trait OutputAssertions {
    fn ends(&self, status: i32) -> &Self;
    fn fails(&self) -> &Self;
    /// On standard output.
    fn prints(&self, part: &str) -> &Self;
    fn prints_no(&self, part: &str) -> &Self;
    /// On standard error.
    fn says(&self, part: &str) -> &Self;
    fn says_no(&self, part: &str) -> &Self;
}

impl OutputAssertions for Output {
    #[track_caller]
    fn ends(&self, status: i32) -> &Self {
        assert_eq!(self.status.code(), Some(status), "{self:?}");
        self
    }

    #[track_caller]
    fn fails(&self) -> &Self {
        assert!(!self.status.success(), "{self:?}");
        self
    }

    #[track_caller]
    fn prints(&self, part: &str) -> &Self {
        assert!(in_text(&self.stdout, part), "no {part:?} in: {self:?}");
        self
    }

    #[track_caller]
    fn prints_no(&self, part: &str) -> &Self {
        assert!(!in_text(&self.stdout, part), "there is {part:?} in: {self:?}");
        self
    }

    #[track_caller]
    fn says(&self, part: &str) -> &Self {
        assert!(in_text(&self.stderr, part), "no {part:?} in: {self:?}");
        self
    }

    #[track_caller]
    fn says_no(&self, part: &str) -> &Self {
        assert!(!in_text(&self.stderr, part), "there is {part:?} in: {self:?}");
        self
    }
}

fn in_text(bytes: &[u8], part: &str) -> bool {
    String::from_utf8_lossy(bytes).contains(part)
}

pub(crate) trait JsonAssertions {
    /// The object has these members; `null` also stands for one that is missing.
    fn has_members(&self, members: Value) -> &Self;
}

impl JsonAssertions for Value {
    #[track_caller]
    fn has_members(&self, members: Value) -> &Self {
        for (name, value) in members.as_object().unwrap() {
            assert_eq!(&self[name], value, "`{name}` of {self}");
        }
        self
    }
}
