//! How a tool of an upstream is offered, as its configuration says.

use crate::{
    config::{job_tools::JobTools, names::Naming},
    upstream::Upstream,
};

/// Whether a tool is offered.
pub(crate) enum Offering<'a> {
    /// The configuration leaves it out.
    LeftOut,
    /// It is a part of a job-style toolset.
    Bound,
    Tool {
        /// The name under which it is offered.
        shown: String,
        /// The toolset, if it is the tool that submits.
        job: Option<&'a JobTools>,
    },
}

/// How the tool with this name of the upstream is offered.
pub(crate) fn offering<'a>(upstream: &'a Upstream, name: &str) -> Offering<'a> {
    let options = upstream.options();
    if let Some(job) = options.jobs.iter().find(|job| job.submit == name) {
        return Offering::Tool {
            shown: upstream.naming.offered(upstream.options().prefix(), &job.name),
            job: Some(job),
        };
    }
    if options.jobs.iter().any(|job| job.bound().any(|bound| bound == name)) {
        return Offering::Bound;
    }
    match options.tools.offers(name) {
        true => Offering::Tool {
            shown: upstream.offered_name(name),
            job: None,
        },
        false => Offering::LeftOut,
    }
}

/// The longest name of a tool that all hosts take.
const LONGEST: usize = 64;

/// What is wrong with the name of a tool, and what to do, if some hosts refuse it.
pub(crate) fn too_long(upstream: &Upstream, name: &str, shown: &str) -> Option<String> {
    let length = shown.chars().count();
    let rename = format!("`tools = {{ rename = {{ {name:?} = \"…\" }} }}`");
    let way_out = match upstream.naming {
        Naming::Prefixed => {
            format!("give the upstream a short `prefix = \"…\"`, or the tool another name with {rename}")
        }
        Naming::Bare => format!("give it another name with {rename}"),
    };
    (length > LONGEST).then(|| {
        format!(
            "the name of its tool `{shown}` has {length} characters, and some hosts take {LONGEST} at most: {way_out}"
        )
    })
}
