//! What `--help` says: the groups of the commands, and what stands behind the options.

use clap::Command;
use std::fmt::Write as _;

/// The commands by what they are for.
pub(super) const GROUPS: [(&str, &[&str]); 5] = [
    ("Serve", &["init", "serve", "stdio", "wrap", "import", "check"]),
    (
        "Call tools",
        &["tools", "call", "task", "tasks", "watch", "answer", "cancel"],
    ),
    (
        "Operate a server",
        &[
            "admin", "doctor", "service", "nodes", "keys", "backup", "restore", "migrate",
        ],
    ),
    (
        "More of a server",
        &[
            "resources",
            "prompts",
            "complete",
            "inspect",
            "login",
            "logout",
            "whoami",
        ],
    ),
    ("This program", &["completions", "man", "help"]),
];

const EXAMPLES: &str = "\
Examples:
  longhaul init                                    write jobs.toml with a first tool
  longhaul serve jobs.toml                         serve the tools of a file
  longhaul call jobs.toml build target=release     call one of them, and wait
  longhaul tasks                                   find a call again
  longhaul import cursor                           make a host's tools durable
  longhaul admin top jobs.toml                     see what a server does";

/// The command with the help that lists its commands in groups.
pub(super) fn grouped(mut command: Command) -> Command {
    command.build();
    let mut groups = String::new();
    for (title, names) in GROUPS {
        let _ = writeln!(groups, "{title}:");
        for one in names.iter().filter_map(|name| command.find_subcommand(name)) {
            let about = one.get_about().map(ToString::to_string).unwrap_or_default();
            let _ = writeln!(groups, "  {:<11}  {about}", one.get_name());
        }
        groups.push('\n');
    }
    command
        .help_template("{about}\n\n{usage-heading} {usage}{after-help}\n\nOptions:\n{options}\n")
        .after_help(format!("{groups}{EXAMPLES}"))
}

#[cfg(unix)]
pub(super) const INIT: &str = "\
Asks three questions on the terminal: the name of the server, what its first tool runs, and where it is used. Comments in the file say what each line does. A file \
that is there already is never overwritten.

Example:
    longhaul init
    longhaul init --yes demo.toml && longhaul call demo.toml count steps=8

Exit status:
    0  the file is written
    1  the user gave up, or the file could not be written
    2  the file is there already, its folder is not, or there was nobody to ask; nothing was written
  130  interrupted by Ctrl-C";

#[cfg(unix)]
pub(super) const SERVICE: &str = "\
A service of a user (--user, the default) runs as that user, with ~/.config/systemd/user/longhaul-NAME.service. One of the system (--system, the default of root) runs as \
the owner of the data directory, or of the file if there is none yet, with /etc/systemd/system/longhaul-NAME.service. NAME is the name of the server in the file.

Running commands of tasks go on when the service is restarted, stopped or uninstalled.

Example:
    longhaul service install jobs.toml
    longhaul service status jobs.toml
    sudo longhaul service install /etc/longhaul/jobs.toml
    longhaul service uninstall jobs.toml

Exit status:
    0  done; with status: the service runs; with --json or --dry-run: what would be done was printed
    1  the user did not agree, or systemd or the server failed
    2  the command line or the configuration is wrong, there is no systemd, nobody to ask, or the unit is not of this command; nothing was changed
    3  with status: the service does not run
    4  with status and uninstall: the service is not installed";

pub(super) const SERVE: &str = "\
Exit status:
    0  stopped by SIGTERM, Ctrl-C or --idle-exit
    1  the server could not be started, such as when the address or the data directory is in use
    2  the command line or the configuration is wrong; nothing was started
   74  the disk failed in a way that leaves its state unknown; nothing unsynced was acknowledged";

pub(super) const ADMIN: &str = "\
The server is named by its configuration file, on its machine and as its user: `longhaul admin` speaks with it by a socket in its data directory. Or by the \
URL of its [admin] address, with the key in its file admin.key.

Exit status:
    0  done, or with doctor: nothing is wrong
    1  doctor has found something
    2  the command line, a filter or an answer is wrong; nothing was done
    3  the server does not run or cannot be reached, or its store fails
    5  there is no such task, it is not in a state for this, or the key is missing or wrong
   74  standard output could not be written
  130  interrupted by Ctrl-C";

