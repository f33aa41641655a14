//! Answering a task of a legacy server, which asks only the client that requests its result. Some servers ask only once.

use super::{several, withdrawn};
use crate::{
    ask::text_of_task,
    call::{record::NamedTask, waiting},
    exit::failure::Failure,
    output::{self, states},
};
use futures_util::FutureExt;
use longhaul_client::{
    ClientCapabilities, Event, InputHandler, InputRequest, InputResponse, RpcFailure, SystemClock, TaskHandle,
    TaskStatus,
};
use longhaul_core::{BoxFuture, Clock};
use std::{
    pin::{Pin, pin},
    sync::Arc,
    time::Duration,
};
use tokio::sync::{mpsc, oneshot, watch};

/// How long a server may take to ask after its result was requested.
const LONGEST_SILENCE: Duration = Duration::from_secs(30);
/// How long the task may take to continue once the server has the answer. It is not an error if it takes longer.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// A question that comes so soon after the first one was asked with it.
const ASKED_TOGETHER: Duration = Duration::from_millis(300);

/// A question, and where its answer goes. Without an answer it stays open.
struct AskedQuestion {
    question: InputRequest,
    reply: oneshot::Sender<InputResponse>,
}

enum Message {
    Asked(Box<AskedQuestion>),
    Delivered,
    /// Another client was faster.
    TooLate,
}

/// Passes on what the server asks.
pub(super) struct Relay(mpsc::UnboundedSender<Message>);

/// What the server asks.
pub(super) struct Questions(mpsc::UnboundedReceiver<Message>);

impl Relay {
    pub(super) fn new() -> (Arc<Self>, Questions) {
        let (sender, receiver) = mpsc::unbounded_channel();
        (Arc::new(Self(sender)), Questions(receiver))
    }
}

impl InputHandler for Relay {
    fn capabilities(&self) -> ClientCapabilities {
        ClientCapabilities {
            elicitation_form: true,
            elicitation_url: true,
            ..ClientCapabilities::default()
        }
    }

    fn answer(&self, request: InputRequest) -> BoxFuture<'static, Result<InputResponse, RpcFailure>> {
        if !request.is_elicitation() {
            return Box::pin(std::future::ready(Err(RpcFailure {
                code: -32601,
                message: format!("This client does not offer {}", request.method).into(),
                data: None,
            })));
        }
        let (reply, answer) = oneshot::channel();
        let question = request;
        let _ = self.0.send(Message::Asked(Box::new(AskedQuestion { question, reply })));
        Box::pin(async {
            match answer.await {
                Ok(answer) => Ok(answer),
                Err(_left_open) => std::future::pending().await,
            }
        })
    }

    fn not_taken(&self, request: &InputRequest) {
        if request.is_elicitation() {
            let _ = self.0.send(Message::TooLate);
        }
    }

    fn delivered(&self, request: &InputRequest) {
        if request.is_elicitation() {
            let _ = self.0.send(Message::Delivered);
        }
    }
}

