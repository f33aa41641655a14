//! The programs that run code from their command line or their standard input, and the options by which they do.

mod tools;

use super::ReadOption;

/// How one family of interpreters reads its command line.
pub(super) struct Interpreter {
    /// Without version: `python` stands for `python3.11`.
    names: &'static [&'static str],
    pub(super) is_shell: bool,
    /// Letters of options whose value is code.
    code: &'static str,
    /// Long options whose value is code, without dashes.
    long_code: &'static [&'static str],
    /// Letters of options whose value names a file of code, so that the operands are data.
    code_file: &'static str,
    long_code_file: &'static [&'static str],
    /// Letters of options with another value, attached or the next argument.
    value: &'static str,
    long_value: &'static [&'static str],
    /// Letters of options whose value can only be attached.
    attached: &'static str,
    /// Letters of options that make the standard input code, files notwithstanding.
    stdin: &'static str,
    /// Letters of options that name what is run.
    module: &'static str,
    /// Letters of options whose value is a setting, `NAME=VALUE`.
    setting: &'static str,
    long_setting: &'static [&'static str],
    /// The settings whose value is code, in lower case; `*` stands for any text.
    code_settings: &'static [&'static str],
    /// `-eval` is one option and not four.
    long_with_one_dash: bool,
    /// All that follows the first code is data.
    pub(super) code_ends_options: bool,
    /// Options are taken after operands, too.
    pub(super) permutes: bool,
    pub(super) operands: Operands,
    /// Without code on the command line it is read from the standard input. Said for those whose operands are no files of code.
    pub(super) reads_stdin_code: bool,
}

