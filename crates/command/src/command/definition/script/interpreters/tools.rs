//! Tools that take code beside their own arguments: database clients, programs that start others, build tools, editors.

use super::{Interpreter, LANGUAGE, Operands, TOOL};

pub(super) static TOOLS: &[Interpreter] = &[
    Interpreter {
        names: &["psql"],
        code: "c",
        long_code: &["command"],
        code_file: "f",
        long_code_file: &["file"],
        value: "dhLopPRTUvF",
        long_value: &["dbname", "host", "output", "port", "set", "variable", "username"],
        reads_stdin_code: true,
        ..TOOL
    },
    Interpreter {
        names: &["mysql", "mariadb"],
        long_code: &["execute", "init-command"],
        value: "DhPuS",
        long_value: &["database", "host", "port", "user", "socket"],
        attached: "p",
        reads_stdin_code: true,
        ..TOOL
    },
    Interpreter {
        names: &["sqlite", "duckdb"],
        code: "",
        long_code: &["cmd", "c", "s"],
        long_value: &["init", "separator", "nullvalue", "newline", "vfs"],
        long_with_one_dash: true,
        operands: Operands::Code(1),
        reads_stdin_code: true,
        ..TOOL
    },
    Interpreter {
        names: &["su", "runuser"],
        code: "c",
        long_code: &["command", "session-command"],
        value: "gGsuwT",
        long_value: &["group", "supp-group", "shell", "user", "whitelist-environment"],
        reads_stdin_code: true,
        ..TOOL
    },
    Interpreter {
        names: &["script", "flock", "nix-shell"],
        code: "c",
        long_code: &["command", "run"],
        value: "wE",
        long_value: &["timeout"],
        ..TOOL
    },
    Interpreter {
        names: &["env"],
        code: "S",
        long_code: &["split-string"],
        value: "uC",
        long_value: &["unset", "chdir"],
        operands: Operands::Data,
        ..LANGUAGE
    },
    Interpreter {
        // -o can name a command.
        names: &["ssh"],
        code: "o",
        value: "BbcDEeFIiJLlmOPpQRSWw",
        operands: Operands::Joined { first: 1 },
        reads_stdin_code: true,
        ..LANGUAGE
    },
    Interpreter {
        names: &["watch", "parallel"],
        code: "",
        value: "nqjPSa",
        long_value: &["interval", "jobs", "joblog", "results", "tmpdir"],
        operands: Operands::Joined { first: 0 },
        reads_stdin_code: true,
        ..LANGUAGE
    },
    Interpreter {
        // Options of npm stand anywhere before `--`.
        names: &["npm"],
        code: "c",
        long_code: &["call"],
        value: "wC",
        long_value: &["package", "workspace", "prefix"],
        ..TOOL
    },
    Interpreter {
        names: &["npx"],
        code: "c",
        long_code: &["call"],
        value: "pwC",
        long_value: &["package", "workspace", "prefix"],
        operands: Operands::Data,
        ..LANGUAGE
    },
    Interpreter {
        // Behind the subcommand `-c` has other meanings.
        names: &["git"],
        code: "",
        value: "C",
        long_value: &["git-dir", "work-tree", "namespace", "super-prefix", "config-env"],
        setting: "c",
        code_settings: &[
            "alias.*",
            "pager.*",
            "sendemail.*",
            "*.askpass",
            "*.clean",
            "*.cmd",
            "*.command",
            "*.difffilter",
            "*.driver",
            "*.editor",
            "*.external",
            "*.fsmonitor",
            "*.gitproxy",
            "*.helper",
            "*.hookspath",
            "*.packobjectshook",
            "*.pager",
            "*.process",
            "*.program",
            "*.smudge",
            "*.sshcommand",
            "*.textconv",
        ],
        operands: Operands::Data,
        ..LANGUAGE
    },
    Interpreter {
        // `NAME:=$(shell …)` is expanded at once, and `NAME=$(shell …)` when the variable is used.
        names: &["make", "gmake"],
        code: "E",
        long_code: &["eval"],
        value: "CfIoW",
        long_value: &[
            "directory",
            "file",
            "makefile",
            "include-dir",
            "old-file",
            "assume-old",
            "what-if",
            "new-file",
            "assume-new",
        ],
        attached: "jlO",
        operands: Operands::EachCode,
        ..TOOL
    },
    Interpreter {
        names: &["tar", "gtar", "bsdtar"],
        code: "IF",
        long_code: &[
            "to-command",
            "use-compress-program",
            "info-script",
            "new-volume-script",
            "rsh-command",
            "rmt-command",
        ],
        value: "fCbTXgHKLNV",
        long_value: &["file", "directory", "files-from", "exclude-from"],
        long_setting: &["checkpoint-action"],
        code_settings: &["exec"],
        ..TOOL
    },
    Interpreter {
        names: &["at", "batch"],
        code: "",
        code_file: "f",
        reads_stdin_code: true,
        ..TOOL
    },
    Interpreter {
        names: &["mongosh", "mongo"],
        code: "",
        long_code: &["eval"],
        long_value: &["host", "port", "username", "password", "file"],
        reads_stdin_code: true,
        ..TOOL
    },
    Interpreter {
        names: &["redis-cli", "valkey-cli"],
        code: "",
        value: "hpsanrituXd",
        operands: Operands::SubcommandScript("eval"),
        permutes: true,
        ..LANGUAGE
    },
    Interpreter {
        names: &["gdb", "lldb"],
        code: "",
        long_code: &["ex", "eval-command", "iex", "init-eval-command", "o", "one-line"],
        long_value: &["command", "x", "pid", "p", "core", "c"],
        long_with_one_dash: true,
        ..TOOL
    },
    Interpreter {
        names: &["vim", "vi", "nvim", "ex", "view"],
        code: "c",
        long_code: &["cmd"],
        value: "uUiw",
        ..TOOL
    },
    Interpreter {
        names: &["rsync"],
        code: "e",
        long_code: &["rsh", "rsync-path"],
        value: "fBTM",
        ..TOOL
    },
    Interpreter {
        names: &["ansible"],
        code: "a",
        long_code: &["args"],
        value: "mitufMeP",
        long_value: &["module-name", "inventory", "user", "forks", "limit"],
        ..TOOL
    },
    Interpreter {
        names: &["hyperfine"],
        code: "pcsC",
        long_code: &["prepare", "cleanup", "setup", "conclude", "reference"],
        value: "wrmMunSLD",
        long_value: &[
            "warmup",
            "runs",
            "min-runs",
            "max-runs",
            "parameter-list",
            "parameter-scan",
            "parameter-step-size",
            "style",
            "sort",
            "shell",
            "time-unit",
            "export-json",
            "export-csv",
            "export-markdown",
            "export-asciidoc",
            "export-orgmode",
            "output",
            "input",
            "command-name",
        ],
        operands: Operands::EachCode,
        ..TOOL
    },
    Interpreter {
        names: &["socat"],
        code: "",
        value: "lbtTWLs",
        operands: Operands::EachCode,
        ..TOOL
    },
    Interpreter {
        names: &["sort"],
        code: "",
        long_code: &["compress-program"],
        value: "ktoST",
        ..TOOL
    },
    Interpreter {
        names: &["man"],
        code: "PH",
        long_code: &["pager", "html"],
        value: "CRLMSe",
        ..TOOL
    },
];
