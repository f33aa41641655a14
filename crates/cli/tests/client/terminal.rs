//! A terminal of 80x24, or wider, for the command: a pseudo-terminal, and what would be seen on it.

use crate::support::{Served, longhaul};
use pty_process::blocking::Pty;
use std::{
    fs,
    io::{Read, Write},
    num::NonZero,
    path::PathBuf,
    process::{Child, ExitStatus},
    sync::{Arc, Condvar, Mutex},
    thread::JoinHandle,
    time::Duration,
};

const ROWS: u16 = 24;
const COLUMNS: u16 = 80;
/// When to give up, so that the screen is told: far longer than anything takes.
const PATIENCE: Duration = Duration::from_secs(60);
/// A program asks where the cursor is.
const CURSOR_QUERY: &[u8] = b"\x1b[6n";

/// Keys that are no letters.
pub(crate) struct Keys;

impl Keys {
    pub(crate) const ENTER: &str = "\r";
    pub(crate) const ESC: &str = "\x1b";
    pub(crate) const UP: &str = "\x1b[A";
    pub(crate) const DOWN: &str = "\x1b[B";
    pub(crate) const BACKSPACE: &str = "\x7f";

    /// Ctrl with this letter.
    pub(crate) fn ctrl(letter: char) -> String {
        char::from(letter as u8 & 0x1f).to_string()
    }
}

/// What is on the screen.
struct Seen {
    parser: Mutex<vt100::Parser>,
    changed: Condvar,
}

/// The screen, which outlives the commands that are run on it one after the other.
pub(crate) struct Terminal<'a> {
    served: &'a Served,
    seen: Arc<Seen>,
    folder: PathBuf,
    columns: u16,
    pub(crate) has_default_server: bool,
    /// What differs between runs, and what is shown instead: as long as that.
    names: Vec<(String, String)>,
    count: usize,
}

impl<'a> Terminal<'a> {
    /// Its screens are in the folder of this name.
    pub(crate) fn new(served: &'a Served, name: &str) -> Self {
        Self::wide(served, name, COLUMNS)
    }

    /// The same with so many columns.
    pub(crate) fn wide(served: &'a Served, name: &str, columns: u16) -> Self {
        let [rows, width] = [ROWS, columns].map(|count| NonZero::new(count).unwrap());
        let seen = Seen {
            parser: Mutex::new(vt100::Parser::new(rows, width, 0)),
            changed: Condvar::new(),
        };
        let port = served.url.trim_end_matches("/mcp").rsplit(':').next().unwrap();
        Self {
            served,
            seen: Arc::new(seen),
            folder: PathBuf::from("tests/client/screens").join(name),
            columns,
            has_default_server: true,
            names: vec![(format!(":{port}/"), format!(":{}/", "0".repeat(port.len())))],
            count: 0,
        }
    }

    /// Shows this id under a name of the same length from now on.
    pub(crate) fn name(&mut self, name: &str, id: &str) -> String {
        self.names
            .push((id.to_owned(), format!("{name:.<width$}", width = id.len())));
        id.to_owned()
    }

    /// An empty screen.
    pub(crate) fn clear(&mut self) {
        self.seen.parser.lock().unwrap().process(b"\x1b[2J\x1b[H");
    }

    /// Runs a command to its end, which is a success, with these keys pressed.
    pub(crate) fn run(&mut self, words: &[&str], keys: &[&str]) {
        let mut running = self.begin(words);
        for key in keys {
            running.press(key);
        }
        running.ends(0);
    }

    /// The cursor can be seen at the beginning of an empty line, and nothing of a form is left.
    #[track_caller]
    pub(crate) fn is_usable(&self) {
        let parser = self.seen.parser.lock().unwrap();
        let screen = parser.screen();
        let (row, column) = screen.cursor_position();
        let below: Vec<String> = screen.rows(0, self.columns).skip(row.into()).collect();
        assert!(
            !screen.hide_cursor() && !screen.bracketed_paste(),
            "{}",
            screen.contents()
        );
        assert!(
            column == 0 && below.iter().all(String::is_empty) && !screen.contents().contains("type to filter"),
            "{}",
            screen.contents()
        );
    }

