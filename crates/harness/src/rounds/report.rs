//! The report of a run.

use serde_json::{Map, Value};

/// What a run has counted, line by line.
#[derive(Debug, Default)]
pub struct RunReport {
    lines: Vec<(String, Value)>,
    /// What the run has not done, and so has not tested.
    missing: Option<&'static str>,
}

impl RunReport {
    pub fn line(&mut self, name: impl Into<String>, value: impl Into<Value>) {
        self.lines.push((name.into(), value.into()));
    }

    /// A count that must not be zero: then no such thing has happened, and was not tested.
    pub fn needed(&mut self, name: &str, count: usize, what: &'static str) {
        self.line(name, count);
        if count == 0 {
            self.missing.get_or_insert(what);
        }
    }

    /// What the run has not tested.
    pub fn missing(&self) -> Option<&'static str> {
        self.missing
    }

    /// Prints one line of JSON, or the lines as a table.
    pub fn print(&self, as_json: bool) {
        if as_json {
            println!("{}", Value::Object(Map::from_iter(self.lines.iter().cloned())));
            return;
        }
        for (name, value) in &self.lines {
            match value {
                Value::String(text) => println!("{name:<36}{text}"),
                value => println!("{name:<36}{value}"),
            }
        }
    }
}
