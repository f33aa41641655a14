//! Placeholders behind a program that starts another: one that names this other program, or a variable by which it loads code.

use super::{
    Place, Script, ScriptKind, Word,
    interpreters::{EXEC_OPTIONS, basename},
};

/// A program that starts the one which an operand of it names.
struct Starter {
    name: &'static str,
    /// How many operands come before the program's name.
    before: usize,
    /// Letters of options with a value.
    values: &'static str,
}

const fn starter(name: &'static str, before: usize, values: &'static str) -> Starter {
    Starter { name, before, values }
}

const STARTERS: [Starter; 18] = [
    starter("env", 0, "uCS"),
    starter("timeout", 1, "ks"),
    starter("nice", 0, "n"),
    starter("ionice", 0, "cnpPu"),
    starter("nohup", 0, ""),
    starter("setsid", 0, ""),
    starter("stdbuf", 0, "ioe"),
    starter("time", 0, "fo"),
    starter("sudo", 0, "ugpCTRDhUrt"),
    starter("doas", 0, "uC"),
    starter("chrt", 1, "TPD"),
    starter("taskset", 1, ""),
    starter("unbuffer", 0, ""),
    starter("eatmydata", 0, ""),
    starter("fakeroot", 0, "lfsib"),
    starter("xargs", 0, "IndLsEaP"),
    starter("tini", 0, "p"),
    starter("dumb-init", 0, "r"),
];

/// The words by which a caller could have a program start any code: those that name the other program, and the variables that it gets.
pub(super) fn find(words: &[Word]) -> Vec<Script> {
    let mut found = Vec::new();
    let mut push = |word, program: &str, kind| {
        found.push(Script {
            word,
            program: program.to_owned(),
            place: Place::Other,
            kind,
        });
    };
    let mut next = Some(0);
    while let Some(at) = next
        && let Some(program) = words.get(at).and_then(Word::literal).map(basename)
    {
        next = started_by(&program, &words[at + 1..]).map(|after| at + 1 + after);
        let end = next.unwrap_or(words.len());
        for (at, word) in words.iter().enumerate().take(end).skip(at + 1) {
            if !word.known.starts_with('-') && word.known.contains('=') {
                push(at, &program, ScriptKind::Variable);
            }
        }
        if let Some(at) = next.filter(|at| words[*at].begins_with_placeholder()) {
            push(at, &program, ScriptKind::Program);
        }
    }
    for (at, pair) in words.windows(2).enumerate() {
        let option = pair[0].literal().filter(|word| EXEC_OPTIONS.contains(word));
        if let Some(option) = option
            && pair[1].begins_with_placeholder()
        {
            push(at + 1, option, ScriptKind::Program);
        }
    }
    found
}

/// Where the program's name is among the words behind the one that starts it.
fn started_by(program: &str, words: &[Word]) -> Option<usize> {
    let starter = STARTERS.iter().find(|starter| starter.name == program)?;
    let mut operands = 0;
    let mut is_value = false;
    words.iter().position(|word| {
        let known = word.known.as_str();
        if std::mem::take(&mut is_value) {
            return false;
        }
        if known.starts_with('-') {
            let letter = known.strip_prefix('-').filter(|letters| letters.len() == 1);
            is_value = word.literal().is_some() && letter.is_some_and(|letter| starter.values.contains(letter));
            return false;
        }
        // A variable of `env` or `sudo`.
        if known.contains('=') {
            return false;
        }
        operands += 1;
        operands > starter.before
    })
}