    /// Starts a command, as if it was typed at a shell.
    pub(crate) fn begin<'t>(&'t mut self, words: &[&str]) -> Running<'t, 'a> {
        let (pty, child) = self.spawn(words);
        let pty = Arc::new(pty);
        let (seen, reading) = (Arc::clone(&self.seen), Arc::clone(&pty));
        let reader = std::thread::Builder::new().spawn(move || {
            let mut buffer = [0; 4096];
            // It is an error when the last program has closed its end.
            while let Ok(count @ 1..) = (&*reading).read(&mut buffer) {
                let bytes = &buffer[..count];
                let mut parser = seen.parser.lock().unwrap();
                parser.process(bytes);
                if bytes.windows(CURSOR_QUERY.len()).any(|part| part == CURSOR_QUERY) {
                    let (row, column) = parser.screen().cursor_position();
                    write!(&*reading, "\x1b[{};{}R", row + 1, column + 1).unwrap();
                }
                seen.changed.notify_all();
            }
        });
        Running {
            terminal: self,
            pty,
            child,
            reader: reader.unwrap(),
        }
    }

    fn spawn(&self, words: &[&str]) -> (Pty, Child) {
        let typed = format!("$ longhaul {}\r\n", words.join(" "));
        self.seen.parser.lock().unwrap().process(typed.as_bytes());
        self.spawn_command(longhaul(words, &self.served.home))
    }

    fn spawn_command(&self, mut command: std::process::Command) -> (Pty, Child) {
        let (pty, pts) = pty_process::blocking::open().unwrap();
        pty.resize(pty_process::Size::new(ROWS, self.columns)).unwrap();
        if self.has_default_server {
            command.env("LONGHAUL_SERVER", &self.served.url);
        }
        command.env("TERM", "xterm");
        let child = pty_process::blocking::Command::from(command).spawn(pts).unwrap();
        (pty, child)
    }

    /// Runs a command, and closes the terminal when it shows this text. Returns how the command ends.
    pub(crate) fn close_at(&mut self, words: &[&str], text: &str) -> ExitStatus {
        let spawned = self.spawn(words);
        self.close(spawned, text)
    }

    /// The same of a command that this terminal does not control, so that no SIGHUP tells it.
    #[cfg(target_os = "linux")]
    pub(crate) fn close_unheard_at(&mut self, words: &[&str], text: &str) -> ExitStatus {
        let mut ignoring = std::process::Command::new("sh");
        ignoring.args(["-c", r#"trap "" HUP; exec setsid --wait "$0" "$@""#]);
        let command = longhaul(words, &self.served.home);
        ignoring.arg(command.get_program()).args(command.get_args());
        let set = command.get_envs().filter_map(|(name, value)| Some((name, value?)));
        ignoring.envs(set);
        let spawned = self.spawn_command(ignoring);
        self.close(spawned, text)
    }

    fn close(&mut self, (mut pty, mut child): (Pty, Child), text: &str) -> ExitStatus {
        let mut buffer = [0; 4096];
        let mut parser = self.seen.parser.lock().unwrap();
        while !parser.screen().contents().contains(text) {
            let count = pty.read(&mut buffer).unwrap();
            parser.process(&buffer[..count]);
        }
        drop(pty);
        child.wait().unwrap()
    }

    /// What is on the screen, without what varies.
    fn shown(&self, parser: &vt100::Parser) -> String {
        let mut shown = parser.screen().contents();
        for (varying, fixed) in &self.names {
            shown = shown.replace(varying, fixed);
        }
        fixed_times(&fixed_ids(&shown)) + "\n"
    }

    /// Waits until the screen is that of this name, while a command draws it.
    fn await_screen(&self, name: &str) {
        let file = self.folder.join(format!("{:02}-{name}.txt", self.count + 1));
        let kept = fs::read_to_string(file).unwrap_or_default();
        let mut parser = self.seen.parser.lock().unwrap();
        while self.shown(&parser) != kept {
            let (next, timeout) = self.seen.changed.wait_timeout(parser, PATIENCE).unwrap();
            parser = next;
            if timeout.timed_out() {
                break;
            }
        }
    }

    /// Compares the screen with the file of this name.
    pub(crate) fn screen(&mut self, name: &str) {
        self.count += 1;
        let file = self.folder.join(format!("{:02}-{name}.txt", self.count));
        let shown = self.shown(&self.seen.parser.lock().unwrap());
        if std::env::var("TRYCMD").as_deref() == Ok("overwrite") {
            fs::create_dir_all(&self.folder).unwrap();
            fs::write(&file, &shown).unwrap();
        }
        let kept = fs::read_to_string(&file).unwrap_or_default();
        assert_eq!(
            shown,
            kept,
            "{} differs; TRYCMD=overwrite writes it again",
            file.display()
        );
    }
}

/// A command on the terminal.
pub(crate) struct Running<'t, 'a> {
    terminal: &'t mut Terminal<'a>,
    pty: Arc<Pty>,
    child: Child,
    reader: JoinHandle<()>,
}

impl Running<'_, '_> {
    /// Waits until the text is on the screen.
    #[track_caller]
    pub(crate) fn until(&mut self, text: &str) {
        let seen = Arc::clone(&self.terminal.seen);
        let mut parser = seen.parser.lock().unwrap();
        while !parser.screen().contents().contains(text) {
            let (next, timeout) = seen.changed.wait_timeout(parser, PATIENCE).unwrap();
            parser = next;
            assert!(!timeout.timed_out(), "no {text:?} on:\n{}", parser.screen().contents());
        }
    }

    /// Sends SIGTERM.
    pub(crate) fn terminate(&mut self) {
        let id = i32::try_from(self.child.id()).unwrap();
        let id = rustix::process::Pid::from_raw(id).unwrap();
        rustix::process::kill_process(id, rustix::process::Signal::TERM).unwrap();
    }

    pub(crate) fn press(&mut self, keys: &str) {
        (&*self.pty).write_all(keys.as_bytes()).unwrap();
    }

    /// Waits until the screen is that of this name. When the files are written again, it is taken as it is.
    pub(crate) fn screen(&mut self, name: &str) {
        if std::env::var_os("TRYCMD").is_none() {
            self.terminal.await_screen(name);
        }
        self.terminal.screen(name);
    }

    /// Waits for its end, with this status.
    #[track_caller]
    pub(crate) fn ends(mut self, status: i32) {
        let ended = self.child.wait().unwrap();
        self.reader.join().unwrap();
        let shown = self.terminal.seen.parser.lock().unwrap().screen().contents();
        assert_eq!(ended.code(), Some(status), "{shown}");
    }
}

/// Ids, parts of ids of 30 characters, and keys that the test does not know.
fn fixed_ids(shown: &str) -> String {
    let is_id = |word: &str| {
        let is_code = word
            .chars()
            .all(|char| char.is_ascii_digit() || char.is_ascii_lowercase());
        is_code && word.chars().any(|char| char.is_ascii_digit()) && [30, 32, 36].contains(&word.len())
    };
    let lines = shown.split('\n').map(|line| {
        let words = line.split(' ').map(|word| match is_id(word) {
            true => "*".repeat(word.len()),
            false => word.to_owned(),
        });
        words.collect::<Vec<_>>().join(" ")
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Dates, and the seconds of ages.
fn fixed_times(shown: &str) -> String {
    let is_date = |word: &str| word.len() == 24 && word.starts_with("20") && word.ends_with('Z');
    let is_age = |word: &str| {
        let number = word.strip_suffix('s').filter(|number| (1..=2).contains(&number.len()));
        number.is_some_and(|number| number.chars().all(|char| char.is_ascii_digit()))
    };
    let lines = shown.split('\n').map(|line| {
        let words = line.split(' ').map(|word| match word {
            date if is_date(date) => "2026-11-23T21:00:00.000Z".to_owned(),
            age if is_age(age) => format!("{:width$}", "0s", width = age.len()),
            other => other.to_owned(),
        });
        words.collect::<Vec<_>>().join(" ").trim_end().to_owned()
    });
    lines.collect::<Vec<_>>().join("\n")
}
