//! Commands as tools: an argument template, a supervisor that outlives the server, and a directory that outlives both.
//!
//! The way of a call: [`CommandTool::expand`] makes its command line; [`AttemptDir::prepare`] writes it down; [`Launcher::launch`]
//! starts a supervisor on it; [`judge`] decides what became of it, for this process and for its successor. The server
//! signals no command: it asks the supervisor, which has not yet reaped the command and so cannot mistake another for it. It only continues a
//! supervisor that was suspended.
//!
//! What survives what: a command survives the server process. It does not survive its supervisor (on Linux it is killed with it),
//! nor its container or host.

mod artifact_pattern;
mod attempt_dir;
mod definition;
mod executor;
mod interpreter;
mod launch;
mod output;
mod progress;
mod restored;
mod supervisor;
mod utf8;

pub use artifact_pattern::{ArtifactPattern, ArtifactPatternError};
pub use attempt_dir::{
    ArgumentFile, AttemptDir, Attempts, DIRECTORY_VERSION,
    log::{DEFAULT_READ, MAX_READ, read as read_log},
    record::{ArtifactSettings, CommandEnd, ExitRecord, LaunchSpec, Stopped, SuccessCodes},
    secret_input::SecretInput,
    signal::StopSignal,
    verdict::{AttemptVerdict, connect, judge},
};
pub use definition::{
    CommandDefinition, CommandTool, DEFINITION_VERSION, DefinitionError, Invocation, OutputKind, StopSettings,
    argument_error::CommandArgumentError,
    arguments::{ArgumentTexts, Arguments},
    element::{CommandElement, CommandSwitch, CommandWord, ElementPart, ElementProblem, command_words},
    env_file::{EnvFileError, parse_env_file},
    harmless::HarmlessValues,
    script::{ScriptPlaceholder, StandardInput, placeholders_in_scripts, reads_stdin_as_code, script_words},
    secrets::{ExposedSecret, SHOWN_BY_PS},
    template::{Placeholder, Template, TemplateError, TemplatePart, TemplateProblem, ValueForm, literal_braces},
    variables::{CodeVariablePlaceholder, placeholder_in_code_variable},
};
pub use executor::{CommandExecutor, CommandProvider, KIND};
pub use interpreter::missing_interpreter;
pub use launch::{
    Launcher, Supervisor,
    shared_lifetime::{Hazard, hazards},
    supervisor_process::suspended_supervisors,
};
pub use restored::{RecordedWork, recorded_work};
pub use supervisor::become_supervisor_if_asked;
