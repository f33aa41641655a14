//! A person's evening at a terminal of 80x24: the commands run in a real pseudo-terminal, and the screens are kept in `screens/`.
//! `TRYCMD=overwrite` writes them again.

use crate::{
    questions::asking,
    support::*,
    terminal::{Keys, Terminal},
};

const CLOSED: &str =
    "the form is closed: the question was answered elsewhere, or the server does not wait for the answer any more";

#[test]
fn an_evening() {
    let served = served();
    let mut terminal = Terminal::new(&served, "evening");

    terminal.run(&["tasks"], &[]);
    terminal.screen("nothing-yet");

    // A call that asks in the middle: each kind of field, one of them left empty.
    let mut call = terminal.begin(&["call", "ship"]);
    call.until("type to filter]");
    call.screen("form-choice");
    call.press(Keys::DOWN);
    call.until("> Production");
    call.press(Keys::ENTER);
    call.until("[how many");
    call.press("7\r");
    call.until("it must be a whole number from 1 to 5");
    call.screen("form-refused");
    call.press(Keys::BACKSPACE);
    call.press("2\r");
    call.until("> (leave it empty)");
    call.press(Keys::ENTER);
    call.ends(0);
    terminal.screen("called");

    // One that is left for later, and one that was never waited for.
    terminal.clear();
    let mut call = terminal.begin(&["call", "ship"]);
    call.until("type to filter]");
    call.press(Keys::ESC);
    call.until("goes on without an answer");
    call.screen("left");
    call.press(Keys::DOWN);
    call.until("> decide later");
    call.press(Keys::ENTER);
    call.ends(7);
    terminal.screen("later");
    terminal.clear();
    terminal.run(&["cancel", &served.only_asking()], &[]);
    let id = terminal.name("call", &served.detach("ship"));
    served.asks(&id, 1);
    let packing = terminal.name("pack", &served.detach("pack"));
    served.says(&packing, "packing 3/10");
    terminal.clear();
    terminal.run(&["tasks"], &[]);
    terminal.screen("listed");
    terminal.clear();
    terminal.run(&["task", &id[6..]], &[]);
    terminal.screen("shown");

    // The only one that asks is meant.
    terminal.clear();
    let mut answer = terminal.begin(&["answer"]);
    answer.until("type to filter]");
    answer.press(Keys::ENTER);
    answer.until("[how many");
    answer.press(Keys::ENTER);
    answer.until("> (leave it empty)");
    answer.press(Keys::UP);
    answer.until("> no");
    answer.press(Keys::ENTER);
    answer.ends(0);
    terminal.screen("answered");
    terminal.clear();
    terminal.run(&["task", &id, "--wait"], &[]);
    terminal.screen("result");
    terminal.clear();
    terminal.run(&["tasks"], &[]);
    terminal.screen("in-the-end");
}

/// A window that is closed while a form is shown takes the command with it.
#[test]
fn a_terminal_that_is_closed_ends_the_command() {
    let served = served();
    let mut terminal = Terminal::new(&served, "closed");
    let ended = terminal.close_at(&["call", "ship"], "type to filter]");
    assert_eq!(ended.code(), Some(143), "{ended:?}");
    let id = served.only_asking();
    for words in [&["answer", &*id][..], &["task", &*id, "--wait"]] {
        let mut terminal = Terminal::new(&served, "closed");
        let ended = terminal.close_at(words, "type to filter]");
        assert_eq!(ended.code(), Some(143), "{words:?}: {ended:?}");
    }
}

/// Also if no SIGHUP says that the window is closed, the form does not wait for keys for ever.
#[cfg(target_os = "linux")]
#[test]
fn a_terminal_that_is_gone_ends_the_form() {
    let served = served();
    let id = served.detach("ship");
    for words in [&["answer", &*id][..], &["task", &*id, "--wait"]] {
        let mut terminal = Terminal::new(&served, "closed");
        let ended = terminal.close_unheard_at(words, "type to filter]");
        assert_eq!(ended.code(), Some(143), "{words:?}: {ended:?}");
    }
}

/// A question that another client answers is taken from the terminal. What is typed then is the answer to the next one, and to no other.
#[test]
fn a_withdrawn_form_reads_no_more_keys() {
    let served = served();
    let mut terminal = Terminal::new(&served, "withdrawn");
    let mut call = terminal.begin(&["call", "pair"]);
    call.until("First?");
    call.until("day");
    let id = served.only_asking();
    served.asks(&id, 2);
    served.done(&["answer", &id, "--question", "in-1", "day=2026-01-01"]);
    call.until("Second?");
    call.press("2026-02-13");
    call.until("2026-02-13");
    call.press(Keys::ENTER);
    call.until("people");
    call.press(Keys::ENTER);
    call.until("2026-01-01 2026-02-13");
    call.ends(0);
}

/// Ctrl with a letter does what it does in a shell, or nothing. It never types the letter.
#[test]
fn ctrl_with_a_letter_types_no_letter() {
    let served = served();
    let mut terminal = Terminal::new(&served, "ctrl");
    let mut call = terminal.begin(&["call", "book"]);
    call.until("? day");
    call.press("next week");
    call.until("? day next week");
    call.press(&Keys::ctrl('u'));
    call.press("026-02-13x");
    for letter in "bflorqtvwxyz".chars() {
        call.press(&Keys::ctrl(letter));
    }
    call.press(&Keys::ctrl('h'));
    call.press(&Keys::ctrl('a'));
    call.press("2");
    call.press(&Keys::ctrl('e'));
    call.press(&Keys::ctrl('k'));
    call.press(Keys::ENTER);
    call.until("> day 2026-02-13");
    call.until("? people");
    call.press(Keys::ENTER);
    call.until("booked for 2026-02-13");
    call.ends(0);
}

