//! The tools of the crash run: each a real command that is hard on the server in its own way.

use super::site::Site;
use fastrand::Rng;
use serde_json::{Value, json};

/// What a command does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Kind {
    /// Ends at once.
    Quick,
    /// Takes its time.
    Slow,
    /// Takes its time, and is tried again after a crash.
    Retried,
    /// Takes its time and does not listen to SIGTERM.
    Stubborn,
    /// Writes more than is kept.
    Chatty,
    /// Says no.
    Failing,
}

impl Kind {
    const ALL: [Self; 6] = [
        Self::Quick,
        Self::Slow,
        Self::Retried,
        Self::Stubborn,
        Self::Chatty,
        Self::Failing,
    ];

    /// The tool's name.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Quick => "quick",
            Self::Slow => "slow",
            Self::Retried => "retried",
            Self::Stubborn => "stubborn",
            Self::Chatty => "chatty",
            Self::Failing => "failing",
        }
    }

    /// Mostly those that live long enough to be killed.
    pub(super) fn draw(rng: &mut Rng) -> Self {
        match rng.u8(0..10) {
            0 | 1 => Self::Quick,
            2..5 => Self::Slow,
            5..7 => Self::Retried,
            7 => Self::Stubborn,
            8 => Self::Chatty,
            _ => Self::Failing,
        }
    }

    /// Arguments of a call: the token says from outside which call a command belongs to.
    pub(super) fn arguments(self, token: &str, rng: &mut Rng) -> Value {
        let millis = match self {
            Self::Slow | Self::Retried => rng.u64(50..600),
            Self::Stubborn => rng.u64(30..300),
            Self::Quick | Self::Chatty | Self::Failing => 0,
        };
        json!({"token": token, "millis": millis})
    }
}

/// The configuration that the server serves.
pub(super) fn configuration(site: &Site) -> String {
    let mut text = format!(
        "[server]\nname = \"crash\"\nlisten = \"127.0.0.1:0\"\ndata_dir = '{}'\nmax_running = 8\n",
        site.data().display()
    );
    for kind in Kind::ALL {
        text.push_str(&tool(kind, site));
    }
    text
}

fn tool(kind: Kind, site: &Site) -> String {
    let name = kind.name();
    let worker = site.worker().display().to_string();
    let side = site.side().display().to_string();
    let mut command = vec![worker.as_str(), "worker", "--side", &side, name, "{token}", "{millis}"];
    if kind == Kind::Stubborn {
        // What is ignored stays ignored over exec, and the process stays the supervisor's own child.
        command.splice(0..0, ["sh", "-c", "trap '' TERM; exec \"$0\" \"$@\""]);
    }
    let extra = match kind {
        Kind::Retried => "retry = { attempts = 20, backoff = \"10ms\", on = [\"crash\"] }\n",
        Kind::Chatty => "max_output = \"8KiB\"\nmax_log = \"256KiB\"\n",
        _ => "",
    };
    format!(
        "\n[[tool]]\nname = \"{name}\"\ndescription = \"{name}\"\ncommand = {}\n\
         input = {{ token = {{ type = \"string\" }}, millis = {{ type = \"integer\" }} }}\n{extra}",
        json!(command)
    )
}
