//! A form in a process of its own.
//!
//! What reads the keys of a form cannot be interrupted. A form whose question is withdrawn would go on to read, and take keys from the next one. So
//! it runs in another process, this program again, which is killed then.

use super::form::{self, FormAnswer, FormError, Question};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Map, Value};

/// What a form is shown for.
#[derive(Serialize, Deserialize)]
enum Work {
    /// The answer to a server: [`form::ask`].
    Ask(Question),
    /// The values alone: [`form::fill_in`].
    FillIn(Question),
    /// Whether the user has finished with a page: [`form::page_finished`].
    PageFinished,
}

/// Asks the user, and returns what the server is answered. When the future is dropped nothing reads the terminal any more, and it is as it was.
pub(crate) async fn ask(question: Question) -> FormAnswer {
    match shown(Work::Ask(question)).await {
        Ok(answer) => answer,
        Err(FormError::NoTerminal(why)) => {
            form::not_shown(&why);
            FormAnswer::Later
        }
        Err(_) => FormAnswer::Interrupted,
    }
}

/// Asks for each field of the form; dropped as [`ask`].
pub(crate) async fn fill_in(question: Question) -> Result<Map<String, Value>, FormError> {
    shown::<Result<_, _>>(Work::FillIn(question)).await?
}

/// Asks whether the user has finished with the page that they were sent to; dropped as [`ask`].
pub(crate) async fn page_finished() -> Result<bool, FormError> {
    shown::<Result<_, _>>(Work::PageFinished).await?
}

#[cfg(not(unix))]
async fn shown<T: Serialize + DeserializeOwned + Send + 'static>(work: Work) -> Result<T, FormError> {
    let reply = super::blocking(move || done(work)).await;
    serde_json::from_value(reply).map_err(|error| FormError::NoTerminal(error.to_string()))
}

/// Shows the form in this process, and returns the result as JSON.
fn done(work: Work) -> Value {
    let reply = match work {
        Work::Ask(question) => serde_json::to_value(form::ask(&question)),
        Work::FillIn(question) => serde_json::to_value(form::fill_in(&question)),
        Work::PageFinished => serde_json::to_value(form::page_finished()),
    };
    reply.unwrap_or_default()
}

#[cfg(unix)]
pub(crate) use of_unix::become_form_if_asked;
#[cfg(unix)]
use of_unix::shown;

#[cfg(unix)]
mod of_unix {
    use super::{
        super::{closed, draw, keys},
        DeserializeOwned, FormError, Work, done,
    };
    use crate::output::{HeldNotes, note};
    use longhaul_client::SystemClock;
    use longhaul_core::Clock;
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use rustix::io::fcntl_dupfd_cloexec;
    use rustix::process::{Signal, getpid, kill_process};
    use rustix::termios::{OptionalActions, QueueSelector, Termios, tcflush, tcgetattr, tcsetattr};
    use std::{
        env, io,
        io::{BufRead, BufReader, Read, Write},
        os::{
            fd::OwnedFd,
            unix::{
                net::UnixStream,
                process::{CommandExt, ExitStatusExt},
            },
        },
        process::{Child, Command, ExitStatus, Stdio, exit},
        thread,
        time::Duration,
    };

    /// The name under which this program shows a form.
    const NAME: &str = "longhaul-form";
    /// How long a signal that has ended the form may take to end this command, too.
    const SIGNAL: Duration = Duration::from_secs(1);

    /// Shows the form that its standard output asks for, and ends, if that is what this process was started for.
    pub(crate) fn become_form_if_asked() {
        if env::args_os().next().is_some_and(|name| name == NAME) {
            exit(match serve() {
                Ok(()) => 0,
                Err(_) => 1,
            });
        }
    }

    /// Standard input and standard error are the terminal, and standard output is a socket: the question comes on it, and the answer is sent on it.
    fn serve() -> io::Result<()> {
        let socket = UnixStream::from(rustix::stdio::stdout().try_clone_to_owned()?);
        let mut reader = BufReader::new(socket.try_clone()?);
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let work: Work = serde_json::from_str(&line)?;
        let terminal = Terminal::save();
        keys::read_through_filter()?;
        let watching = thread::Builder::new().spawn(move || {
            // It ends when the command does, even by SIGKILL: then nobody wants the answer.
            let _ = io::copy(&mut reader, &mut io::sink());
            closed::closes_forms("the command was killed");
            drop(terminal);
            exit(1);
        });
        watching?;
        (&socket).write_all(done(work).to_string().as_bytes())
    }

