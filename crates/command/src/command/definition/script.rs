//! Which parts of a command line an interpreter runs as code, and which placeholders stand in one.
//!
//! A value that is an argument stays one, whatever is in it. Inside a script it is code. So a placeholder in a script is refused unless the
//! operator accepts it; in doubt it is refused.

mod interpreters;
mod lines;
mod rewrite;
mod started;

use super::{
    element::{CommandElement, command_words},
    harmless::{HarmlessValues, Place},
    template::{Placeholder, Template, ValueForm},
    variables::placeholder_in_code_variable,
};
use interpreters::{Interpreter, Operands, basename};
use lines::possible_lines;
use std::collections::BTreeSet;

/// A placeholder inside a text that a program runs as code: a caller could run any code.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{code} that `{program}` runs, so a caller could run any code; {remedy}; `allow_placeholders_in_scripts = true` accepts it as it is"
)]
pub struct ScriptPlaceholder {
    /// The element of the command, from 0; `None` for the standard input.
    pub element: Option<usize>,
    /// What is code, for people.
    pub code: String,
    /// Who runs it.
    pub program: String,
    /// What to write instead.
    pub remedy: String,
}

/// What a command reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StandardInput<'a> {
    /// A template, which may be empty.
    Template(&'a str),
    /// All arguments as JSON.
    Json,
}

/// The placeholders of a command that stand in scripts, at most one for each element. Texts that are not templates are passed over.
pub fn placeholders_in_scripts(
    command: &[CommandElement],
    stdin: StandardInput<'_>,
    allow_leading_dash: &BTreeSet<String>,
    harmless: &HarmlessValues,
) -> Vec<ScriptPlaceholder> {
    let all = command_words(command);
    let mut found: Vec<ScriptPlaceholder> = Vec::new();
    let mut reader = None;
    for line in possible_lines(command) {
        let texts: Vec<&str> = line.iter().map(|index| all[*index].text).collect();
        let scripts = scripts_of(&texts, allow_leading_dash);
        reader = reader.or(scripts.stdin);
        for script in scripts.elements {
            let Some(index) = line.get(script.word).filter(|_| script.word > 0) else {
                continue;
            };
            let element = Some(all[*index].element);
            if found.iter().any(|other| other.element == element) {
                continue;
            }
            let Some(code) = harmful(&script, all[*index].text, harmless) else {
                continue;
            };
            let remedy = match script.kind {
                ScriptKind::File => rewrite::FILE_REMEDY.to_owned(),
                ScriptKind::Program | ScriptKind::Variable => rewrite::PROGRAM_REMEDY.to_owned(),
                ScriptKind::Code | ScriptKind::Option => rewrite::remedy(&texts, script.word, &script.program),
            };
            found.push(ScriptPlaceholder {
                element,
                code,
                program: script.program,
                remedy,
            });
        }
    }
    let code = match stdin {
        StandardInput::Json => Some("the JSON of all arguments is a script".to_owned()),
        StandardInput::Template(text) => {
            first_harmful(text, |placeholder| !harmless.has(placeholder, text, Place::Other))
        }
    };
    if let (Some(program), Some(code)) = (reader, code) {
        found.push(ScriptPlaceholder {
            element: None,
            code,
            remedy: rewrite::STDIN_REMEDY.to_owned(),
            program,
        });
    }
    found
}

/// What a caller could make code of in a text that is run as code.
fn harmful(script: &Script, text: &str, harmless: &HarmlessValues) -> Option<String> {
    match script.kind {
        ScriptKind::Code => first_harmful(text, |placeholder| !harmless.has(placeholder, text, script.place)),
        ScriptKind::Option => first_harmful(text, |_| true),
        ScriptKind::Program => {
            let placeholder = first_placeholder(text, |placeholder| !harmless.fixed.contains(placeholder.name));
            placeholder.map(|placeholder| format!("`{placeholder}` names the program"))
        }
        ScriptKind::Variable => {
            let (name, value) = text.split_once('=')?;
            let found = placeholder_in_code_variable(name, value, harmless)?;
            Some(format!("`{{{}}}` stands in {name}, which names code", found.property))
        }
        ScriptKind::File => {
            let file = first_placeholder(text, |placeholder| placeholder.form == ValueForm::File);
            file.map(|file| format!("`{file}` is a script"))
        }
    }
}

