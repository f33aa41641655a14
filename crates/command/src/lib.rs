//! What Longhaul can put behind a tool: commands under a supervisor that outlives the server, and functions in this process. Beside them the supervisor of a child
//! that must not outlive the server.

pub mod child_supervisor;
mod command;
pub mod in_process;

pub use command::{
    ArgumentFile, ArgumentTexts, Arguments, ArtifactPattern, ArtifactPatternError, ArtifactSettings, AttemptDir,
    AttemptVerdict, Attempts, CodeVariablePlaceholder, CommandArgumentError, CommandDefinition, CommandElement,
    CommandEnd, CommandExecutor, CommandProvider, CommandSwitch, CommandTool, CommandWord, DEFAULT_READ,
    DEFINITION_VERSION, DIRECTORY_VERSION, DefinitionError, ElementPart, ElementProblem, EnvFileError, ExitRecord,
    ExposedSecret, HarmlessValues, Hazard, Invocation, KIND, LaunchSpec, Launcher, MAX_READ, OutputKind, Placeholder,
    RecordedWork, SHOWN_BY_PS, ScriptPlaceholder, SecretInput, StandardInput, StopSettings, StopSignal, Stopped,
    SuccessCodes, Supervisor, Template, TemplateError, TemplatePart, TemplateProblem, ValueForm,
    become_supervisor_if_asked, command_words, connect, hazards, judge, literal_braces, missing_interpreter,
    parse_env_file, placeholder_in_code_variable, placeholders_in_scripts, read_log, reads_stdin_as_code,
    recorded_work, script_words, suspended_supervisors,
};
