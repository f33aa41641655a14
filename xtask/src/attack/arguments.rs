//! Arguments that a command must get unchanged, or not at all.

use super::{
    attempts::Attempts,
    http::excerpt,
    json,
    raw::{self, modern_call},
    site::{AttackSite, Programs, end_of},
};
use harness::mcp::{CallOutcome, ClientEra, RequestError};
use harness::rounds::RunError;
use serde_json::json as value;
use std::process::Command;

const TERMINAL_SEQUENCES: &str = "\u{1b}[2J\u{7}";

pub(super) fn run(programs: &Programs, report: &mut Attempts) -> Result<(), RunError> {
    let mut site = AttackSite::start(programs, "arguments", "")?;
    let mut client = site.client(ClientEra::Modern);
    let created = site.file("created");
    let path = created.display();
    let texts = [
        format!("; touch {path}"),
        format!("$(touch {path})"),
        format!("`touch {path}`"),
        format!("\n touch {path}\n"),
        format!("' ; touch {path} ; '"),
        format!("\" ; touch {path} ; \""),
        format!("| touch {path}"),
        "%s%n%x".to_owned(),
        TERMINAL_SEQUENCES.to_owned(),
        "{text}".to_owned(),
        "\u{202e}\u{feff}".to_owned(),
        "*".to_owned(),
        "~".to_owned(),
        "x".repeat(100_000),
    ];
    for text in &texts {
        // A result is what a terminal would show.
        let shown = if text == TERMINAL_SEQUENCES { "" } else { text };
        let ended = client
            .create("say", value!({"text": text}))
            .and_then(|task| end_of(&mut client, &task));
        let name: String = text.chars().take(40).collect();
        report.attempt(
            &format!("text {name:?}"),
            match ended {
                Ok(CallOutcome::Result {
                    is_error: false,
                    text: printed,
                }) if printed == shown => Ok(()),
                other => Err(format!("came back as {}", describe_end(&other))),
            },
        );
    }
    for text in ["-n", "--help", "-", "-\0", "a\0b"] {
        report.attempt(
            &format!("text {text:?}"),
            refused(client.create("say", value!({"text": text}))),
        );
    }
    report.check("commands in a text", !created.exists(), || "one of them ran".to_owned());
    // Longer than Linux allows for one argument.
    let ended = client
        .create("say", value!({"text": "y".repeat(1 << 20)}))
        .and_then(|task| end_of(&mut client, &task));
    report.check(
        "an argument of 1 MiB",
        matches!(
            ended,
            Ok(CallOutcome::Result { is_error: true, .. }) | Err(RequestError::Refused { .. })
        ),
        || describe_end(&ended),
    );
    numbers(&site, report)?;
    let many: String = (0..250_000).map(|nth| format!("\"p{nth}\":1,")).collect();
    let bodies = [
        ("250,000 unknown properties", format!("{{{}\"text\":\"x\"}}", many)),
        (
            "an unknown property of 1 MiB",
            format!("{{\"{}\":1,\"text\":\"x\"}}", "p".repeat(1 << 20)),
        ),
        ("a text that is an object", "{\"text\":{}}".to_owned()),
        (
            "a text that is 100,000 numbers",
            format!("{{\"text\":[{}1]}}", "1,".repeat(100_000)),
        ),
        ("__proto__", "{\"__proto__\":{\"text\":\"x\"}}".to_owned()),
        ("arguments that are an array", "[]".to_owned()),
        ("arguments that are null", "null".to_owned()),
        ("the same property twice", "{\"text\":\"x\",\"text\":1}".to_owned()),
    ];
    for (what, arguments) in bodies {
        let answer = raw::send(site.address(), &modern_call("say", &arguments, true))?;
        report.attempt(
            what,
            json::refused(&answer).or_else(|why| tool_error(&answer).ok_or(why)),
        );
    }
    interpreters(programs, report)?;
    report.attempt("after bad arguments", site.serves_clients());
    Ok(())
}

/// A result with `isError`, which a model reads for invalid arguments, of a bounded length.
fn tool_error(answer: &raw::RawAnswer) -> Option<()> {
    let message: serde_json::Value = serde_json::from_slice(answer.body()).ok()?;
    (message["result"]["isError"] == true && answer.body().len() <= 16 * 1024).then_some(())
}