fn first_harmful(text: &str, is_harmful: impl Fn(&Placeholder<'_>) -> bool) -> Option<String> {
    first_placeholder(text, is_harmful).map(|placeholder| format!("`{placeholder}` stands in a script"))
}

fn first_placeholder(text: &str, is_harmful: impl Fn(&Placeholder<'_>) -> bool) -> Option<String> {
    let template = Template::parse(text).unwrap_or_default();
    let first = template.placeholders().find(is_harmful);
    first.map(|placeholder| placeholder.to_string())
}

/// The words of a command that its programs run as code, by their places in [`command_words`].
pub fn script_words(command: &[CommandElement]) -> BTreeSet<usize> {
    let of_line = |line: Vec<usize>| {
        let elements = scripts_of_line(command, &line).elements;
        elements
            .into_iter()
            .filter_map(move |script| line.get(script.word).copied())
    };
    possible_lines(command).into_iter().flat_map(of_line).collect()
}

/// Whether a program of a command runs its standard input as code.
pub fn reads_stdin_as_code(command: &[CommandElement]) -> bool {
    possible_lines(command)
        .iter()
        .any(|line| scripts_of_line(command, line).stdin.is_some())
}

fn scripts_of_line(command: &[CommandElement], line: &[usize]) -> Scripts {
    let all = command_words(command);
    let texts: Vec<&str> = line.iter().map(|index| all[*index].text).collect();
    scripts_of(&texts, &BTreeSet::new())
}

fn scripts_of(texts: &[&str], allow_leading_dash: &BTreeSet<String>) -> Scripts {
    let word = |(index, text): (usize, &&str)| match index {
        0 => Word::program(text),
        _ => Word::new(text),
    };
    let words: Vec<Word> = texts.iter().enumerate().map(word).collect();
    let mut scripts = Scripts::default();
    CommandLine {
        words: &words,
        allow_leading_dash,
    }
    .read(&mut scripts);
    scripts
}

/// An element of the command line as far as it is known before it is filled in.
struct Word {
    /// What stands before the first placeholder, braces unescaped.
    known: String,
    /// The first placeholder.
    property: Option<String>,
    /// A placeholder in it is the path of a file that the caller has filled.
    names_file: bool,
}

impl Word {
    fn new(text: &str) -> Self {
        match Template::parse(text) {
            Ok(template) => Self {
                known: template.literal_prefix().to_owned(),
                property: template.properties().next().map(str::to_owned),
                names_file: template
                    .placeholders()
                    .any(|placeholder| placeholder.form == ValueForm::File),
            },
            Err(_) => Self::program(text),
        }
    }

    /// The program is no template.
    fn program(text: &str) -> Self {
        Self {
            known: text.to_owned(),
            property: None,
            names_file: false,
        }
    }

    /// Whether a caller decides how it begins.
    fn begins_with_placeholder(&self) -> bool {
        self.known.is_empty() && self.property.is_some()
    }

    /// The text, if all of it is known.
    fn literal(&self) -> Option<&str> {
        self.property.is_none().then_some(&self.known)
    }
}

#[derive(Default)]
struct Scripts {
    elements: Vec<Script>,
    /// Who runs the standard input as code.
    stdin: Option<String>,
}

struct Script {
    /// Its place in the command line.
    word: usize,
    program: String,
    place: Place,
    kind: ScriptKind,
}

/// Why a word is code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ScriptKind {
    /// It is a script, or a part of one.
    Code,
    /// What it is depends on the value: it may be an option.
    Option,
    /// It names a file of code, and the caller fills that file.
    File,
    /// It names the program that another program starts.
    Program,
    /// It is a variable of that program, which may be one that names code.
    Variable,
}

struct CommandLine<'a> {
    words: &'a [Word],
    allow_leading_dash: &'a BTreeSet<String>,
}

