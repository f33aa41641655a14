//! What to write in the place of a placeholder inside a script.

use super::basename;
use crate::command::definition::template::Template;

/// The longest script that is shown rewritten.
const LONGEST_REWRITE: usize = 200;

pub(super) const STDIN_REMEDY: &str = "put the script into `command` and the value into an argument of its own, or have the script read it from standard input as data";

pub(super) const FILE_REMEDY: &str = "name a script of your own, and give it the file as an argument behind that";

pub(super) const PROGRAM_REMEDY: &str = "write it yourself, or name the values that it may have with `enum`";

/// What to do about the placeholder in `command[element]`, with an example.
pub(super) fn remedy(command: &[&str], element: usize, program: &str) -> String {
    if let Some(safe) = shell_with_arguments(command, element) {
        return format!("pass it as an argument: {safe}");
    }
    let template = command.get(element).and_then(|text| Template::parse(text).ok());
    let value = template.and_then(|template| Some(template.placeholders().next()?.to_string()));
    let value = value.unwrap_or_default();
    let bare = program.trim_end_matches(|char: char| char.is_ascii_digit() || ".-".contains(char));
    let example = match bare {
        "sh" | "ash" | "bash" | "rbash" | "dash" | "zsh" | "ksh" | "mksh" | "yash" => {
            list(&[program, "-c", "… \"$1\" …", program, &value])
        }
        "fish" => list(&[program, "-c", "… $argv[1] …", &value]),
        "python" | "pypy" => list(&[program, "-c", "import sys; … sys.argv[1] …", &value]),
        "perl" => list(&[program, "-e", "… $ARGV[0] …", "--", &value]),
        "ruby" => list(&[program, "-e", "… ARGV[0] …", "--", &value]),
        "node" | "nodejs" => list(&[program, "-e", "… process.argv[1] …", "--", &value]),
        "php" => list(&[program, "-r", "… $argv[1] …", "--", &value]),
        "awk" | "gawk" | "mawk" | "nawk" => list(&[program, "-v", &format!("value={value}"), "… value …"]),
        "ssh" => {
            return format!(
                "pass it through `stdin`: {} with stdin = \"{value}\\n\"",
                list(&["ssh", "HOST", "read -r value; … \"$value\" …"])
            );
        }
        "make" | "gmake" => {
            return "pass it through `stdin`, and have the recipe read it from there: make expands `$(shell …)` in the values of variables, also in those \
                    from the environment"
                .to_owned();
        }
        "git" | "tar" | "gtar" | "bsdtar" => {
            return "put the program into a script file, and the value where that reads it as data".to_owned();
        }
        "npx" | "npm" => list(&[program, "exec", "--", "PROGRAM", &value]),
        "su" | "runuser" => list(&[program, "-c", "… \"$1\" …", "USER", "--", "sh", &value]),
        _ => return "pass it as an argument of its own, after the script, or through `stdin`".to_owned(),
    };
    format!("pass it as an argument: {example}")
}

/// `sh -c 'echo {who}'` with its placeholders as arguments of the script. `None` where the script is long, has arguments already, or is not
/// a POSIX shell's.
fn shell_with_arguments(command: &[&str], element: usize) -> Option<String> {
    const POSIX: &[&str] = &["sh", "ash", "bash", "rbash", "dash", "zsh", "ksh", "mksh", "yash"];
    let script = command.get(element)?;
    let is_last = element + 1 == command.len();
    let flag = element.checked_sub(1)?;
    let shell = command[..flag].last()?;
    let by_flag = command[flag].starts_with('-') && command[flag].ends_with('c');
    if script.len() > LONGEST_REWRITE || !is_last || !by_flag || !POSIX.contains(&&*basename(shell)) {
        return None;
    }
    let template = Template::parse(script).ok()?;
    let mut placeholders: Vec<String> = Vec::new();
    for placeholder in template.placeholders().map(|placeholder| placeholder.to_string()) {
        if !placeholders.contains(&placeholder) {
            placeholders.push(placeholder);
        }
    }
    let mut words: Vec<String> = command[..element].iter().map(|word| (*word).to_owned()).collect();
    words.push(with_parameters(script, &placeholders)?);
    words.push(basename(shell));
    words.extend(placeholders);
    Some(list(&words.iter().map(String::as_str).collect::<Vec<_>>()))
}

/// The script with `$1`, `$2` … in the place of placeholders, quoted as the place needs it.
fn with_parameters(script: &str, placeholders: &[String]) -> Option<String> {
    let mut text = String::new();
    let mut quote = None;
    let mut chars = script.chars().peekable();
    while let Some(char) = chars.next() {
        match char {
            '{' | '}' if chars.next_if_eq(&char).is_some() => text.extend([char, char]),
            '{' => {
                let name: String = chars.by_ref().take_while(|char| *char != '}').collect();
                let placeholder = format!("{{{name}}}");
                let number = 1 + placeholders.iter().position(|other| *other == placeholder)?;
                let parameter = if number < 10 && quote.is_none() {
                    format!("${number}")
                } else {
                    format!("${{{{{number}}}}}")
                };
                match quote {
                    Some('\'') => text.push_str(&format!("'\"{parameter}\"'")),
                    Some(_) => text.push_str(&parameter),
                    None => text.push_str(&format!("\"{parameter}\"")),
                }
            }
            '\\' if quote != Some('\'') => {
                text.push(char);
                text.extend(chars.next_if(|next| !"{}".contains(*next)));
            }
            '\'' | '"' => {
                match quote {
                    None => quote = Some(char),
                    Some(open) if open == char => quote = None,
                    Some(_) => {}
                }
                text.push(char);
            }
            char => text.push(char),
        }
    }
    Some(text)
}

/// An array of strings as TOML and JSON write it.
fn list(words: &[&str]) -> String {
    let words: Vec<String> = words
        .iter()
        .map(|word| serde_json::Value::from(*word).to_string())
        .collect();
    format!("[{}]", words.join(", "))
}
