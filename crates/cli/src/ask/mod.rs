//! What servers ask the user: on the terminal, if there is one.

pub(crate) mod arguments;
mod closed;
pub(crate) mod fields;
mod form;
#[cfg(unix)]
mod keys;
mod process;

use indicatif::{ProgressBar, ProgressDrawTarget};
use longhaul_client::{ClientCapabilities, InputHandler, InputRequest, InputResponse, RpcFailure, SystemClock};
use longhaul_core::{BoxFuture, Clock};
use parking_lot::Mutex;
use std::{
    collections::VecDeque,
    io::{self, IsTerminal, Write},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::sync::{Mutex as AsyncMutex, mpsc};

pub(crate) use closed::closes_forms;
pub(crate) use form::{FormAnswer, FormError, Question};
#[cfg(unix)]
pub(crate) use process::become_form_if_asked;
pub(crate) use process::{ask as on_terminal, fill_in};

/// How long a legacy server may take to withdraw a question that it has asked twice.
const WITHDRAWAL: Duration = Duration::from_secs(1);

/// Asks on the terminal. Without one it tells what was asked, and leaves it open.
pub(crate) struct TerminalPrompter {
    /// Whether the user is asked on a terminal.
    terminal: AtomicBool,
    /// One question at a time; the one that was answered last.
    turn: Arc<AsyncMutex<Option<InputRequest>>>,
    /// What is drawn, and must not be while something is asked.
    bar: Arc<Mutex<Option<ProgressBar>>>,
    unasked: mpsc::UnboundedSender<InputRequest>,
    /// The question whose form the user has left with Ctrl-C.
    left: Arc<Mutex<Option<InputRequest>>>,
}

/// The text of a question, with the page that it sends the user to.
pub(crate) fn text_of(question: &InputRequest) -> String {
    let text = match question.message().trim() {
        "" => format!("{} without a text", question.method),
        text => text.to_owned(),
    };
    match (question.page_problem(), question.url()) {
        (Some(problem), _) => format!("{text} ({problem}; decline it)"),
        (None, Some(url)) => format!("{text} (it asks to open {})", crate::output::url(url)),
        (None, None) => text,
    }
}

/// The same of a question of a task, which is named if the question has no text.
pub(crate) fn text_of_task(question: &InputRequest, tool: Option<&str>, id: &str) -> String {
    let (text, id) = (text_of(question), crate::output::id(id));
    match (question.message().trim(), tool) {
        ("", Some(tool)) => format!("{text} (tool {tool}, task {id})"),
        ("", None) => format!("{text} (task {id})"),
        _ => text,
    }
}

/// The questions that could not be asked.
pub(crate) struct UnaskedQuestions {
    questions: mpsc::UnboundedReceiver<InputRequest>,
    /// Those that were taken too early.
    put_back: VecDeque<InputRequest>,
    left: Arc<Mutex<Option<InputRequest>>>,
}

impl UnaskedQuestions {
    /// The next one. Never completes on a terminal.
    pub(crate) async fn next(&mut self) -> InputRequest {
        if let Some(request) = self.put_back.pop_front() {
            return request;
        }
        match self.questions.recv().await {
            Some(request) => request,
            None => std::future::pending().await,
        }
    }

    /// The next one is this one, unless others were put back before.
    pub(crate) fn put_back(&mut self, request: InputRequest) {
        self.put_back.push_back(request);
    }

    /// The question whose form the user has left with Ctrl-C, if it can be answered later.
    pub(crate) fn left(&self) -> Option<InputRequest> {
        self.left.lock().take().filter(|question| question.key.is_some())
    }
}

impl TerminalPrompter {
    pub(crate) fn new() -> (Arc<Self>, UnaskedQuestions) {
        let (unasked, questions) = mpsc::unbounded_channel();
        let left = Arc::default();
        let asking = Self {
            terminal: AtomicBool::new(io::stdin().is_terminal() && io::stderr().is_terminal()),
            turn: Arc::default(),
            bar: Arc::default(),
            unasked,
            left: Arc::clone(&left),
        };
        let unasked = UnaskedQuestions {
            questions,
            put_back: VecDeque::new(),
            left,
        };
        (Arc::new(asking), unasked)
    }

    /// From now on nothing is asked on the terminal: what was asked is told, and stays open.
    pub(crate) fn leave_open(&self) {
        self.terminal.store(false, Ordering::Relaxed);
    }

    fn has_terminal(&self) -> bool {
        self.terminal.load(Ordering::Relaxed)
    }

    /// The bar is hidden while something is asked.
    pub(crate) fn hides(&self, bar: Option<ProgressBar>) {
        *self.bar.lock() = bar;
    }
}

impl InputHandler for TerminalPrompter {
    fn capabilities(&self) -> ClientCapabilities {
        ClientCapabilities {
            elicitation_form: true,
            elicitation_url: true,
            ..ClientCapabilities::default()
        }
    }

    fn leaves_open(&self, request: &InputRequest) -> bool {
        let is_left_open = !self.has_terminal();
        if is_left_open {
            let _ = self.unasked.send(request.clone());
        }
        is_left_open
    }

    fn answer(&self, request: InputRequest) -> BoxFuture<'static, Result<InputResponse, RpcFailure>> {
        if !request.is_elicitation() {
            return Box::pin(std::future::ready(Err(RpcFailure {
                code: -32601,
                message: format!("This client does not offer {}", request.method).into(),
                data: None,
            })));
        }
        if !self.has_terminal() && request.refuses_call() {
            return Box::pin(std::future::ready(Err(page_not_opened())));
        }
        if !self.has_terminal() {
            // Whoever waits ends the command.
            let _ = self.unasked.send(request);
            return Box::pin(std::future::pending());
        }
        let (turn, bar) = (Arc::clone(&self.turn), self.bar.lock().clone());
        let (unasked, left) = (self.unasked.clone(), Arc::clone(&self.left));
        Box::pin(async move {
            let mut last = turn.lock().await;
            if request.key.is_none() && last.as_ref() == Some(&request) {
                // A legacy server may ask the same on two streams, and withdraws one when it has the answer to the other.
                SystemClock.sleep(WITHDRAWAL).await;
            }
            let hidden = HiddenBar::of(bar);
            let answer = on_terminal((&request).into()).await;
            drop(hidden);
            *last = Some(request.clone());
            match answer {
                FormAnswer::Given(response) => return Ok(InputResponse::result(response)),
                // Whoever waits ends the command, and the question stays open.
                FormAnswer::Later => drop(unasked.send(request)),
                FormAnswer::Interrupted => {
                    *left.lock() = Some(request);
                    interrupt_self();
                }
            }
            std::future::pending().await
        })
    }

    fn not_taken(&self, request: &InputRequest) {
        if self.has_terminal() {
            let question = text_of(request);
            let said = "longhaul: your answer was not sent: the question was answered elsewhere, or its task does not ask any more";
            crate::output::note(&format!("{said}: {question}"));
        }
    }

    fn page_finished(&self, _request: &InputRequest) -> BoxFuture<'static, bool> {
        let (turn, bar) = (Arc::clone(&self.turn), self.bar.lock().clone());
        Box::pin(async move {
            let _turn = turn.lock().await;
            let _hidden = HiddenBar::of(bar);
            match process::page_finished().await {
                Ok(has_finished) => return has_finished,
                Err(FormError::Dismissed) => return false,
                // The server may still say so.
                Err(FormError::NoTerminal(why)) => form::not_shown(&why),
                Err(FormError::Interrupted) => interrupt_self(),
            }
            std::future::pending().await
        })
    }
}