fn refused(created: Result<String, RequestError>) -> Result<(), String> {
    match created {
        Err(RequestError::Refused { .. } | RequestError::Invalid(_)) => Ok(()),
        Err(error) => Err(error.to_string()),
        Ok(task) => Err(format!("task {task} was created")),
    }
}

/// A number is given to the command as its schema accepted it, or refused.
fn numbers(site: &AttackSite, report: &mut Attempts) -> Result<(), RunError> {
    let mut client = site.client(ClientEra::Modern);
    for number in [
        "100.0000000000000000001",
        "1e-400",
        "1e400",
        "-0",
        "-0.0",
        "-1e-400",
        "1E2",
        "100e0",
        "0.1e3",
        "99999999999999999999999999",
        "1e-5",
        "0.30000000000000000001",
        "100.00000000000000000000000000000000000",
    ] {
        for tool in ["number", "integer"] {
            let answer = raw::send(site.address(), &modern_call(tool, &format!("{{\"n\":{number}}}"), true))?;
            let message: serde_json::Value = serde_json::from_slice(answer.body()).unwrap_or_default();
            let result = match message["result"]["taskId"].as_str() {
                None if json::refused(&answer).is_ok() || tool_error(&answer).is_some() => Ok(()),
                None => Err(excerpt(&answer)),
                Some(task) => match end_of(&mut client, task) {
                    Ok(CallOutcome::Result { is_error: false, text }) => in_bounds(&text, tool == "integer"),
                    other => Err(describe_end(&other)),
                },
            };
            report.attempt(&format!("{tool} {number}"), result);
        }
    }
    Ok(())
}

/// Checks digit by digit, because a parser that rounds would hide a number out of bounds.
fn in_bounds(text: &str, integer: bool) -> Result<(), String> {
    let out = || Err(format!("the command was given {text}"));
    let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let Ok(exponent) = exponent.trim_start_matches('+').parse::<i64>() else {
        return out();
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let negative = whole.starts_with('-');
    let digits: Vec<u8> = whole
        .bytes()
        .chain(fraction.bytes())
        .filter(u8::is_ascii_digit)
        .collect();
    let Some(first) = digits.iter().position(|digit| *digit != b'0') else {
        return Ok(());
    };
    let last = digits.iter().rposition(|digit| *digit != b'0').unwrap_or(first);
    // The first and the last digit, as powers of ten.
    let point = i64::try_from(whole.trim_start_matches('-').len()).unwrap_or_default() + exponent;
    let power = |digit: usize| point - 1 - i64::try_from(digit).unwrap_or_default();
    let hundred = power(first) == 2 && digits[first] == b'1' && first == last;
    if negative || power(first) < -300 || (power(first) >= 2 && !hundred) || (integer && power(last) < 0) {
        return out();
    }
    Ok(())
}

/// Configurations that pass a value to an interpreter as code.
fn interpreters(programs: &Programs, report: &mut Attempts) -> Result<(), RunError> {
    let commands = [
        r#"["sh", "-c", "echo {who}"]"#,
        r#"["/bin/bash", "-lc", "echo {who}"]"#,
        r#"["env", "A=1", "sh", "-c", "echo {who}"]"#,
        r#"["timeout", "5", "sh", "-c", "echo {who}"]"#,
        r#"["nice", "-n", "5", "bash", "-ec", "echo {who}"]"#,
        r#"["python3", "-c", "print('{who}')"]"#,
        r#"["perl", "-e", "print '{who}'"]"#,
        r#"["node", "--eval", "console.log('{who}')"]"#,
        r#"["ruby", "-e", "puts '{who}'"]"#,
        r#"["awk", "BEGIN { print {who} }"]"#,
        r#"["sh", "-c", "{who}"]"#,
    ];
    let folder = programs.root.join("interpreters");
    std::fs::create_dir_all(&folder)?;
    for command in commands {
        let configuration = folder.join("jobs.toml");
        let text = format!(
            "[server]\nname = \"x\"\n[[tool]]\nname = \"x\"\ndescription = \"x\"\ncommand = {command}\ninput = {{ who = {{ type = \"string\" }} }}\n"
        );
        std::fs::write(&configuration, text)?;
        let checked = Command::new(&programs.server)
            .arg("check")
            .arg(&configuration)
            .output()?;
        report.check(&format!("command {command}"), !checked.status.success(), || {
            "check accepts it".to_owned()
        });
    }
    Ok(())
}

fn describe_end(end: &Result<CallOutcome, RequestError>) -> String {
    format!("{end:?}").chars().take(300).collect()
}
