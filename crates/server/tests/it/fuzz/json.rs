//! JSON as text with members in any order and number, so that what no tree can hold (two members of one name, odd numbers, half
//! a surrogate) can be written.

use bolero::{Driver, TypeGenerator};
use serde_json::Value;

/// A JSON text, or something that is nearly one.
#[derive(Debug, Clone)]
pub(super) enum Json {
    Text(String),
    Object(Vec<(String, Json)>),
}

impl Json {
    pub(super) fn object(members: impl IntoIterator<Item = (&'static str, Json)>) -> Self {
        let owned = |(key, value): (&str, Json)| (key.to_owned(), value);
        Self::Object(members.into_iter().map(owned).collect())
    }

    /// What no damage reaches.
    pub(super) fn of(value: Value) -> Self {
        Self::Text(value.to_string())
    }

    pub(super) fn string(text: &str) -> Self {
        Self::Text(serde_json::to_string(text).unwrap())
    }

    pub(super) fn number(number: impl Into<i128>) -> Self {
        Self::Text(number.into().to_string())
    }

    pub(super) fn set(&mut self, key: &str, value: Json) {
        if let Self::Object(members) = self {
            members.push((key.to_owned(), value));
        }
    }

    pub(super) fn write(&self, out: &mut String, blank: &str) {
        match self {
            Self::Text(text) => out.push_str(text),
            Self::Object(members) => {
                out.push('{');
                for (nth, (key, value)) in members.iter().enumerate() {
                    if nth > 0 {
                        out.push(',');
                    }
                    let key = serde_json::to_string(key).unwrap();
                    out.push_str(&format!("{blank}{key}{blank}:"));
                    value.write(out, blank);
                }
                out.push_str(blank);
                out.push('}');
            }
        }
    }

    /// The members of the object that a walk of `steps` ends in.
    fn walk(&mut self, steps: &[u8]) -> Option<&mut Vec<(String, Json)>> {
        let Self::Object(members) = self else { return None };
        let Some((step, rest)) = steps.split_first() else {
            return Some(members);
        };
        let inner = usize::from(*step).checked_rem(members.len())?;
        match &members[inner].1 {
            Self::Object(_) => members[inner].1.walk(rest),
            Self::Text(_) => Some(members),
        }
    }
}

/// Something wrong with an object somewhere in a message.
#[derive(Debug, Clone, TypeGenerator)]
pub(super) struct Damage {
    place: [u8; 2],
    member: u8,
    kind: Kind,
}

#[derive(Debug, Clone, TypeGenerator)]
enum Kind {
    Replace(Junk),
    Remove,
    Repeat(Option<Junk>),
    /// An unknown member.
    Insert(Key, Junk),
}

#[derive(Debug, Clone, TypeGenerator)]
enum Key {
    Unknown,
    Known(u8),
    Any(String),
}

/// Any value.
#[derive(Debug, Clone, TypeGenerator)]
pub(super) enum Junk {
    Odd(u8),
    Number(i64),
    Text(String),
}

const KEYS: [&str; 12] = [
    "_meta",
    "name",
    "arguments",
    "task",
    "taskId",
    "cursor",
    "requestState",
    "inputResponses",
    "params",
    "id",
    "result",
    "error",
];

impl Damage {
    pub(super) fn apply(&self, message: &mut Json) {
        let Some(members) = message.walk(&self.place) else {
            return;
        };
        if let Kind::Insert(key, junk) = &self.kind {
            let key = match key {
                Key::Unknown => "x-unknown",
                Key::Known(nth) => KEYS[usize::from(*nth) % KEYS.len()],
                Key::Any(text) => text,
            };
            let place = usize::from(self.member) % (members.len() + 1);
            members.insert(place, (key.to_owned(), junk.json()));
            return;
        }
        let count = members.len();
        let Some(place) = usize::from(self.member).checked_rem(count) else {
            return;
        };
        match &self.kind {
            Kind::Replace(junk) => members[place].1 = junk.json(),
            Kind::Remove => drop(members.remove(place)),
            Kind::Repeat(junk) => {
                let (key, value) = members[place].clone();
                let value = junk.as_ref().map_or(value, Junk::json);
                members.insert(place, (key, value));
            }
            Kind::Insert(..) => {}
        }
    }
}

impl Junk {
    pub(super) fn json(&self) -> Json {
        let odd: [&dyn Fn() -> String; 16] = [
            &|| "null".into(),
            &|| "true".into(),
            &|| "-0".into(),
            &|| "1.0E+2".into(),
            &|| "1e999".into(),
            &|| "0.10000000000000000000".into(),
            &|| "18446744073709551616".into(),
            &|| "9223372036854775808".into(),
            &|| "-1".into(),
            &|| r#""\ud800""#.into(),
            &|| r#""\u0000\u001f\/\ud83d\ude00""#.into(),
            &|| "[]".into(),
            &|| r#"{ "z" : 1 , "a":[ ], "z":null}"#.into(),
            &|| "{}".into(),
            &|| format!("{}{}", "[".repeat(60), "]".repeat(60)),
            &|| format!("{}{}", "[".repeat(120), "]".repeat(120)),
        ];
        match self {
            Self::Odd(nth) => Json::Text(odd[usize::from(*nth) % odd.len()]()),
            Self::Number(number) => Json::number(*number),
            Self::Text(text) => Json::string(text),
        }
    }
}

/// Something wrong with the bytes themselves.
#[derive(Debug, Clone, TypeGenerator)]
pub(super) enum ByteDamage {
    Set(u16, u8),
    Insert(u16, u8),
    Cut(u16),
}

impl ByteDamage {
    /// These bytes with all that damage.
    pub(super) fn bend(damage: &[Self], bytes: impl Into<Vec<u8>>) -> Vec<u8> {
        let mut bytes = bytes.into();
        damage.iter().for_each(|damage| damage.apply(&mut bytes));
        bytes
    }

    pub(super) fn apply(&self, bytes: &mut Vec<u8>) {
        let place = |at: u16| usize::from(at) % bytes.len().max(1);
        match *self {
            Self::Set(at, byte) => {
                let at = place(at);
                if let Some(there) = bytes.get_mut(at) {
                    *there = byte;
                }
            }
            Self::Insert(at, byte) => bytes.insert(place(at), byte),
            Self::Cut(at) => bytes.truncate(place(at)),
        }
    }
}

/// One time in eight.
#[derive(Debug, Clone)]
pub(super) struct Rarely<T>(pub(super) Option<T>);

impl<T: TypeGenerator> TypeGenerator for Rarely<T> {
    fn generate<D: Driver>(driver: &mut D) -> Option<Self> {
        let rare = driver.produce::<u8>()? % 8 == 7;
        Some(Self(if rare { Some(driver.produce()?) } else { None }))
    }
}
