//! Entries of an upstream's list as the schema has them. Clients refuse a whole list for one entry that is not.

use crate::raw_json;
use longhaul_core::Json;
use longhaul_json_schema::{Schema, SchemaAuthor, SchemaProblem};
use serde_json::{json, value::RawValue};
use std::{borrow::Cow, collections::BTreeMap, sync::LazyLock};

/// What a value has to be. Members that a kind does not name are passed on.
enum Kind {
    Text,
    Number,
    Flag,
    /// A number from 0 to 1.
    Fraction,
    /// A date and time of RFC 3339.
    Date,
    /// One of these texts.
    Word(&'static [&'static str]),
    /// An array. Elements that are not of the kind are left out.
    Array(&'static Kind),
    /// An object with members of these kinds.
    Object(&'static [Member]),
    /// A JSON schema. Clients look no deeper than at the properties that it names.
    Schema,
    /// The schema of a tool's results, which some clients compile when they list tools.
    OutputSchema,
    /// The schema of the arguments of a tool, whose type must be `object`.
    InputSchema,
    /// Schemas by the names of properties.
    Properties,
}

/// The name of a member, whether there is no value without it, and its kind.
type Member = (&'static str, bool, Kind);

const OPTIONAL: bool = false;
const REQUIRED: bool = true;
const TYPE: (&str, &str) = ("type", r#""object""#);

/// Schema of 2025-11-25: `Tool`, `Prompt`, `Resource` and `ResourceTemplate`. A member that several have is the same in all.
const ENTRY: &[Member] = &[
    ("title", OPTIONAL, Kind::Text),
    ("description", OPTIONAL, Kind::Text),
    ("mimeType", OPTIONAL, Kind::Text),
    ("size", OPTIONAL, Kind::Number),
    ("_meta", OPTIONAL, Kind::Object(&[])),
    ("icons", OPTIONAL, Kind::Array(&ICON)),
    ("arguments", OPTIONAL, Kind::Array(&ARGUMENT)),
    ("annotations", OPTIONAL, ANNOTATIONS),
    (
        "execution",
        OPTIONAL,
        Kind::Object(&[("taskSupport", OPTIONAL, TASK_SUPPORT)]),
    ),
    (INPUT_SCHEMA, OPTIONAL, Kind::InputSchema),
    ("outputSchema", OPTIONAL, Kind::OutputSchema),
];
const NAME: &str = "name";
const INPUT_SCHEMA: &str = "inputSchema";
const SCHEMA: &[Member] = &[
    ("properties", OPTIONAL, Kind::Properties),
    ("required", OPTIONAL, Kind::Array(&Kind::Text)),
    ("$schema", OPTIONAL, Kind::Text),
];
const ICON: Kind = Kind::Object(&[
    ("src", REQUIRED, Kind::Text),
    ("mimeType", OPTIONAL, Kind::Text),
    ("sizes", OPTIONAL, Kind::Array(&Kind::Text)),
    ("theme", OPTIONAL, Kind::Word(&["light", "dark"])),
]);
const ARGUMENT: Kind = Kind::Object(&[
    ("name", REQUIRED, Kind::Text),
    ("title", OPTIONAL, Kind::Text),
    ("description", OPTIONAL, Kind::Text),
    ("required", OPTIONAL, Kind::Flag),
]);
const ANNOTATIONS: Kind = Kind::Object(&[
    ("title", OPTIONAL, Kind::Text),
    ("readOnlyHint", OPTIONAL, Kind::Flag),
    ("destructiveHint", OPTIONAL, Kind::Flag),
    ("idempotentHint", OPTIONAL, Kind::Flag),
    ("openWorldHint", OPTIONAL, Kind::Flag),
    ("audience", OPTIONAL, Kind::Array(&Kind::Word(&["user", "assistant"]))),
    ("priority", OPTIONAL, Kind::Fraction),
    ("lastModified", OPTIONAL, Kind::Date),
]);
const TASK_SUPPORT: Kind = Kind::Word(&["forbidden", "optional", "required"]);

/// A text that is a date.
static DATE: LazyLock<Option<Schema>> =
    LazyLock::new(|| Schema::with_formats(&json!({"format": "date-time"}), SchemaAuthor::Own, true).ok());

/// How clients can read an entry.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Entry {
    /// As it is.
    Sound,
    /// In this way: without members that no entry may have so, and with those that all have. With the places that were wrong.
    Mended(Json, String),
    /// Not at all: it lacks this member.
    Lacks(&'static str),
}

impl Entry {
    /// How an entry can be read of the list that is this member of its result.
    pub(crate) fn of(listed: &Json, list: &str) -> Self {
        let identity = match list {
            "resources" => "uri",
            "resourceTemplates" => "uriTemplate",
            _ => NAME,
        };
        let written = members_of(listed.as_str()).unwrap_or_default();
        let is_text = |name| written.get(name).is_some_and(|value| value.get().starts_with('"'));
        if !is_text(identity) {
            return Self::Lacks(identity);
        }
        let lacks_name = !is_text(NAME);
        let completed = match lacks_name || (list == "tools" && !written.contains_key(INPUT_SCHEMA)) {
            false => None,
            true => {
                let mut all: BTreeMap<&str, &str> =
                    written.iter().map(|(name, value)| (&**name, value.get())).collect();
                if let Some(identified) = all.get(identity).copied().filter(|_| lacks_name) {
                    all.insert(NAME, identified);
                }
                if list == "tools" {
                    all.entry(INPUT_SCHEMA).or_insert("null");
                }
                Some(raw_json::object(all))
            }
        };
        let text = completed.as_ref().unwrap_or(listed).as_str();
        let members = match completed {
            Some(_) => members_of(text).unwrap_or_default(),
            None => written,
        };
        let mut repair = EntryRepair::default();
        if lacks_name {
            repair.wrong.push(NAME.to_owned());
        }
        let mended = match repair.object(text, members, ENTRY, "") {
            Some(Cow::Owned(mended)) => mended,
            _ if lacks_name => text.to_owned(),
            _ => return Self::Sound,
        };
        Self::Mended(Json::trusted(mended), repair.wrong.join(", "))
    }
}

fn members_of(text: &str) -> Option<BTreeMap<String, &RawValue>> {
    serde_json::from_str(text).ok()
}

/// What is wrong in an entry.
#[derive(Default)]
struct EntryRepair {
    /// The places, as `annotations.title`.
    wrong: Vec<String>,
}

impl EntryRepair {
    /// The value, or another one of this kind in its place. `None` if there is none.
    fn value<'a>(&mut self, text: &'a str, kind: &Kind, place: &str) -> Option<Cow<'a, str>> {
        let is_sound = match kind {
            Kind::Text => text.starts_with('"'),
            Kind::Number => text.starts_with(|first: char| first == '-' || first.is_ascii_digit()),
            Kind::Flag => matches!(text, "true" | "false"),
            Kind::Fraction => text.parse().is_ok_and(|number: f64| (0.0..=1.0).contains(&number)),
            Kind::Date => is_date(text),
            Kind::Word(words) => raw_json::text(text).is_some_and(|text| words.contains(&text.as_str())),
            Kind::Array(of) => return self.array(text, of, place),
            Kind::Object(known) => return self.object(text, members_of(text)?, known, place),
            Kind::Schema => return self.object(text, members_of(text)?, SCHEMA, place),
            Kind::OutputSchema => {
                return self
                    .object(text, members_of(text)?, SCHEMA, place)
                    .filter(|schema| can_be_compiled(schema));
            }
            Kind::InputSchema => return Some(self.input_schema(text, place)),
            Kind::Properties => return self.properties(text, place),
        };
        is_sound.then_some(Cow::Borrowed(text))
    }

    fn array<'a>(&mut self, text: &'a str, of: &Kind, place: &str) -> Option<Cow<'a, str>> {
        let elements: Vec<&RawValue> = serde_json::from_str(text).ok()?;
        let before = self.wrong.len();
        let mut kept = Vec::with_capacity(elements.len());
        for (index, element) in elements.iter().enumerate() {
            let place = format!("{place}.{index}");
            match self.value(element.get(), of, &place) {
                Some(element) => kept.push(element),
                None => self.wrong.push(place),
            }
        }
        Some(match self.wrong.len() == before {
            true => Cow::Borrowed(text),
            false => Cow::Owned(format!("[{}]", kept.join(","))),
        })
    }

    /// The object of this text, which has these members.
    fn object<'a>(
        &mut self,
        text: &'a str,
        members: BTreeMap<String, &'a RawValue>,
        known: &[Member],
        place: &str,
    ) -> Option<Cow<'a, str>> {
        let lacks = |(name, is_required, _): &Member| *is_required && !members.contains_key(*name);
        if known.iter().any(lacks) {
            return None;
        }
        let (before, is_entry) = (self.wrong.len(), place.is_empty());
        let mut kept = Vec::with_capacity(members.len());
        for (name, value) in &members {
            let place = match place {
                "" => name.clone(),
                _ => format!("{place}.{name}"),
            };
            let found = known.iter().find(|(known, ..)| known == name);
            let value = match found {
                Some((_, _, kind)) => self.value(value.get(), kind, &place),
                None => Some(Cow::Borrowed(value.get())).filter(|value| !is_entry || value != "null"),
            };
            match (value, found) {
                (Some(value), _) => kept.push((name.as_str(), value)),
                (None, Some((_, REQUIRED, _))) => return None,
                (None, _) => self.wrong.push(place),
            }
        }
        Some(match self.wrong.len() == before {
            true => Cow::Borrowed(text),
            false => owned(kept.iter().map(|(name, value)| (*name, &**value))),
        })
    }

    fn input_schema<'a>(&mut self, text: &'a str, place: &str) -> Cow<'a, str> {
        let schema = members_of(text);
        let of = schema.as_ref().and_then(|schema| schema.get(TYPE.0)).map(|of| of.get());
        if of == Some(TYPE.1) {
            return self.value(text, &Kind::Schema, place).unwrap_or_else(|| owned([TYPE]));
        }
        self.wrong.push(place.to_owned());
        let schema = self.value(text, &Kind::Schema, place);
        let members = schema.as_deref().and_then(members_of).unwrap_or_default();
        let members = members.iter().map(|(name, value)| (name.as_str(), value.get()));
        owned([TYPE].into_iter().chain(members.filter(|(name, _)| *name != TYPE.0)))
    }

    /// Some clients do not know the schemas `true` and `false`.
    fn properties<'a>(&mut self, text: &'a str, place: &str) -> Option<Cow<'a, str>> {
        let members = members_of(text)?;
        let before = self.wrong.len();
        let mut schemas = Vec::with_capacity(members.len());
        for (name, value) in &members {
            let schema = match value.get() {
                "false" => r#"{"not":{}}"#,
                schema if schema.starts_with('{') => {
                    schemas.push((name.as_str(), schema));
                    continue;
                }
                _ => "{}",
            };
            self.wrong.push(format!("{place}.{name}"));
            schemas.push((name.as_str(), schema));
        }
        Some(match self.wrong.len() == before {
            true => Cow::Borrowed(text),
            false => owned(schemas),
        })
    }
}

