//! Two principals in front of one upstream, who call the same tool at the same time. Each gets what the upstream asks, reports, logs and changes for it, and
//! nothing of the other.

use crate::{
    logins::log_in,
    support::*,
    talking_upstream::{CALLERS, TalkingUpstream, command},
};
use http::HeaderMap;
use longhaul_client::{
    CallOptions, CallResponse, Connection, EraChoice, Event, InputResponse, Inputs, LogLevel, Logging, Options,
    Outcome, Watch, WatchFilter,
};
use serde_json::{Map, Value, json};
use std::{
    fs,
    sync::{Arc, Mutex},
};

#[tokio::test(flavor = "multi_thread")]
async fn s_01_principals_on_one_upstream_over_http_get_their_own_only() {
    each_gets_its_own(Transport::Http, Owner::Principal).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s_01_principals_on_one_upstream_over_stdio_get_their_own_only() {
    each_gets_its_own(Transport::Stdio, Owner::Principal).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s_01_principals_on_one_connection_over_http_get_their_own_only() {
    each_gets_its_own(Transport::Http, Owner::All).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s_01_principals_on_one_connection_over_stdio_get_their_own_only() {
    each_gets_its_own(Transport::Stdio, Owner::All).await;
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Transport {
    Http,
    Stdio,
}

/// Whose the connection to the upstream is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Owner {
    Principal,
    All,
}

/// What one of the two has got.
#[derive(Debug, Default)]
struct Got {
    questions: Vec<String>,
    progress: Vec<String>,
    messages: Vec<String>,
}

/// One of the two, with a key of the gateway.
struct Caller {
    name: &'static str,
    connection: Connection,
    got: Arc<Mutex<Got>>,
}

/// In all revisions of client and upstream, with and without tasks.
async fn each_gets_its_own(transport: Transport, owner: Owner) {
    let folder = folder();
    let folder = folder.path();
    let upstream = (transport == Transport::Http).then(|| TalkingUpstream::start(folder));
    let target = match &upstream {
        Some(upstream) => format!("url = {:?}\n", upstream.url),
        None => command(folder),
    };
    let auth = match (&upstream, owner) {
        (_, Owner::All) => "shared = true\n",
        (Some(_), Owner::Principal) => "auth = { login = \"per-principal\" }\n",
        (None, Owner::Principal) => "",
    };
    if let (Some(upstream), Owner::Principal) = (&upstream, owner) {
        log_in(folder, &upstream.url, "gateway", &[]);
        for caller in CALLERS {
            log_in(folder, &upstream.url, caller, &["--for", &format!("key:{caller}")]);
        }
    }
    let mut round = 0;
    let mut keys = None;
    for upstream_era in ["legacy", "modern"] {
        let config = format!(
            "[server]\nname = \"gateway\"\nlisten = \"127.0.0.1:0\"\ndata_dir = \"gateway-data\"\n[server.auth]\napi_keys = true\n\
             [upstream.up]\nera = \"{upstream_era}\"\ntask = \"optional\"\n{auth}{target}"
        );
        fs::write(folder.join("gateway.toml"), config).unwrap();
        let keys = keys.get_or_insert_with(|| CALLERS.map(|name| done(folder, &["keys", "add", "gateway.toml", name])));
        let gateway = serve(folder, &["gateway.toml"]);
        for client_era in [EraChoice::Legacy, EraChoice::Modern] {
            let callers = [0, 1].map(|nth| Caller::connect(&gateway.url, client_era, CALLERS[nth], &keys[nth]));
            let mut watches = Vec::new();
            for caller in &callers {
                // Of a shared upstream all see every change that they have asked for.
                let followed = match owner {
                    Owner::Principal => CALLERS.to_vec(),
                    Owner::All => vec![caller.name],
                };
                watches.push(caller.watch(&followed).await);
            }
            for without_task in [true, false] {
                round += 1;
                let context = format!("upstream {upstream_era}, client {client_era:?}, without task: {without_task}");
                println!("{context}");
                let [one, other] = &callers;
                let both = guarded("both calls", async {
                    tokio::join!(one.call(round, without_task), other.call(round, without_task))
                });
                let answers = both.await;
                for (caller, answer) in callers.iter().zip([answers.0, answers.1]) {
                    let who = match owner {
                        Owner::Principal => caller.name,
                        Owner::All => "nobody",
                    };
                    assert_eq!(answer, format!("{} was answered by {who}", caller.name), "{context}");
                    // Nothing says for which call a message on a shared connection is: then nobody gets it.
                    let has_messages = without_task && (owner, transport) != (Owner::All, Transport::Stdio);
                    caller.has_its_own(owner, has_messages, &context);
                }
                for (caller, watch) in callers.iter().zip(&mut watches) {
                    caller.is_told_of_its_own_note(watch, &context).await;
                }
            }
        }
        drop(gateway);
    }
}

impl Caller {
    fn connect(url: &str, era: EraChoice, name: &'static str, key: &str) -> Self {
        let got = Arc::<Mutex<Got>>::default();
        let mut options = Options::named("client", "1.0.0");
        options.era = era;
        options.headers =
            HeaderMap::from_iter([(http::header::AUTHORIZATION, format!("Bearer {key}").parse().unwrap())]).into();
        let asked = Arc::clone(&got);
        let inputs = Inputs::new().elicit(move |question| {
            asked.lock().unwrap().questions.push(question.message().to_owned());
            std::future::ready(Ok(InputResponse::accept(json!({"who": name}))))
        });
        options.inputs = Some(inputs.into());
        let heard = Arc::clone(&got);
        options.logging = Some(Logging::new(LogLevel::Debug, move |message| {
            heard.lock().unwrap().messages.push(message.data.to_string());
        }));
        Self {
            name,
            connection: Connection::lazy(url, options).unwrap(),
            got,
        }
    }

    async fn watch(&self, of: &[&str]) -> Watch {
        let filter = WatchFilter {
            uris: of.iter().map(|caller| format!("note://{caller}")).collect(),
            ..WatchFilter::default()
        };
        let watching = guarded("the subscription", self.connection.watch(filter));
        watching.await.unwrap()
    }

    /// Calls the tool; the text of its result.
    async fn call(&self, round: u32, without_task: bool) -> String {
        let tool = self.connection.tool("talk").await.unwrap().unwrap();
        let arguments = [
            ("caller".to_owned(), self.name.into()),
            ("round".to_owned(), round.into()),
        ];
        let arguments = Map::from_iter(arguments);
        let mut options = CallOptions::default();
        options.without_task = without_task;
        let on_event = &mut |event: Event<'_>| {
            let said = match event {
                Event::Progress(progress) | Event::TaskProgress(progress) => progress.message,
                Event::Status(task) => task.message.clone(),
                _ => None,
            };
            self.got.lock().unwrap().progress.extend(said);
        };
        let called = self.connection.call_tool_with(&tool, &arguments, &options, on_event);
        let outcome = match called.await.unwrap() {
            CallResponse::Done(outcome) => outcome,
            CallResponse::Task(task) => task.wait(on_event).await.unwrap(),
        };
        let Outcome::Result { json, .. } = outcome else {
            panic!("{outcome:?}")
        };
        let result: Value = serde_json::from_str(json.as_str()).unwrap();
        result["content"][0]["text"].as_str().unwrap_or_default().to_owned()
    }

    /// Checks what it has got since this was last called.
    fn has_its_own(&self, owner: Owner, has_messages: bool, context: &str) {
        let Got {
            questions,
            progress,
            messages,
        } = std::mem::take(&mut *self.got.lock().unwrap());
        let context = format!("{}, {context}", self.name);
        let expected = match owner {
            Owner::Principal => vec![format!("question of {}", self.name)],
            Owner::All => Vec::new(),
        };
        assert_eq!(questions, expected, "{context}");
        let other = CALLERS.into_iter().find(|name| *name != self.name).unwrap();
        let is_foreign = |text: &String| text.contains(other);
        let has_foreign = progress.iter().chain(&messages).any(is_foreign);
        assert!(!has_foreign, "{context}: {progress:?} {messages:?}");
        let is_progress = |text: &String| text.contains("progress of");
        assert!(progress.iter().any(is_progress), "{context}: {progress:?}");
        if has_messages {
            let expected =
                ["message of", "last message of"].map(|text| format!("{:?}", format!("{text} {}", self.name)));
            assert_eq!(messages, expected, "{context}");
        }
    }

    /// Waits until it is told that its own note has changed; it is told of no other.
    async fn is_told_of_its_own_note(&self, watch: &mut Watch, context: &str) {
        let change = guarded("the change", watch.next()).await;
        let own = format!("note://{}", self.name);
        assert_eq!(change.unwrap().uri(), Some(&*own), "{}, {context}", self.name);
    }
}