/// Requests the result, answers the question with what `respond` returns, and returns when the server has the answer and, if that does not take long,
/// the task continues. With `all` further questions are answered too; without it, none of several that come together and are recorded, so that one can be chosen.
/// Returns the key of the first one, if it is recorded.
pub(super) async fn answer(
    named: &NamedTask,
    task: &TaskHandle,
    mut questions: Questions,
    all: bool,
    respond: impl AsyncFn(&InputRequest, BoxFuture<'_, Failure>) -> Result<InputResponse, Failure>,
) -> Result<Option<String>, Failure> {
    let (gone_on, mut has_gone_on) = watch::channel(false);
    let mut observe = |event: Event<'_>| match event {
        Event::Status(task) => drop(gone_on.send_replace(task.status != TaskStatus::InputRequired)),
        Event::Retrying { error, attempt: 1, .. } => output::note(&format!("{error}; retrying")),
        _ => {}
    };
    let mut waiting = pin!(task.wait(&mut observe));
    let (mut answered, mut delivered, mut others) = (Vec::<InputRequest>::new(), 0, Vec::<AskedQuestion>::new());
    // On another stream the server asks the same again. It withdraws that when it has the answer.
    let mut again = Vec::new();
    let mut limit = SystemClock.sleep(LONGEST_SILENCE);
    let ended = loop {
        let is_delivered = !answered.is_empty() && delivered >= answered.len();
        if is_delivered && !others.is_empty() {
            break Ok(());
        }
        let message = tokio::select! {
            biased;
            message = questions.0.recv() => message,
            ended = &mut waiting => break ended.map(drop),
            _ = has_gone_on.wait_for(|gone_on| *gone_on), if is_delivered => break Ok(()),
            () = &mut limit => break Ok(()),
        };
        match message {
            Some(Message::Asked(asked)) if is_known(&answered, &others, &asked) => again.push(*asked),
            // The values are those of one question.
            Some(Message::Asked(asked)) if !answered.is_empty() && !all => others.push(*asked),
            Some(Message::Asked(mut asked)) => {
                if !all {
                    let more = match asked_together(&mut questions, waiting.as_mut()).await {
                        Ok(more) => more,
                        Err(ended) => break ended.map(drop),
                    };
                    for other in more {
                        match other.question == asked.question || is_known(&answered, &others, &other) {
                            true => again.push(other),
                            false => others.push(other),
                        }
                    }
                }
                let open = || std::iter::once(&*asked).chain(&others).map(|asked| &asked.question);
                if !others.is_empty() && open().all(|question| question.key.is_some()) {
                    return Err(several(open()));
                }
                let key = asked.question.key.as_deref();
                let withdrawn = asked.reply.closed().map(|()| withdrawn(key)).boxed();
                // The task may end while the user thinks.
                let response = tokio::select! {
                    biased;
                    ended = &mut waiting => break ended.map(drop),
                    response = respond(&asked.question, withdrawn) => response?,
                };
                let _ = asked.reply.send(response);
                answered.push(asked.question);
                limit = SystemClock.sleep(LONGEST_SILENCE);
            }
            Some(Message::Delivered) => {
                delivered += 1;
                limit = SystemClock.sleep(LONGEST_PAUSE);
            }
            Some(Message::TooLate) => {
                let key = answered.last().and_then(|question| question.key.as_deref());
                return Err(withdrawn(key));
            }
            None => break Ok(()),
        }
    };
    if delivered > 0 || (!answered.is_empty() && is_taken_after_end(&mut questions).await) {
        tell_others(named, task, &others);
        if others.is_empty() && ended.is_ok() && !has_gone_to_its_end(task).await {
            tell_to_wait(named, task).await;
        }
        let first = answered.into_iter().next();
        return Ok(first.and_then(|question| question.key));
    }
    ended?;
    let status = task.get().await?.status;
    Err(not_taken(status, !answered.is_empty()))
}

/// Whether the server has taken the answer: the end of the task may be seen before its word.
async fn is_taken_after_end(questions: &mut Questions) -> bool {
    let mut limit = SystemClock.sleep(LONGEST_PAUSE);
    loop {
        tokio::select! {
            biased;
            message = questions.0.recv() => match message {
                Some(Message::Delivered) => return true,
                Some(Message::Asked(_) | Message::TooLate) => {}
                None => return false,
            },
            () = &mut limit => return false,
        }
    }
}

/// Tells what the task asks besides, and how to answer it.
fn tell_others(named: &NamedTask, task: &TaskHandle, others: &[AskedQuestion]) {
    for AskedQuestion { question, .. } in others {
        let tool = named.call().map(|call| call.tool.as_str());
        output::note(&format!(
            "the task also asks: {}",
            text_of_task(question, tool, task.id())
        ));
        output::note(&match question.key {
            Some(_) => waiting::how_to_answer(&named.server, task.id(), question),
            None => waiting::how_to_be_asked(&named.server, task.id()),
        });
    }
}