fn is_date(text: &str) -> bool {
    let Some(text) = raw_json::text(text) else { return false };
    let size = text.len();
    let checked = (DATE.as_ref()).and_then(|date| date.check_now(&json!(text), size, |_| ()));
    checked.is_none_or(|checked| checked.is_ok())
}

/// Whether a schema is one. What is only too large or too slow for this server may be right for a client.
fn can_be_compiled(schema: &str) -> bool {
    let Ok(schema) = serde_json::from_str(schema) else {
        return true;
    };
    let compiled = Schema::compile(&schema, SchemaAuthor::Foreign);
    !matches!(
        compiled.map_err(|error| error.problem),
        Err(SchemaProblem::Invalid(_) | SchemaProblem::OutsideReference(_))
    )
}

fn owned<'a>(members: impl IntoIterator<Item = (&'a str, &'a str)>) -> Cow<'static, str> {
    Cow::Owned(raw_json::object(members).as_str().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_client_would_refuse_is_mended_and_nothing_else() {
        let mended = |entry: &str, list: &str| match Entry::of(&Json::trusted(entry.to_owned()), list) {
            Entry::Mended(entry, wrong) => Some((entry, wrong)),
            Entry::Sound => None,
            Entry::Lacks(member) => panic!("{entry} lacks {member}"),
        };
        let sound = r#"{"name":"a","title":"A","inputSchema":{"type":"object"},"x":1E400}"#;
        assert_eq!(mended(sound, "tools"), None);
        assert_eq!(mended(r#"{"name":"p","arguments":[]}"#, "prompts"), None);
        let prompt = mended(
            r#"{"name":"p","arguments":[{"name":"a","required":"no"},{"title":"b"}]}"#,
            "prompts",
        )
        .unwrap();
        assert_eq!(prompt.0.as_str(), r#"{"arguments":[{"name":"a"}],"name":"p"}"#);
        let cases = r#"
            {"name":"a"} => {"inputSchema":{"type":"object"},"name":"a"} => inputSchema
            {"inputSchema":null,"name":"a"} => {"inputSchema":{"type":"object"},"name":"a"} => inputSchema
            {"inputSchema":{"type":["object","null"],"properties":{"a":{}}},"name":"a"} => {"inputSchema":{"type":"object","properties":{"a":{}}},"name":"a"} => inputSchema
            {"inputSchema":[],"name":"a"} => {"inputSchema":{"type":"object"},"name":"a"} => inputSchema
            {"name":"a","inputSchema":{"properties":{"n":{"maximum":1E400}}}} => {"inputSchema":{"type":"object","properties":{"n":{"maximum":1E400}}},"name":"a"} => inputSchema
            {"name":"a","title":null,"icons":{},"inputSchema":{"type":"object"}} => {"inputSchema":{"type":"object"},"name":"a"} => icons, title
            {"name":"a","annotations":{"title":null,"readOnlyHint":"yes","x":null},"_meta":{"x":null},"icons":[{"src":"i","sizes":[1,"any"]},{}],"inputSchema":{"type":"object","properties":{"a":true,"b":false,"c":{"default":null},"d":1E400},"required":["a",1],"x":null}} => {"_meta":{"x":null},"annotations":{"x":null},"icons":[{"sizes":["any"],"src":"i"}],"inputSchema":{"properties":{"a":{},"b":{"not":{}},"c":{"default":null},"d":{}},"required":["a"],"type":"object","x":null},"name":"a"} => annotations.readOnlyHint, annotations.title, icons.0.sizes.0, icons.1, inputSchema.properties.a, inputSchema.properties.b, inputSchema.properties.d, inputSchema.required.1
            {"name":"a","inputSchema":{"type":"object","properties":null,"required":"a"},"outputSchema":[]} => {"inputSchema":{"type":"object"},"name":"a"} => inputSchema.properties, inputSchema.required, outputSchema
        "#;
        for row in cases.trim().lines() {
            let [entry, expected, wrong] = row.trim().split(" => ").collect::<Vec<_>>()[..] else {
                panic!("{row}")
            };
            let found = mended(entry, "tools").unwrap();
            assert_eq!((found.0.as_str(), found.1.as_str()), (expected, wrong), "{entry}");
        }
    }

    #[test]
    fn each_list_identifies_its_entries_by_another_member() {
        let of = |entry: &str, list| Entry::of(&Json::trusted(entry.to_owned()), list);
        let mended = |entry: &str, wrong: &str| Entry::Mended(Json::trusted(entry.to_owned()), wrong.to_owned());
        for (list, identity) in [("resources", "uri"), ("resourceTemplates", "uriTemplate")] {
            assert_eq!(of(r#"{"name":"a"}"#, list), Entry::Lacks(identity));
            assert_eq!(
                of(&format!(r#"{{"name":"a","{identity}":7}}"#), list),
                Entry::Lacks(identity)
            );
            let nameless = of(&format!(r#"{{"name":null,"{identity}":"x:/a"}}"#), list);
            assert_eq!(
                nameless,
                mended(&format!(r#"{{"name":"x:/a","{identity}":"x:/a"}}"#), "name")
            );
            assert_eq!(
                of(&format!(r#"{{"name":"a","{identity}":"x:/a"}}"#), list),
                Entry::Sound
            );
        }
        assert_eq!(of(r#"{"uri":"x:/a"}"#, "tools"), Entry::Lacks("name"));
        assert_eq!(of(r#"{"uri":"x:/a"}"#, "prompts"), Entry::Lacks("name"));
        let annotated = r#"{"name":"a","uri":"a","annotations":{"priority":1.5,"lastModified":"yesterday"}}"#;
        let wrong = "annotations.lastModified, annotations.priority";
        assert_eq!(
            of(annotated, "resources"),
            mended(r#"{"annotations":{},"name":"a","uri":"a"}"#, wrong)
        );
        let annotated =
            r#"{"name":"a","uri":"a","annotations":{"priority":0.5,"lastModified":"2025-01-12T15:00:58+02:00"}}"#;
        assert_eq!(of(annotated, "resources"), Entry::Sound);
    }

    #[test]
    fn a_schema_of_results_that_is_none_is_left_out() {
        let of = |schema: &str| {
            let entry = format!(r#"{{"name":"a","inputSchema":{{"type":"object"}},"outputSchema":{schema}}}"#);
            Entry::of(&Json::trusted(entry), "tools")
        };
        for right in [
            r#"{"type":"object"}"#,
            r#"{"properties":{"a":{"pattern":"^(?=a)"}}}"#,
            r#"{"maximum":1E400}"#,
        ] {
            assert_eq!(of(right), Entry::Sound, "{right}");
        }
        for wrong in [
            r#"{"type":"strnig"}"#,
            r##"{"properties":{"a":{"$ref":"#/$defs/b"}}}"##,
            r#"{"properties":{"a":{"$ref":"https://example.com/a.json"}}}"#,
        ] {
            let mended = Json::trusted(r#"{"inputSchema":{"type":"object"},"name":"a"}"#.to_owned());
            assert_eq!(of(wrong), Entry::Mended(mended, "outputSchema".to_owned()), "{wrong}");
        }
    }
}