/// The answer if a server wants a page to be opened before it takes the call, and nobody here can open one. The call ends with it, and has not run.
pub(crate) fn page_not_opened() -> RpcFailure {
    RpcFailure {
        code: -32601,
        message: "nobody can be asked to open a page here".into(),
        data: None,
    }
}

/// Runs what waits for the user.
#[expect(clippy::disallowed_methods, reason = "the terminal is not simulated")]
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(panicked) => std::panic::resume_unwind(panicked.into_panic()),
    }
}

/// As if the user had pressed Ctrl-C outside of a form, in which it is no signal.
fn interrupt_self() {
    #[cfg(unix)]
    let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::INT);
}

/// Whether the user answers a question of this program with yes, in a line.
#[cfg(unix)]
pub(crate) fn agrees(question: &str) -> bool {
    draw(&format!("{} [y/N] ", crate::output::plain(question, "")));
    let mut answer = String::new();
    let read = io::stdin().read_line(&mut answer);
    read.is_ok() && matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes")
}

/// Writes to the terminal. It may be gone.
fn draw(text: &str) {
    let _ = io::stderr().lock().write_all(text.as_bytes());
}

/// Shows the bar again when it is dropped.
struct HiddenBar(Option<ProgressBar>);

impl HiddenBar {
    fn of(bar: Option<ProgressBar>) -> Self {
        if let Some(bar) = &bar {
            bar.disable_steady_tick();
            bar.set_draw_target(ProgressDrawTarget::hidden());
            // What was drawn stays otherwise, and the form begins behind it.
            draw("\r\u{1b}[2K");
        }
        Self(bar)
    }
}

impl Drop for HiddenBar {
    fn drop(&mut self) {
        if let Some(bar) = &self.0 {
            bar.set_draw_target(ProgressDrawTarget::stderr());
            bar.enable_steady_tick(Duration::from_millis(120));
        }
    }
}