impl CommandLine<'_> {
    /// Finds the interpreters on the command line. One with an option that takes code is found wherever it stands, because
    /// the programs that start others are too many to know; the rest only where a program's name is expected.
    fn read(&self, scripts: &mut Scripts) {
        let leads = self.words.first().and_then(Word::literal).unwrap_or_default();
        let starts_others = interpreters::starts_others(leads);
        for (index, word) in self.words.iter().enumerate() {
            let Some(literal) = word.literal() else { continue };
            let Some(interpreter) = interpreters::find(literal) else {
                continue;
            };
            let after_exec = index > 0
                && self.words[index - 1]
                    .literal()
                    .is_some_and(|before| before == "--" || interpreters::EXEC_OPTIONS.contains(&before));
            let is_program = index == 0 || starts_others || after_exec;
            if is_program || !interpreter.needs_position() {
                let mut parser = InterpreterParser {
                    line: self,
                    interpreter,
                    program: basename(literal),
                    is_program,
                    gets_stdin: index == 0 || (starts_others && !self.stdin_is_taken(index)),
                    scripts,
                };
                parser.read(index + 1);
            }
        }
        self.read_xargs(scripts);
        scripts.elements.extend(started::find(self.words));
    }

    /// Whether a program before `index` reads the standard input itself.
    fn stdin_is_taken(&self, index: usize) -> bool {
        self.words[..index]
            .iter()
            .filter_map(Word::literal)
            .any(|word| ["xargs", "parallel", "find"].contains(&&*basename(word)))
    }

    /// `xargs` puts its standard input into the command line: where it says with `-I`, else at the end.
    fn read_xargs(&self, scripts: &mut Scripts) {
        let Some(at) = self
            .words
            .iter()
            .position(|word| word.literal().is_some_and(|word| basename(word) == "xargs"))
        else {
            return;
        };
        let ends_before_its_script = scripts.elements.iter().find(|script| script.word >= self.words.len());
        if let Some(script) = ends_before_its_script {
            scripts.stdin = Some(script.program.clone());
        }
        let mut words = self.words[at + 1..].iter().filter_map(Word::literal);
        while let Some(word) = words.next() {
            let replaced = if word == "-I" {
                words.next().unwrap_or_default()
            } else if let Some(text) = word.strip_prefix("-I").or_else(|| word.strip_prefix("--replace=")) {
                text
            } else if word == "--replace" || word == "-i" {
                "{}"
            } else if let Some(text) = word.strip_prefix("-i") {
                text
            } else if ["-n", "-P", "-d", "-L", "-s", "-E", "-a"].contains(&word) {
                words.next();
                continue;
            } else if word.starts_with('-') {
                continue;
            } else {
                return;
            };
            let holds_it = |script: &&Script| {
                self.words
                    .get(script.word)
                    .and_then(Word::literal)
                    .is_some_and(|code| code.contains(replaced))
            };
            if let Some(script) = scripts.elements.iter().find(holds_it) {
                scripts.stdin = Some(script.program.clone());
            }
        }
    }
}

/// One interpreter's part of the command line.
struct InterpreterParser<'a> {
    line: &'a CommandLine<'a>,
    interpreter: &'static Interpreter,
    program: String,
    is_program: bool,
    gets_stdin: bool,
    scripts: &'a mut Scripts,
}