#[cfg(unix)]
pub(super) const DOCTOR: &str = "\
The same as `longhaul admin doctor`. Before a server has run it looks at the machine: kernel, clock, disk, ports. Then it also says what would be of help, which is not \
wrong: completions of the shell, and whether MCP hosts find this program.

Example:
    longhaul doctor
    longhaul doctor jobs.toml

Exit status:
    0  nothing is wrong
    1  something was found, such as that no server has run yet
    2  the command line or the configuration is wrong
    5  the key is missing or wrong";

pub(super) const NODES: &str = "\
The server that is asked is named as with `longhaul admin`: by its configuration file, or by the URL of its [admin] address. Without `store` in its file it is \
the only one.

A server that is started again is a new node. One that is dead is listed as long as it holds attempts; those that are bound to its host, such as commands, wait \
for it until `lost_after`, or until `longhaul nodes give-up FILE NODE`. That is for a host that does not come back: commands may still run there, beside their retries.

`cordon` has a server begin nothing, as before it is stopped: what runs there runs on, and what is called there is queued. A cordon does not outlast the server: started again, it is \
another node.

Exit status: as `longhaul admin`.";

pub(super) const MIGRATE: &str = "\
Stop the server first: `longhaul admin drain FILE`. Commands that run keep running, and the server takes them back when it starts again.

The tasks are copied in one transaction: the database has all of them or none. From the beginning on no server starts on the tasks of the data directory. If the command is \
interrupted, run it again: it finds out how far it came. The data directory keeps logs, files of commands and keys, and the server still uses it.

Example:
    longhaul admin drain jobs.toml
    longhaul migrate jobs.toml --to postgres://jobs@127.0.0.1/jobs

Exit status:
    0  the database has the tasks
    1  they were not moved, or it is not known whether they were: the message says which
    2  the command line or the configuration file is wrong";

pub(super) const BACKUP: &str = "\
The backup is a tar archive: the database as it was at one moment, the logs and results of commands, the API keys, and what else is in the data directory. \
Every task that was acknowledged before this command began is in it, with its log and its result. It has secrets in the clear and is readable by this user alone: \
encrypt it before it leaves this machine.

The database is copied to a file of its own first, which takes as much room as the database. It is made beside OUT, or in the system's folder for temporary files if OUT \
is -.

Example:
    longhaul backup jobs.toml /backups/jobs.tar
    longhaul backup jobs.toml - | zstd | ssh backups 'cat > jobs.tar.zst'

Exit status:
    0  the backup is written, and on disk if OUT is a file
    1  it could not be written; nothing is left at OUT
    2  the command line or the configuration is wrong";

pub(super) const RESTORE: &str = "\
Nothing that the backup has runs by itself. What ran when the backup was taken has ended afterwards: with its result if the backup has it, else as interrupted. Its command may still \
run on the machine that the backup was taken on; it is not run again.

What was queued may have run since the backup was taken, with all its effects, if that server ran on. Only you can know. So the first start of a server on the directory is read-only as long as anything is \
queued, until you start it once with --accept-restored-database. --run-queued accepts it now: queued tasks run at the next start, a second time if they have run since. --interrupt-queued \
ends them as interrupted instead. Both are for suspended and blocked tasks, too.

Do not let the server that the backup was taken of run beside the restored one: both would work on the same tasks.

Example:
    longhaul restore /backups/jobs.tar jobs.toml
    zstd -d < jobs.tar.zst | longhaul restore - --data-dir /var/lib/longhaul/jobs

Exit status:
    0  the data directory is there, and on disk
    1  the backup is damaged, truncated or none, or the directory could not be written or is in use; nothing was changed
    2  the command line or the configuration is wrong";

pub(super) const CALL: &str = "\
Values are converted to the types in the tool's schema: `depth=3` is a number where the schema says number, else text. Repeat a \
name to fill an array. `name:=JSON` passes any JSON value.

`name=@FILE` and `name:=@FILE` take the value from a file.