/// What the arguments that are no options are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operands {
    /// The first names a file of code; without one, the standard input is the code.
    File,
    /// The one with this index is code.
    Code(usize),
    /// What follows this word is code.
    Subcommand(&'static str),
    /// The one after this word is code.
    SubcommandScript(&'static str),
    /// Each may be code.
    EachCode,
    /// From the one with this index on, they are joined to one command line for a shell.
    Joined { first: usize },
    /// None is code.
    Data,
}

const LANGUAGE: Interpreter = Interpreter {
    names: &[],
    is_shell: false,
    code: "e",
    long_code: &[],
    code_file: "",
    long_code_file: &[],
    value: "",
    long_value: &[],
    attached: "",
    stdin: "",
    module: "",
    setting: "",
    long_setting: &[],
    code_settings: &[],
    long_with_one_dash: false,
    code_ends_options: false,
    permutes: false,
    operands: Operands::File,
    reads_stdin_code: false,
};

/// Programs that take code as an option's value and whose operands are something else.
const TOOL: Interpreter = Interpreter {
    permutes: true,
    operands: Operands::Data,
    ..LANGUAGE
};

static INTERPRETERS: &[Interpreter] = &[
    Interpreter {
        names: &[
            "sh", "ash", "bash", "rbash", "dash", "zsh", "rzsh", "ksh", "rksh", "mksh", "lksh", "pdksh", "oksh",
            "loksh", "yash", "posh", "hush", "osh", "csh", "tcsh", "rc", "es", "elvish",
        ],
        is_shell: true,
        value: "oO",
        long_value: &["rcfile", "init-file"],
        stdin: "s",
        ..LANGUAGE
    },
    Interpreter {
        names: &["fish", "nu", "xonsh"],
        code: "cCe",
        long_code: &["command", "commands", "init-command", "execute"],
        value: "f",
        long_value: &["config", "env-config", "features"],
        ..LANGUAGE
    },
    Interpreter {
        names: &["python", "pypy", "micropython", "ipython"],
        code: "c",
        value: "WX",
        long_value: &["check-hash-based-pycs"],
        stdin: "i",
        module: "m",
        code_ends_options: true,
        ..LANGUAGE
    },
    Interpreter {
        // -M and -F become part of the program.
        names: &["perl", "raku"],
        code: "eEMmF",
        value: "I",
        attached: "iCdDxV",
        ..LANGUAGE
    },
    Interpreter {
        names: &["ruby", "jruby", "truffleruby"],
        value: "IrCE",
        attached: "iFKTWx",
        ..LANGUAGE
    },
    Interpreter {
        names: &["node", "nodejs", "bun", "tsx"],
        code: "ep",
        long_code: &["eval", "print"],
        value: "rC",
        long_value: &[
            "require",
            "import",
            "loader",
            "experimental-loader",
            "conditions",
            "input-type",
            "env-file",
            "preload",
        ],
        stdin: "i",
        ..LANGUAGE
    },
    Interpreter {
        names: &["deno"],
        code: "",
        operands: Operands::Subcommand("eval"),
        permutes: true,
        ..LANGUAGE
    },
    Interpreter {
        names: &["php"],
        code: "rBRE",
        long_code: &["run", "process-begin", "process-code", "process-end"],
        code_file: "fF",
        long_code_file: &["file", "process-file"],
        value: "cdStz",
        long_value: &["php-ini", "define", "server", "docroot"],
        ..LANGUAGE
    },
    Interpreter {
        names: &["lua", "luajit"],
        value: "l",
        stdin: "i",
        ..LANGUAGE
    },
    Interpreter {
        names: &["julia"],
        code: "eE",
        long_code: &["eval", "print"],
        value: "LJptCHm",
        long_value: &["load", "sysimage", "procs", "threads"],
        stdin: "i",
        ..LANGUAGE
    },
    Interpreter {
        names: &[
            "R",
            "Rscript",
            "elixir",
            "iex",
            "groovy",
            "scala",
            "clojure",
            "clj",
            "bb",
            "ghc",
            "runghc",
            "racket",
            "dc",
            "osascript",
        ],
        long_code: &["eval", "expression"],
        long_value: &["file"],
        ..LANGUAGE
    },
    Interpreter {
        names: &["guile", "expect", "tclsh"],
        code: "ce",
        value: "lLx",
        ..LANGUAGE
    },
    Interpreter {
        names: &["emacs", "emacsclient", "sbcl", "clisp", "octave", "erl"],
        code: "",
        long_code: &["eval", "e", "x", "execute"],
        long_value: &["load", "l", "script"],
        long_with_one_dash: true,
        ..TOOL
    },
    Interpreter {
        names: &["pwsh", "powershell"],
        code: "",
        long_code: &["c", "command", "commandwithargs", "cwa", "e", "ec", "encodedcommand"],
        long_code_file: &["f", "file"],
        long_value: &["executionpolicy", "ep", "ex", "version", "workingdirectory", "wd"],
        long_with_one_dash: true,
        ..LANGUAGE
    },
    Interpreter {
        names: &["awk", "gawk", "mawk", "nawk", "goawk", "original-awk"],
        long_code: &["source"],
        code_file: "fE",
        long_code_file: &["file", "exec"],
        value: "vFilW",
        long_value: &["assign", "field-separator", "include", "load"],
        operands: Operands::Code(0),
        ..LANGUAGE
    },
    Interpreter {
        names: &["sed", "gsed"],
        long_code: &["expression"],
        code_file: "f",
        long_code_file: &["file"],
        value: "l",
        long_value: &["line-length"],
        attached: "i",
        permutes: true,
        operands: Operands::Code(0),
        ..LANGUAGE
    },
];

/// Programs that start the program named after their options.
const STARTERS: &[&str] = &[
    "env",
    "sudo",
    "doas",
    "nice",
    "ionice",
    "timeout",
    "nohup",
    "setsid",
    "stdbuf",
    "time",
    "xargs",
    "chroot",
    "chrt",
    "taskset",
    "unshare",
    "nsenter",
    "setpriv",
    "systemd-run",
    "runuser",
    "su",
    "busybox",
    "toybox",
    "strace",
    "ltrace",
    "docker",
    "podman",
    "nerdctl",
    "kubectl",
    "firejail",
    "bwrap",
    "proot",
    "fakeroot",
    "flock",
    "tini",
    "dumb-init",
    "unbuffer",
    "prlimit",
    "numactl",
    "caffeinate",
    "uv",
    "poetry",
    "pipenv",
    "conda",
    "mamba",
    "bundle",
    "npx",
    "direnv",
    "mise",
    "nix",
    "lxc",
    "cgexec",
    "eatmydata",
    "pkexec",
    "gosu",
    "su-exec",
    "parallel",
];

/// The options of `find` behind which a command follows.
pub(super) const EXEC_OPTIONS: [&str; 4] = ["-exec", "-execdir", "-ok", "-okdir"];

/// Whether the arguments of `program` may be another command line.
pub(super) fn starts_others(program: &str) -> bool {
    STARTERS.contains(&&*basename(program))
}

/// The interpreter that a program's name or path stands for.
pub(super) fn find(program: &str) -> Option<&'static Interpreter> {
    let name = basename(program);
    let bare = name.trim_end_matches(|char: char| char.is_ascii_digit() || ".-_".contains(char));
    INTERPRETERS
        .iter()
        .chain(tools::TOOLS)
        .find(|interpreter| interpreter.names.iter().any(|known| *known == name || *known == bare))
}