/// Why no answer has reached the task.
fn not_taken(status: TaskStatus, was_asked: bool) -> Failure {
    Failure::refused(match (status.is_final(), was_asked) {
        (true, _) => format!("the task has ended ({})", states::of_task(status)),
        (false, false) => format!(
            "the server has not asked within {} s; some servers ask only once, and this one may have asked another client",
            LONGEST_SILENCE.as_secs()
        ),
        (false, true) => format!(
            "the server has not taken the answer within {} s",
            LONGEST_SILENCE.as_secs()
        ),
    })
}

/// What is asked within a moment of a question that has no answer yet. An error with the end of the task, if it ends meanwhile.
async fn asked_together<T>(
    questions: &mut Questions,
    mut ended: Pin<&mut impl Future<Output = T>>,
) -> Result<Vec<AskedQuestion>, T> {
    let mut together = SystemClock.sleep(ASKED_TOGETHER);
    let mut asked = Vec::new();
    loop {
        tokio::select! {
            biased;
            message = questions.0.recv() => match message {
                Some(Message::Asked(other)) => asked.push(*other),
                Some(Message::Delivered | Message::TooLate) => {}
                None => return Ok(asked),
            },
            ended = &mut ended => return Err(ended),
            () = &mut together => return Ok(asked),
        }
    }
}

/// Watches the task until it continues, but not for long, and tells what it asks besides the questions with these keys. That is recorded, and can be answered later.
pub(super) async fn tell_what_else_it_asks(
    named: &NamedTask,
    task: &TaskHandle,
    mut questions: Questions,
    answered: &[String],
) {
    let (gone_on, mut has_gone_on) = watch::channel(false);
    let mut observe = |event: Event<'_>| {
        if let Event::Status(task) = event {
            gone_on.send_replace(task.status != TaskStatus::InputRequired);
        }
    };
    let mut others: Vec<AskedQuestion> = Vec::new();
    let is_other = |others: &[AskedQuestion], asked: &AskedQuestion| {
        let key = &asked.question.key;
        let is_answered = key.as_ref().is_some_and(|key| answered.contains(key));
        // The same question may come on two streams.
        !is_answered && (key.is_none() || others.iter().all(|other| other.question.key != *key))
    };
    {
        let mut waiting = pin!(task.wait(&mut observe));
        let mut limit = SystemClock.sleep(LONGEST_PAUSE);
        loop {
            tokio::select! {
                biased;
                message = questions.0.recv() => match message {
                    // Kept, so that it stays open.
                    Some(Message::Asked(asked)) if is_other(&others, &asked) => others.push(*asked),
                    Some(Message::Asked(_) | Message::Delivered | Message::TooLate) => {}
                    None => break,
                },
                _ = &mut waiting => return,
                _ = has_gone_on.wait_for(|gone_on| *gone_on) => break,
                () = &mut limit => break,
            }
        }
    }
    if others.is_empty() {
        tell_to_wait(named, task).await;
    }
    for AskedQuestion { question, .. } in &others {
        let tool = named.call().map(|call| call.tool.as_str());
        output::note(&format!(
            "the task also asks: {}",
            text_of_task(question, tool, task.id())
        ));
        output::note(&waiting::how_to_answer(&named.server, task.id(), question));
    }
}

async fn has_gone_to_its_end(task: &TaskHandle) -> bool {
    task.get().await.is_ok_and(|now| now.status.is_final())
}

/// A question that comes while nobody is connected is lost on some servers (FastMCP 3), and nothing says later that there was one. Longhaul's ask again.
async fn tell_to_wait(named: &NamedTask, task: &TaskHandle) {
    let server = task.connection().server().await;
    if server.is_ok_and(|server| server.takes_idempotency_keys()) {
        return;
    }
    let line = named.server.task_line("task", task.id(), &["--wait"]);
    output::note(&format!(
        "the task may ask again, and some servers ask only who is connected then; to be there:\n  {line}"
    ));
}

fn is_known(answered: &[InputRequest], others: &[AskedQuestion], asked: &AskedQuestion) -> bool {
    let mut known = answered.iter().chain(others.iter().map(|other| &other.question));
    known.any(|known| *known == asked.question)
}
