//! Why a command cannot be run with the arguments of a call.

/// The arguments do not fit the command. The text is for the caller: it names the property and says what would be right.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CommandArgumentError {
    /// The arguments are not a JSON object.
    #[error("the arguments must be a JSON object")]
    NotAnObject,
    /// A name stands twice in one object: what was checked need not be what a program reads.
    #[error("an object in the arguments has the name `{0}` twice; give each name once")]
    DuplicateName(String),
    /// A property the command needs is absent or null.
    #[error("`{0}` is required")]
    Missing(String),
    /// An object, or something nested in an array.
    #[error("`{0}` must be a string, a number, a boolean or an array of these")]
    NotAWord(String),
    /// A string with a NUL, or with an escape that is no character.
    #[error("`{0}` must be text without NUL characters")]
    NotText(String),
    /// An array where only one word fits.
    #[error("`{0}` must be a single value here, not an array")]
    ArrayInside(String),
    /// Something else than a boolean where a switch needs one.
    #[error("`{0}` must be true or false")]
    NotABoolean(String),
    /// The file for a value could not be named on a command line.
    #[error(
        "`{0}` is passed as a file, and the path of the server's data directory is not UTF-8, so no command can be given it"
    )]
    UnnamableFolder(String),
    /// The program would take the value for an option.
    #[error(
        "`{0}` may not begin with `-`: the program would take it for an option; write for example `./-name` for a path"
    )]
    LeadingDash(String),
    /// A number below 0 where an argument would begin with it.
    #[error("`{0}` may not be negative here: the program would take it for an option; give a number of 0 or more")]
    Negative(String),
    /// A number whose digits go beyond what a schema can judge.
    #[error(
        "`{0}` is a number with more digits, or a larger or smaller exponent, than can be checked; round it to 15 digits"
    )]
    Imprecise(String),
}