Without a tool, the tools of the server are listed. SERVER is a URL, a name in ~/.config/longhaul/servers.toml or in the file of \
--mcp-config, or a configuration file, whose server is started if it does not run. Without it the server is LONGHAUL_SERVER, else http://127.0.0.1:7411/mcp.

Example:
    longhaul call http://127.0.0.1:7411/mcp build target=release flags:='[\"-v\"]'
    longhaul call jobs.toml build target=release
    longhaul call echo message=hi -- npx -y @modelcontextprotocol/server-everything

What the tool asks is asked on the terminal. If standard input is no terminal, the command ends, and says how to answer the task.

With --batch every line is checked before the first call is sent. The results are JSON lines with the number of their line, in the order in which the calls \
end. The exit status is 0 if all calls succeeded, else that of the first line in the file that did not.

The result goes to standard output, everything else to standard error. Ctrl-C leaves the task running and prints the command \
that waits for it again.

Exit status:
    0  the tool returned a result
    1  the tool returned an error
    2  the command line is wrong, or the tool or argument does not exist, or the call cannot be recorded; nothing was called
    3  the server cannot be reached, or is not an MCP server
    4  the task was cancelled
    5  the server refused the call, or the task failed without a result, or the tool asked before there was a task and was not answered
    6  with --detach: the tool returned a result at once; it is printed
    7  the task asks and was not answered; it waits for `longhaul answer` (5 if it would end with this command: then it is cancelled)
   74  the result could not be written to standard output
  124  --timeout is over; a task keeps running
  130  interrupted by Ctrl-C; a task keeps running";

pub(super) const ANSWER: &str = "\
Values are converted to the types in the question's form, as those of `longhaul call`. Without values the form is shown on the terminal; elsewhere nothing is answered without --accept.

Exit status:
    0  the server has taken the answer
    2  the command line is wrong, or the answer does not fit the form; nothing was answered
    3  the server cannot be reached, or is not an MCP server
    5  the server does not know the task, or the task asks nothing, or the server refused the answer
  130  interrupted by Ctrl-C";

pub(super) const LOGIN: &str = "\
A browser opens at the authorization server that the MCP server names. What it grants is kept in tokens.json beside the journal of calls, for this user \
alone, refreshed when it ends, and sent to this server alone.

Servers that take keys instead: `longhaul login --key SERVER < FILE`, or `headers` in servers.toml.

If the authorization server says in the browser that it does not know this client, it has forgotten it: run `longhaul logout SERVER`, then log in again.

Exit status:
    0  logged in, or the key is kept, or the server needs no login
    2  the command line is wrong, the key cannot be one, or the file with the logins is damaged
    3  the server or its authorization server cannot be reached
    5  the login was refused
  130  interrupted by Ctrl-C";

pub(super) const LOGOUT: &str = "\
Exit status:
    0  nothing of the server is kept any more
    2  the command line is wrong, or the file with the logins is damaged or cannot be changed";

pub(super) const WHOAMI: &str = "\
Exit status:
    0  this user is logged in, or a key is kept
    2  the command line is wrong, or the file with the logins is damaged
    5  this user is not logged in";

/// The lines that commands share which send the server a few requests, with those between statuses 0 and 2, and between 74 and 130.
macro_rules! exit_status_of_requests {
    ($first:literal, $later:literal) => {
        concat!(
            "Exit status:\n    0  done\n",
            $first,
            "    2  the command line is wrong; nothing was sent
    3  the server cannot be reached or started, is not available now, or is not an MCP server
    5  the server refused the request, or requires a login
   74  standard output could not be written\n",
            $later,
            "  130  interrupted by Ctrl-C"
        )
    };
}

pub(super) const REQUESTS: &str = exit_status_of_requests!("", "  124  --timeout is over\n");

pub(super) const TASKS: &str = "\
Exit status:
    0  listed; what was not reached is said in the list
    2  the command line is wrong, or the calls of this user cannot be read
    3  nothing is recorded of the server that was named, and it cannot be reached
   74  the list could not be written to standard output
  130  interrupted by Ctrl-C";

#[cfg(unix)]
pub(super) const STDIO: &str = "\
This command connects to the server process of the data directory, and starts one if there is none. All clients of the data \
directory share that process. It keeps running tasks after standard input ends, and exits when it has been idle for `idle_exit`. \
Its log is `owner.log` in the data directory.

