//! The tools of a server, and what they must answer.

use serde_json::{Map, Value, json};

/// Which tools the server has.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tools {
    /// Those of the example `everything` of this repository.
    Fixture,
    /// Those of `@modelcontextprotocol/server-everything`.
    Reference,
}

/// A call, and a part of the text that must come back.
pub(crate) struct Call {
    pub(crate) tool: &'static str,
    pub(crate) arguments: Map<String, Value>,
    pub(crate) expected: &'static str,
}

fn call(tool: &'static str, arguments: Value, expected: &'static str) -> Call {
    let arguments = arguments.as_object().cloned().unwrap_or_default();
    Call {
        tool,
        arguments,
        expected,
    }
}

impl Tools {
    pub(crate) fn named(name: &str) -> Result<Self, String> {
        match name {
            "fixture" => Ok(Self::Fixture),
            "reference" => Ok(Self::Reference),
            _ => Err(format!("there are no tools {name}")),
        }
    }

    pub(crate) fn plain(self) -> Call {
        match self {
            Self::Fixture => call("greet", json!({"name": "Ada"}), "Hello, Ada!"),
            Self::Reference => call("echo", json!({"message": "Hello, Ada!"}), "Echo: Hello, Ada!"),
        }
    }

    /// A plain call with progress, and the progress.
    pub(crate) fn progress(self) -> (Call, &'static [f64]) {
        match self {
            Self::Fixture => (call("test_tool_with_progress", json!({}), ""), &[0.0, 50.0, 100.0]),
            Self::Reference => {
                let arguments = json!({"duration": 0.4, "steps": 2});
                let done = "Long running operation completed";
                (call("trigger-long-running-operation", arguments, done), &[1.0, 2.0])
            }
        }
    }

    /// A plain call that asks the user.
    pub(crate) fn ask(self) -> Call {
        match self {
            Self::Fixture => call("test_elicitation", json!({"message": "Who is there?"}), "accept"),
            Self::Reference => call(
                "trigger-elicitation-request",
                json!({}),
                "provided the requested information",
            ),
        }
    }

    /// A plain call that asks the model.
    pub(crate) fn sample(self) -> Call {
        let prompt = json!({"prompt": "What is the capital of France?"});
        match self {
            Self::Fixture => call("test_sampling", prompt, "Paris"),
            Self::Reference => call("trigger-sampling-request", prompt, "Paris"),
        }
    }

    /// A plain call that asks the model, for an answer that is a task of the client.
    pub(crate) fn sample_as_task(self) -> Option<Call> {
        let prompt = json!({"prompt": "What is the capital of France?"});
        let call = call("trigger-sampling-request-async", prompt, "[COMPLETED]");
        (self == Self::Reference).then_some(call)
    }

    /// A plain call that asks for the roots.
    pub(crate) fn roots(self) -> Option<Call> {
        let call = call("get-roots-list", json!({}), "file:///srv/data");
        (self == Self::Reference).then_some(call)
    }

    /// A task that ends soon.
    pub(crate) fn task(self) -> Call {
        match self {
            Self::Fixture => call("slow_compute", json!({"seconds": 1, "label": "soon"}), "soon"),
            Self::Reference => call(
                "simulate-research-query",
                json!({"topic": "tides"}),
                "Research Report: tides",
            ),
        }
    }

    /// A task that runs for longer than a process takes to start.
    pub(crate) fn long_task(self) -> Call {
        match self {
            Self::Fixture => call("slow_compute", json!({"seconds": 4, "label": "later"}), "later"),
            Self::Reference => self.task(),
        }
    }

    /// A task that must be cancelled to end.
    pub(crate) fn endless(self) -> Call {
        match self {
            Self::Fixture => call("slow_compute", json!({"seconds": 600, "label": "never"}), ""),
            Self::Reference => self.task(),
        }
    }

    /// A task that asks the user, and what it says if the user agrees.
    pub(crate) fn task_asks(self) -> Call {
        match self {
            Self::Fixture => call("confirm_delete", json!({"filename": "a.txt"}), "Deleted a.txt."),
            Self::Reference => {
                let arguments = json!({"topic": "python", "ambiguous": true});
                call(
                    "simulate-research-query",
                    arguments,
                    "Research Report: python (programming)",
                )
            }
        }
    }

    /// The same if the user declines.
    pub(crate) fn task_is_declined(self) -> Call {
        let expected = match self {
            Self::Fixture => "Kept a.txt.",
            Self::Reference => "User declined",
        };
        Call {
            expected,
            ..self.task_asks()
        }
    }

    /// A task that asks two questions at once.
    pub(crate) fn questions_at_once(self) -> Option<Call> {
        let call = call("multi_input", json!({}), "File: true, backup: true.");
        (self == Self::Fixture).then_some(call)
    }

    /// A task that ends with an error of the tool.
    pub(crate) fn tool_error(self) -> Option<Call> {
        (self == Self::Fixture).then(|| call("failing_job", json!({}), ""))
    }
}