/// A program's name without its folder.
pub(super) fn basename(program: &str) -> String {
    let name = program.rsplit('/').next().unwrap_or_default();
    name.strip_suffix(".exe").unwrap_or(name).to_owned()
}

impl Interpreter {
    /// Whether its name alone, in any place of a command line, would say too little.
    pub(super) fn needs_position(&self) -> bool {
        !self.is_shell && (self.operands != Operands::File || self.reads_stdin_code)
    }

    pub(super) fn has_code_options(&self) -> bool {
        self.is_shell || !self.code.is_empty() || !self.long_code.is_empty() || !self.code_settings.is_empty()
    }

    /// Whether the value of a setting is code. `known`: what is known of `NAME=VALUE` before the first placeholder.
    pub(super) fn setting_is_code(&self, known: &str) -> bool {
        let Some((name, _)) = known.split_once('=') else {
            // The placeholder may stand for any name.
            return true;
        };
        let name = name.to_ascii_lowercase();
        self.code_settings.iter().any(|pattern| match pattern.split_once('*') {
            Some((start, end)) => name.len() >= pattern.len() && name.starts_with(start) && name.ends_with(end),
            None => name == *pattern,
        })
    }

    /// Reads an option, of which only the beginning is known if a placeholder is in it.
    pub(super) fn option(&self, known: &str, is_open: bool) -> ReadOption {
        let one_dash = if self.long_with_one_dash {
            known.strip_prefix('-')
        } else {
            None
        };
        match known.strip_prefix("--").or(one_dash) {
            Some(long) => self.long(long, is_open),
            None => self.letters(&known[1..], is_open),
        }
    }

    fn long(&self, long: &str, is_open: bool) -> ReadOption {
        let (name, attached) = match long.split_once('=') {
            Some((name, _)) => (name.to_ascii_lowercase(), true),
            None if is_open => return ReadOption::Unknown,
            None => (long.to_ascii_lowercase(), false),
        };
        let is = |names: &[&str]| names.contains(&&*name);
        if is(self.long_code) {
            ReadOption::Code { attached }
        } else if is(self.long_setting) {
            let start = attached.then(|| "--".len() + name.len() + "=".len());
            ReadOption::Setting { start }
        } else if is(self.long_code_file) {
            ReadOption::CodeFile { attached }
        } else if is(self.long_value) {
            ReadOption::Value { attached }
        } else {
            ReadOption::FLAG
        }
    }

    fn letters(&self, letters: &str, is_open: bool) -> ReadOption {
        if self.is_shell {
            return self.shell_letters(letters, is_open);
        }
        let mut stdin = false;
        for (index, letter) in letters.char_indices() {
            let attached = is_open || index + letter.len_utf8() < letters.len();
            if self.code.contains(letter) {
                // `node -pe CODE`
                let rest_is_flags = letters[index..].chars().all(|letter| self.code.contains(letter));
                return ReadOption::Code {
                    attached: attached && (is_open || !rest_is_flags),
                };
            } else if self.setting.contains(letter) {
                let start = attached.then(|| "-".len() + index + letter.len_utf8());
                return ReadOption::Setting { start };
            } else if self.code_file.contains(letter) {
                return ReadOption::CodeFile { attached };
            } else if self.module.contains(letter) {
                return ReadOption::Module;
            } else if self.value.contains(letter) {
                return ReadOption::Value { attached };
            } else if self.attached.contains(letter) {
                return ReadOption::FLAG;
            }
            stdin |= self.stdin.contains(letter);
        }
        if is_open {
            return ReadOption::Unknown;
        }
        ReadOption::Letters {
            script: false,
            stdin,
            values: 0,
        }
    }

    /// Each letter with a value takes an argument of its own, wherever it stands in its cluster.
    fn shell_letters(&self, letters: &str, is_open: bool) -> ReadOption {
        if is_open {
            return ReadOption::Unknown;
        }
        ReadOption::Letters {
            script: letters.contains('c'),
            stdin: letters.contains(|letter| self.stdin.contains(letter)),
            values: letters.matches(|letter| self.value.contains(letter)).count(),
        }
    }
}