Exit status:
    0  standard input or standard output was closed
    1  the server could not be started, or has exited
    2  the configuration is invalid; nothing was started";

pub(super) const WRAP: &str = "\
Calls of the server's slow tools become tasks, which survive their client. Without --listen this is what `longhaul stdio` does: the first one starts a \
process that owns the data directory and runs the server, and others with the same command, folder, --name, --header, --era, --shared and variables of --env share it.

To keep two accounts apart, give each a --name, or name with --env what tells them apart, such as `--env API_KEY`.

Example:
    longhaul wrap -- npx -y @modelcontextprotocol/server-everything

Exit status:
    0  standard input or standard output was closed, or the server was stopped by a signal
    1  the server could not be started, or has exited
    2  the command line is wrong; nothing was started";

pub(super) const IMPORT: &str = "\
Puts `longhaul wrap` before the command of each server in the host's own file. Servers at a URL stay as they are. The names of servers and tools stay the \
same, and so does everything else in the file. Shows the change and asks; the file as it was is kept beside it.

Of a file with jobs (tasks.json of VS Code, mise.toml, a justfile, a .service or .timer of systemd, a workflow of GitHub) it prints a configuration with a tool \
for each job, and with a comment for each thing that the draft leaves out. Nothing else is written.

Example:
    longhaul import claude-desktop
    longhaul import claude-code --file .mcp.json
    longhaul import cursor --undo
    longhaul import .vscode/tasks.json > tools.toml
    longhaul import --file justfile > tools.toml

Exit status:
    0  the draft was printed; the file was changed, or there was nothing to change; with --json and without --yes: what would change was printed
    1  the user did not agree, or the file could not be written
    2  the command line is wrong, the file cannot be read or is not understood, or there was nobody to ask; nothing was changed";

pub(super) const TASK: &str = "\
Exit status:
    0  success; with --wait: the tool returned a result
    1  with --wait: the tool returned an error
    2  the command line is wrong
    3  the server cannot be reached, or is not an MCP server
    4  with --wait: the task was cancelled
    5  the server does not know the task or refused the request; with --wait: the task failed without a result
    7  with --wait: the task asks, and there is no terminal; it waits for `longhaul answer`
  124  --timeout is over; the task keeps running
  130  interrupted by Ctrl-C; the task keeps running";

pub(super) const CANCEL: &str = "\
Exit status:
    0  all tasks are cancelled, or their servers were asked to cancel them; or
       a call was given up that may go on at its server, and a message says so
  Of several tasks, the first that was not cancelled decides:
    2  the command line is wrong
    3  the server cannot be reached, or is not an MCP server
    5  the server does not know the task, or the task has ended";

pub(super) const WATCH: &str = "\
Nothing is answered and no result is fetched: `longhaul task ID --wait` does both.

Exit status:
    0  all tasks have ended, with results
  Of several tasks, the first without a result that is not an error decides:
    1  its tool returned an error
    2  the command line is wrong
    3  a server that was never reached cannot be reached
    4  it was cancelled
    5  its server does not know it, or it failed without a result
  130  interrupted by Ctrl-C; the tasks keep running";

pub(super) const COMPLETE: &str = concat!(
    "\
Examples:
    longhaul complete review language=ru
    longhaul complete 'users://{id}' id=1 -- my-server

",
    exit_status_of_requests!("", "")
);

pub(super) const INSPECT: &str = concat!(
    "\
Without METHOD: the handshake and the lists of the server. With it: one request. Values of members that are named like secrets are hidden.

Examples:
    longhaul inspect http://127.0.0.1:7411/mcp
    longhaul inspect tools/call name=echo arguments:='{\"message\":\"hi\"}' -- npx -y @modelcontextprotocol/server-everything

",
    exit_status_of_requests!("    1  METHOD is tools/call, and the tool returned an error\n", "")
);

pub(super) const COMPLETIONS: &str = "\
Examples:
    longhaul completions bash > ~/.local/share/bash-completion/completions/longhaul
    longhaul completions fish > ~/.config/fish/completions/longhaul.fish";
