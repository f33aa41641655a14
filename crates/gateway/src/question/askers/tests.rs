//! Whose a question is that names neither a call nor a task.

use super::*;
use longhaul_core::{BoxFuture, Owner, UnixMillis};
use longhaul_runtime::{AskError, Ports, Question, RequestContext};
use proptest::{collection::vec, prelude::*};

/// A clock that stands still until it is moved.
#[derive(Default)]
struct ManualClock(Mutex<Duration>);

impl Clock for ManualClock {
    fn now(&self) -> UnixMillis {
        UnixMillis(0)
    }

    fn monotonic(&self) -> Duration {
        *self.0.lock()
    }

    fn sleep(&self, _: Duration) -> BoxFuture<'static, ()> {
        Box::pin(std::future::pending())
    }
}

struct NoChannel;

impl longhaul_runtime::RequestChannel for NoChannel {
    fn ask(&self, _: Question) -> BoxFuture<'static, Result<Json, AskError>> {
        Box::pin(std::future::pending())
    }

    fn send(&self, _: ToolMessage) {}
}

fn context(session: Option<u8>) -> Context {
    let owner = Owner {
        principal: Principal::local(),
        session: session.map(|number| SessionKey::named(number.to_string())),
    };
    Context::Request(RequestContext::new(
        owner,
        Arc::default(),
        Ports::system(),
        Arc::new(NoChannel),
    ))
}

#[derive(Debug, Clone)]
enum Step {
    /// A call of this session, or of a client without one, is sent.
    Call(Option<u8>),
    /// The upstream answers a call.
    Answer(prop::sample::Index),
    /// A client gives a call up.
    GiveUp(prop::sample::Index),
    /// Minutes pass.
    Pass(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => prop::option::weighted(0.8, 0..2_u8).prop_map(Step::Call),
        2 => any::<prop::sample::Index>().prop_map(Step::Answer),
        1 => any::<prop::sample::Index>().prop_map(Step::GiveUp),
        1 => (1..8_u64).prop_map(Step::Pass),
    ]
}

/// A call that may ask: its client, when it was given up, and its registration until then.
struct AskingCall {
    /// A client without a session is none of the others.
    client: Result<u8, usize>,
    given_up: Option<Duration>,
    registration: Option<Registration>,
}

proptest! {
    /// It is put to a client whose call waits, and only if every call that may have asked it is of this client.
    #[test]
    fn a_question_reaches_no_other_client(steps in vec(step(), 1..40)) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let _inside = runtime.enter();
        let clock = Arc::new(ManualClock::default());
        let askers = Askers::new("up", clock.clone(), Arc::default(), None);
        let mut sent: Vec<AskingCall> = Vec::new();
        for (nth, step) in steps.into_iter().enumerate() {
            let waiting: Vec<usize> = (0..sent.len()).filter(|at| sent[*at].registration.is_some()).collect();
            match step {
                Step::Call(session) => {
                    let registration = askers.register(context(session), BTreeMap::new());
                    registration.begins();
                    sent.push(AskingCall { client: session.ok_or(nth), given_up: None, registration: Some(registration) });
                }
                Step::Answer(at) if !waiting.is_empty() => {
                    let answered = sent.remove(waiting[at.index(waiting.len())]);
                    answered.registration.unwrap().ends();
                }
                Step::GiveUp(at) if !waiting.is_empty() => {
                    let given_up = &mut sent[waiting[at.index(waiting.len())]];
                    given_up.registration = None;
                    given_up.given_up = Some(clock.monotonic());
                }
                Step::Pass(minutes) => *clock.0.lock() += Duration::from_secs(60 * minutes),
                _ => {}
            }
            sent.retain(|call| call.given_up.is_none_or(|at| clock.monotonic() < at + MAY_STILL_RUN));
            let clients: Vec<_> = sent.iter().map(|call| call.client).collect();
            // Each call is asked once: those before have ended.
            let mut candidates = askers.candidates();
            for call in sent.iter().rev().filter(|call| call.registration.is_some()) {
                let asked = askers.of_source(None, &candidates);
                if clients.iter().any(|client| *client != call.client) {
                    prop_assert!(asked.is_none(), "{clients:?}");
                    break;
                }
                let asked = asked.expect("somebody is asked");
                prop_assert!(Arc::ptr_eq(&asked, &call.registration.as_ref().unwrap().asker));
                candidates.ended.push(asked);
            }
            // Calls that begin later have not asked.
            if candidates.ended.len() == sent.len() {
                let session = sent.last().and_then(|call| call.client.ok());
                let _later = askers.register(context(session), BTreeMap::new());
                prop_assert!(askers.of_source(None, &candidates).is_none());
            }
        }
    }
}