    /// Has another process show the form. It is killed when the future is dropped.
    pub(super) async fn shown<T: DeserializeOwned>(work: Work) -> Result<T, FormError> {
        let failed = |error: &dyn std::fmt::Display| FormError::NoTerminal(error.to_string());
        let (socket, others) = UnixStream::pair().map_err(|error| failed(&error))?;
        let terminal = Terminal::save();
        let child = Command::new(program().map_err(|error| failed(&error))?)
            .arg0(NAME)
            .stdout(Stdio::from(OwnedFd::from(others)))
            .spawn()
            .map_err(|error| failed(&error))?;
        let mut form = Form {
            child,
            terminal,
            _notes: HeldNotes::begin(),
        };
        let question = serde_json::to_string(&work).map_err(|error| failed(&error))? + "\n";
        let reply = super::super::blocking(move || exchange(&socket, &question)).await;
        let status = form.ended().map_err(|error| failed(&error))?;
        let is_gone = form.terminal.is_gone();
        if is_gone {
            // The form may see that before SIGHUP comes, and SIGHUP comes only to the commands that the terminal controls; it may be ignored, too.
            let _ = kill_process(getpid(), Signal::TERM);
        }
        if is_gone || status.signal().is_some() {
            // From the terminal, and so for this command, too.
            SystemClock.sleep(SIGNAL).await;
            return Err(FormError::Interrupted);
        }
        let reply = reply.map_err(|error| failed(&error))?;
        serde_json::from_str(&reply).map_err(|_| failed(&format_args!("the form has ended: {status}")))
    }

    fn program() -> io::Result<std::path::PathBuf> {
        // Also when the file was replaced since.
        match cfg!(target_os = "linux") {
            true => Ok("/proc/self/exe".into()),
            false => env::current_exe(),
        }
    }

    fn exchange(mut socket: &UnixStream, question: &str) -> io::Result<String> {
        // A form that has ended says more by its status.
        let _ = socket.write_all(question.as_bytes());
        let mut reply = String::new();
        socket.read_to_string(&mut reply)?;
        Ok(reply)
    }

    /// The process that shows a form.
    struct Form {
        child: Child,
        terminal: Terminal,
        /// Written when the terminal is as it was.
        _notes: HeldNotes,
    }

    impl Form {
        fn ended(&mut self) -> io::Result<ExitStatus> {
            let status = self.child.wait()?;
            if status.success() {
                self.terminal.restore();
            }
            Ok(status)
        }
    }

    impl Drop for Form {
        fn drop(&mut self) {
            // Of one that has ended, neither does anything.
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }

    /// The terminal as it was before a form, which puts it into raw mode.
    struct Terminal {
        input: Option<OwnedFd>,
        /// `None` once it is restored.
        settings: Option<Termios>,
    }

    impl Terminal {
        fn save() -> Self {
            // The form reads something else in its place.
            let input = fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3).ok();
            Self {
                settings: input.as_ref().and_then(|input| tcgetattr(input).ok()),
                input,
            }
        }

        /// Whether it was closed.
        fn is_gone(&self) -> bool {
            let Some(input) = &self.input else { return false };
            let mut polled = [PollFd::new(input, PollFlags::empty())];
            let _ = poll(&mut polled, Some(&Timespec::default()));
            polled[0].revents().contains(PollFlags::HUP)
        }

        fn restore(&mut self) {
            if let (Some(input), Some(settings)) = (&self.input, self.settings.take()) {
                let _ = tcsetattr(input, OptionalActions::Now, &settings);
            }
        }
    }

    impl Drop for Terminal {
        fn drop(&mut self) {
            if self.settings.is_none() {
                return;
            }
            self.restore();
            if let Some(input) = &self.input {
                // What was typed for this form is not for the next one.
                let _ = tcflush(input, QueueSelector::IFlush);
            }
            // The cursor is in the first line of the form, and may be hidden; pasted text is bracketed.
            draw("\r\u{1b}[J\u{1b}[?25h\u{1b}[?2004l");
            note(&format!("longhaul: the form is closed: {}", closed::reason()));
        }
    }
}