/// What is left of a form that was not answered: nothing but a line that says why.
#[test]
fn a_form_that_is_closed_leaves_a_clean_terminal() {
    let served = served();
    let mut terminal = Terminal::new(&served, "closed");
    let mut call = terminal.begin(&["call", "ship"]);
    call.until("type to filter]");
    let id = served.only_asking();
    served.done(&["cancel", &id]);
    call.until(CLOSED);
    call.ends(4);
    terminal.is_usable();

    terminal.clear();
    let mut call = terminal.begin(&["call", "ship"]);
    call.until("type to filter]");
    call.terminate();
    call.until("the form is closed: this command was terminated by a signal");
    call.ends(143);
    terminal.is_usable();
}

/// `answer` shows what somebody else may answer, too: its form is closed then, and nothing is answered twice.
#[test]
fn the_form_of_an_answer_is_closed_when_its_question_is_gone() {
    let served = served();
    let mut terminal = Terminal::new(&served, "answer");
    for (era, key) in [("--era=modern", "in-1"), ("--era=legacy", "q1")] {
        let call = |tool: &str| served.done(&["call", tool, "--detach", era]);
        let id = call("pair");
        served.asks(&id, 2);
        terminal.clear();
        let mut answer = terminal.begin(&["answer", &id]);
        answer.until("First?");
        answer.until("day");
        served.done(&["answer", &id, "--question", key, "day=2026-01-01"]);
        answer.until(CLOSED);
        answer.until("is already answered, or withdrawn; nothing was answered");
        // The other question is still open.
        answer.until("Second?");
        answer.until("? day");
        answer.press("2026-02-13\r");
        answer.until("? people");
        answer.press(Keys::ENTER);
        answer.ends(0);
        terminal.is_usable();
        assert_eq!(served.done(&["task", &id, "--wait"]), "2026-01-01 2026-02-13");

        let id = call("ship");
        served.asks(&id, 1);
        terminal.clear();
        let mut answer = terminal.begin(&["answer", &id]);
        answer.until("type to filter]");
        served.done(&["cancel", &id]);
        answer.until(CLOSED);
        answer.until("the task has ended (cancelled); nothing was answered");
        answer.ends(5);
        terminal.is_usable();
    }
}

/// So is the form of what a call asks before it is a task, whose first form the call itself shows.
#[test]
fn the_form_of_an_answer_to_a_call_is_closed_when_the_call_is_answered() {
    let served = asking();
    let (mut first, mut second) = (Terminal::new(&served, "first"), Terminal::new(&served, "second"));
    let mut call = first.begin(&["call", "early"]);
    call.until("Start?");
    call.until("approved");
    let listed = served.shown(&["tasks", "--json", "--offline"]);
    let name = listed["calls"][0]["call"].as_str().unwrap();
    let mut answer = second.begin(&["answer", name]);
    answer.until("Start?");
    answer.until("approved");
    call.press("y\r");
    call.until("copies");
    call.press(Keys::ENTER);
    answer.until(CLOSED);
    answer.until("any more; nothing was answered");
    answer.ends(5);
    call.until("approved: ");
    call.ends(0);
    second.is_usable();
}

/// Every question of a task has its form, one after the other.
#[test]
fn all_questions_of_a_task_are_answered_in_one_command() {
    let served = served();
    let mut terminal = Terminal::new(&served, "all");
    let id = served.detach("pair");
    served.asks(&id, 2);
    let mut answer = terminal.begin(&["answer", &id]);
    for (question, day) in [("First?", "2026-01-01"), ("Second?", "2026-02-13")] {
        answer.until(question);
        answer.until("? day");
        answer.press(day);
        answer.press(Keys::ENTER);
        answer.until("? people");
        answer.press(Keys::ENTER);
    }
    answer.ends(0);
    assert_eq!(served.done(&["task", &id, "--wait"]), "2026-01-01 2026-02-13");
}

/// Tasks of two servers with all columns: names are shortened, and ids are not.
#[test]
fn the_list_fits_a_terminal_of_100_columns() {
    let (served, other) = (served(), asking());
    let mut terminal = Terminal::wide(&served, "columns-100", 100);
    terminal.has_default_server = false;
    let port = other.url.trim_end_matches("/mcp").rsplit(':').next().unwrap();
    terminal.name("2", port);
    let call = |url: &str, tool: &str| {
        let called = longhaul(&["call", url, tool, "--detach"], &served.home)
            .output()
            .unwrap();
        exit(&called, 0)
    };
    let ids = [
        call(&served.url, "pack"),
        call(&other.url, "ship"),
        call(&served.url, "ship"),
    ];
    served.says(&ids[0], "packing 3/10");
    served.asks(&ids[2], 1);
    served.done(&["cancel", &ids[2]]);
    while json(
        &longhaul(&["task", &other.url, &ids[1], "--json"], &served.home)
            .output()
            .unwrap(),
    )["status"]
        != "input_required"
    {
        std::thread::yield_now();
    }
    exit(&longhaul(&["tasks"], &served.home).output().unwrap(), 0);
    terminal.clear();
    terminal.begin(&["tasks", "--offline"]).ends(0);
    terminal.screen("listed");
}

/// What is typed while a command works is no answer to what it asks later.
#[test]
fn what_is_typed_before_the_question_does_not_answer_it() {
    let served = served();
    let mut terminal = Terminal::new(&served, "typed-early");
    let mut call = terminal.begin(&["call", "late"]);
    call.until("is waited for");
    call.press("2026-01-01\r1\r");
    call.until("2026-01-01");
    served.may_ask.send(true).unwrap();
    call.until("? day");
    call.press("2026-02-13\r");
    call.until("? people");
    call.press(Keys::ENTER);
    call.until("booked for 2026-02-13");
    call.ends(0);
}
