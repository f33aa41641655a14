//! Whether an answer fits what was asked. The server has the last word; this says what is wrong before anything is sent.

use crate::{
    input_request::{
        InputRequest,
        invalid_answer::{InvalidAnswer, shorten},
    },
    options::input::InputResponse,
};
use serde_json::{Map, Value};

impl InputRequest {
    /// Whether `answer` fits: an elicitation is accepted with values that fit its form, declined or dismissed. [`TaskHandle::answer`](crate::TaskHandle::answer) sends
    /// no other answer. What is no elicitation has no form: there the server decides.
    ///
    /// ```no_run
    /// # async fn example(task: longhaul_client::TaskHandle) -> Result<(), longhaul_client::RequestError> {
    /// use longhaul_client::InputResponse;
    ///
    /// for question in task.questions().await? {
    ///     let answer = InputResponse::accept(serde_json::json!({"copies": 4}));
    ///     if let Err(wrong) = question.check(&answer) {
    ///         // `copies`: 4 does not fit; it must be a whole number from 1 to 3
    ///         println!("{wrong}");
    ///     }
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`InvalidAnswer`] names the field, what is wrong with it and what would be right.
    pub fn check(&self, answer: &InputResponse) -> Result<(), InvalidAnswer> {
        if !self.is_elicitation() {
            return Ok(());
        }
        let answer = answer.as_value();
        let whole = |problem: String| Err(InvalidAnswer { field: None, problem });
        match answer["action"].as_str() {
            Some("accept") => {}
            Some("decline" | "cancel") => return Ok(()),
            _ => {
                return whole("its `action` must be `accept`, `decline` or `cancel`".to_owned());
            }
        }
        let nothing = Map::new();
        let content = match answer.get("content") {
            None | Some(Value::Null) => &nothing,
            Some(Value::Object(content)) => content,
            Some(other) => {
                let shown = shorten(other);
                return whole(format!(
                    "its content is {shown}, and must be an object with a value for each field"
                ));
            }
        };
        if self.url().is_some() {
            return match content.is_empty() {
                true => Ok(()),
                false => whole("a page takes no values; accept it without any, or decline".to_owned()),
            };
        }
        let form = match self.form() {
            Some(Ok(form)) => form,
            Some(Err(invalid)) => return whole(format!("{invalid}; it can only be declined")),
            None => return Ok(()),
        };
        form.check(content)
            .map_err(|mistakes| InvalidAnswer::new(&mistakes, content))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn problem(schema: &Value, answer: InputResponse) -> Option<String> {
        let request = json!({"method": "elicitation/create", "params": {"message": "?", "requestedSchema": schema}});
        let question = InputRequest::new(Some("q".to_owned()), None, request);
        question.check(&answer).err().map(|error| error.to_string())
    }

    #[test]
    fn a_problem_shows_the_value_and_what_would_be_right() {
        let schema = json!({"type": "object", "required": ["copies"], "properties": {
            "when": {"type": "string", "format": "date"},
            "copies": {"type": "integer", "maximum": 3},
        }});
        let accepted = |content: Value| problem(&schema, InputResponse::accept(content));
        assert_eq!(accepted(json!({"when": "2026-11-23", "copies": 3})), None);
        assert_eq!(
            accepted(json!({"when": "monday"})).unwrap(),
            "`when`: \"monday\" does not fit; it must be a date, such as 2026-11-23; \
             `copies` is missing; it must be a whole number of at most 3"
        );
        assert_eq!(
            accepted(json!([1])).unwrap(),
            "its content is [1], and must be an object with a value for each field"
        );
        for no in [InputResponse::decline(), InputResponse::cancel()] {
            assert_eq!(problem(&schema, no), None);
        }
        let odd = problem(&schema, InputResponse::result(json!({"copies": 1}))).unwrap();
        assert!(odd.contains("`accept`, `decline` or `cancel`"), "{odd}");
    }

    #[test]
    fn what_is_no_form_can_only_be_declined() {
        let schema = json!({"properties": {"a": {"$ref": "#"}}});
        let refused = problem(&schema, InputResponse::accept(json!({"a": 1}))).unwrap();
        assert!(
            refused.contains("`a`: ") && refused.ends_with("it can only be declined"),
            "{refused}"
        );
        assert_eq!(problem(&schema, InputResponse::decline()), None);
    }

    #[test]
    fn a_page_takes_no_values() {
        let request = json!({"method": "elicitation/create", "params": {"mode": "url", "url": "https://a.example/"}});
        let page = InputRequest::new(None, None, request);
        assert_eq!(page.check(&InputResponse::accept_url()), Ok(()));
        assert_eq!(page.check(&InputResponse::accept(json!({}))), Ok(()));
        assert!(page.check(&InputResponse::accept(json!({"a": 1}))).is_err());
    }
}
