//! The JSON of the admin API: what a request carries and what a server answers. The server writes these types, `longhaul admin` reads them, and the OpenAPI
//! document has its schemas from them.
//!
//! A server and a command may be of different releases. What one does not know of an answer is passed over, and what is missing has its default; so a state is
//! a [`Word`], and no enum that a later release would break.

mod action;
mod audit;
mod error;
mod node;
mod problem;
mod query;
mod schedule;
mod stats;
mod task;
mod task_details;
mod tool;
mod upstream;

pub use action::{
    ActionReport, AnswerBody, BulkPreview, BulkRefusal, BulkReport, CallBody, DrainReport, ResetBody, UpstreamPause,
};
pub use audit::{AuditLine, AuditLines};
pub use error::{ErrorBody, ErrorReason};
pub use node::{NodeView, NodesView};
pub use problem::{ProblemView, ProblemsView};
pub use query::{
    ArtifactQuery, AuditQuery, DrainQuery, JournalQuery, LogQuery, ScheduleQuery, TaskQuery, labels, labels_text,
    to_url,
};
pub use schedule::{SchedulePage, ScheduleView};
pub use stats::{PrincipalView, PrincipalsView, StatsView};
pub use task::{ActiveAttemptView, BlockView, ProgressView, TaskPage, TaskView};
pub use task_details::{
    ArtifactView, ArtifactsView, AttemptView, CallerView, EntryView, JournalPart, LogPart, OutcomeView, QuestionView,
    SettledQuestionView, TaskDetails,
};
pub use tool::{FailureView, ToolView};
pub use upstream::UpstreamView;

/// A word of a small set. Its schema lists those of this release.
pub type Word = std::borrow::Cow<'static, str>;