impl InterpreterParser<'_> {
    fn read(&mut self, first: usize) {
        let line = self.line;
        let words = line.words;
        let interpreter = self.interpreter;
        let mut operands = Vec::new();
        // Where code was given by an option, operands are data.
        let mut has_code = false;
        // A shell's `-c` makes a script of the first operand, wherever it stands.
        let mut operand_is_script = false;
        let mut reads_stdin = false;
        let mut options_end = false;
        let mut at = first;
        while let Some(word) = words.get(at) {
            let known = word.known.as_str();
            let is_option = !options_end
                && (known.len() > 1 || word.property.is_some())
                && (known.starts_with('-') || (interpreter.is_shell && known.starts_with('+')));
            if !options_end && word.literal() == Some("--") {
                options_end = true;
                at += 1;
                continue;
            }
            if !options_end && self.may_become_an_option(word) {
                self.found_option(at);
            }
            if !is_option {
                operands.push(at);
                let names_stdin = |literal| ["-", "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"].contains(&literal);
                // What a caller names may be one of them.
                reads_stdin |= !has_code && word.literal().is_none_or(names_stdin);
                if !interpreter.permutes {
                    break;
                }
                at += 1;
                continue;
            }
            let option = interpreter.option(word.known.as_str(), word.property.is_some());
            at += 1;
            match option {
                ReadOption::Letters { script, stdin, values } => {
                    operand_is_script |= script;
                    reads_stdin |= stdin;
                    at += values;
                }
                ReadOption::Value { attached } => {
                    // What a language's option names it may load.
                    if interpreter.operands == Operands::File {
                        self.found_file(if attached { at - 1 } else { at });
                    }
                    at += usize::from(!attached);
                }
                ReadOption::CodeFile { attached } => {
                    has_code = true;
                    self.found_file(if attached { at - 1 } else { at });
                    at += usize::from(!attached);
                }
                ReadOption::Code { attached } => {
                    has_code = true;
                    self.found(if attached { at - 1 } else { at });
                    at += usize::from(!attached);
                    if interpreter.code_ends_options {
                        return;
                    }
                }
                ReadOption::Setting { start } => {
                    let place = if start.is_some() { at - 1 } else { at };
                    let known = words.get(place).and_then(|word| word.known.get(start.unwrap_or(0)..));
                    if known.is_some_and(|known| interpreter.setting_is_code(known)) {
                        self.found(place);
                    }
                    at += usize::from(start.is_none());
                }
                ReadOption::Module => return,
                ReadOption::Unknown if self.is_program => self.found_option(at - 1),
                ReadOption::Unknown => {}
            }
        }
        if operand_is_script {
            // What is missing here may come from `xargs`.
            self.found(operands.first().copied().unwrap_or(words.len()));
            return;
        }
        self.read_operands(&operands, has_code, reads_stdin);
    }

    /// Judges the arguments that are no options. Where those end at the first operand, it is the only one listed.
    fn read_operands(&mut self, operands: &[usize], has_code: bool, reads_stdin: bool) {
        let interpreter = self.interpreter;
        let words = self.line.words;
        match interpreter.operands {
            Operands::File => {
                if let Some(file) = operands.first().filter(|_| !has_code) {
                    self.found_file(*file);
                }
                self.stdin_is_code(reads_stdin || (operands.is_empty() && !has_code));
            }
            Operands::Code(nth) if !has_code => match operands.get(nth) {
                Some(code) => self.found(*code),
                None => self.stdin_is_code(interpreter.reads_stdin_code),
            },
            Operands::EachCode => operands.iter().for_each(|at| self.found(*at)),
            Operands::Subcommand(name) => {
                let mut operands = operands.iter();
                let first = operands.next().and_then(|at| words[*at].literal());
                if first == Some(name) {
                    operands.for_each(|at| self.found(*at));
                }
            }
            Operands::SubcommandScript(name) => {
                if let [subcommand, script, ..] = operands[..]
                    && words[subcommand].literal() == Some(name)
                {
                    self.found(script);
                }
            }
            Operands::Joined { first } => {
                let start = operands.first().map_or(words.len(), |operand| operand + first);
                // GNU parallel quotes what follows `:::`.
                let is_code = |word: &Word| !word.known.starts_with(":::");
                let count = words.iter().skip(start).take_while(|word| is_code(word)).count();
                if count == 0 {
                    self.stdin_is_code(interpreter.reads_stdin_code);
                }
                for at in start..start + count {
                    self.found(at);
                }
                self.read_joined(&words[words.len().min(start)..words.len().min(start + count)]);
            }
            Operands::Data => self.stdin_is_code(interpreter.reads_stdin_code && !has_code),
            Operands::Code(_) => {}
        }
    }

    /// A whole argument that its tool lets begin with `-` can be any option.
    fn may_become_an_option(&self, word: &Word) -> bool {
        word.known.is_empty()
            && word
                .property
                .as_ref()
                .is_some_and(|property| self.line.allow_leading_dash.contains(property))
            && self.interpreter.has_code_options()
            && self.is_program
    }

    /// What the far side of a joined command line (`ssh host bash -s`) does with the standard input.
    fn read_joined(&mut self, words: &[Word]) {
        let joined = words
            .iter()
            .filter_map(Word::literal)
            .flat_map(str::split_whitespace)
            .map(Word::program)
            .collect::<Vec<_>>();
        let mut scripts = Scripts::default();
        CommandLine {
            words: &joined,
            allow_leading_dash: self.line.allow_leading_dash,
        }
        .read(&mut scripts);
        if self.interpreter.reads_stdin_code
            && let Some(program) = scripts.stdin
        {
            self.scripts.stdin.get_or_insert(program);
        }
    }

    fn found(&mut self, word: usize) {
        self.push(word, ScriptKind::Code);
    }

    fn found_option(&mut self, word: usize) {
        self.push(word, ScriptKind::Option);
    }

    fn found_file(&mut self, word: usize) {
        if self.is_program && self.line.words.get(word).is_some_and(|word| word.names_file) {
            self.push(word, ScriptKind::File);
        }
    }

    fn push(&mut self, word: usize, kind: ScriptKind) {
        let place = match self.interpreter.operands {
            Operands::Joined { .. } => Place::Shell,
            Operands::EachCode if ["make", "gmake"].contains(&&*self.program) => Place::Target,
            _ if self.interpreter.is_shell => Place::Shell,
            _ => Place::Other,
        };
        self.scripts.elements.push(Script {
            word,
            program: self.program.clone(),
            place,
            kind,
        });
    }

    fn stdin_is_code(&mut self, is_code: bool) {
        if is_code && self.is_program && self.gets_stdin {
            self.scripts.stdin.get_or_insert_with(|| self.program.clone());
        }
    }
}

/// What an option says about code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReadOption {
    /// Options without a value of their own.
    Letters {
        /// The first operand is code.
        script: bool,
        /// The standard input is code.
        stdin: bool,
        /// So many arguments follow that are no code.
        values: usize,
    },
    /// It has a value that is not code.
    Value { attached: bool },
    /// Its value names a file with the code.
    CodeFile { attached: bool },
    /// Its value is code.
    Code { attached: bool },
    /// Its value is a setting, `NAME=VALUE`: attached from this byte of the option on, or the next argument.
    Setting { start: Option<usize> },
    /// It names what is run, and all that follow are its arguments.
    Module,
    /// A placeholder decides which option it is.
    Unknown,
}

impl ReadOption {
    const FLAG: Self = Self::Letters {
        script: false,
        stdin: false,
        values: 0,
    };
}
