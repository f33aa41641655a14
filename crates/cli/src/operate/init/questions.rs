//! The three questions of `longhaul init`.

use super::{
    InitError,
    text::{Answers, Draft, Place},
};
use crate::{
    ask::{self, FormError, Question},
    config::{Config, ConfigError, is_server_name},
    output::{self, shell_word::split_words},
};
use longhaul_client::{FieldKind, Form, FormChoice, FormField};
use serde_json::{Map, Value};

const NAME: &str = "name";
const COMMAND: &str = "command";
const PLACE: &str = "place";
const HTTP: &str = "http";

/// Asks until the answers make a file that can be served.
pub(super) async fn ask(
    default_name: String,
    drafted: impl Fn(&Answers) -> Result<(Draft, Config), ConfigError>,
    warn: impl Fn(&Draft, &Config),
) -> Result<(Answers, Draft, Config), InitError> {
    let name = name(&default_name).await?;
    let (mut words, mut place) = (command().await?, None);
    loop {
        // Where it is used makes no command valid.
        let answers = Answers {
            name: name.clone(),
            words,
            place: place.unwrap_or(Place::Http),
        };
        match drafted(&answers) {
            Ok((draft, config)) if place.is_some() => return Ok((answers, draft, config)),
            Ok((draft, config)) => {
                warn(&draft, &config);
                place = Some(self::place().await?);
                words = answers.words;
            }
            Err(error) => {
                let problems = error.problems.iter().map(|problem| problem.message.clone());
                output::note(&format!(
                    "that does not work: {}",
                    problems.collect::<Vec<_>>().join("; ")
                ));
                words = command().await?;
            }
        }
    }
}

async fn name(default: &str) -> Result<String, InitError> {
    loop {
        let field = FormField {
            is_required: true,
            title: Some("Name".to_owned()),
            description: Some("letters, digits, _ - .".to_owned()),
            default: Some(default.into()),
            ..FormField::new(NAME, FieldKind::TEXT)
        };
        let message = "What is the server called? Clients see the name, and the folder with its tasks has it.";
        let given = answer(message, field).await?;
        match text(&given, NAME).trim() {
            given if is_server_name(given) => return Ok(given.to_owned()),
            given => output::note(&format!(
                "a server cannot be called {given:?}: use 1 to 64 of A-Z a-z 0-9 _ - . and no dot at the beginning"
            )),
        }
    }
}

/// `None` for the example.
async fn command() -> Result<Option<Vec<String>>, InitError> {
    loop {
        let field = FormField {
            title: Some("Command".to_owned()),
            description: Some("nothing for an example that counts".to_owned()),
            ..FormField::new(COMMAND, FieldKind::TEXT)
        };
        let message = "What does the first tool run? Type a program with its arguments, such as: ./build.sh {branch}\n\
                       {branch} is what the caller gives. No shell reads the line: no variables, no pipes.";
        let given = answer(message, field).await?;
        match split_words(text(&given, COMMAND)) {
            Ok(words) if words.is_empty() => return Ok(None),
            Ok(words) => return Ok(Some(words)),
            Err(error) => output::note(&error.to_string()),
        }
    }
}

async fn place() -> Result<Place, InitError> {
    let choice = |(value, title): (&str, &str)| FormChoice {
        value: value.to_owned(),
        title: Some(title.to_owned()),
    };
    let places = [
        (HTTP, "over HTTP, at http://127.0.0.1:7411/mcp"),
        (
            "hosts",
            "only by MCP hosts on this machine, which start `longhaul stdio`",
        ),
    ];
    let field = FormField {
        is_required: true,
        title: Some("Place".to_owned()),
        ..FormField::new(PLACE, FieldKind::Choice(places.map(choice).into()))
    };
    let given = answer("Where is it used?", field).await?;
    Ok(match text(&given, PLACE) {
        HTTP => Place::Http,
        _ => Place::Hosts,
    })
}

fn text<'a>(given: &'a Map<String, Value>, name: &str) -> &'a str {
    given.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// Shows a form with one field.
async fn answer(message: &str, field: FormField) -> Result<Map<String, Value>, InitError> {
    let form = Form {
        fields: vec![field],
        is_closed: false,
    };
    let given = ask::fill_in(Question::of_form(message, form)).await;
    given.map_err(|error| match error {
        FormError::Dismissed => InitError::Declined,
        FormError::Interrupted => InitError::Interrupted,
        FormError::NoTerminal(why) => InitError::NotShown { why },
    })
}
