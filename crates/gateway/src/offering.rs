//! How a tool of an upstream is offered, as its configuration says.

use crate::{job_tools::JobTools, upstream::Upstream};

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
            shown: upstream.naming.offered(upstream.name(), &job.name),
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
