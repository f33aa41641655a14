//! The keys of `_meta` members.

/// Key of the revision of a modern request.
pub const PROTOCOL_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
/// Key of a modern client's capabilities.
pub const CLIENT_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
/// Key of a modern client's name and version.
pub const CLIENT_INFO: &str = "io.modelcontextprotocol/clientInfo";
/// Key of a modern server's name and version.
pub const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";
/// Key of the lowest level of log messages that a modern request asks for.
pub const LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";
/// Key that relates a legacy message to a task.
pub const RELATED_TASK: &str = "io.modelcontextprotocol/related-task";
/// Key of the ids of tasks that a client considers related to its request. Only advice: a server may ignore it.
pub const RELATED_TASK_IDS: &str = "io.modelcontextprotocol/relatedTaskIds";
/// Key of the subscription a modern notification belongs to.
pub const SUBSCRIPTION_ID: &str = "io.modelcontextprotocol/subscriptionId";
/// Key of a client's idempotency key: a repeated call with the same key finds the same task.
pub const IDEMPOTENCY_KEY: &str = "dev.longhaul/idempotency-key";
/// Key of the wish, `true`, that a call is answered with a task at once where it may become one, since its caller does not wait.
pub const DETACHED: &str = "dev.longhaul/detached";
/// Key of the priority that a call asks for, from 0 to 9: no more than that of its tool.
pub const PRIORITY: &str = "dev.longhaul/priority";
/// The capability of a server that takes idempotency keys: an extension, in legacy revisions an experimental capability. Its member `retentionMs` says how long
/// the server knows a key at least after the end of its task, and `cancel`, if true, that calls are cancelled by their keys, with the method
/// `dev.longhaul/calls/cancel`.
pub const IDEMPOTENCY: &str = "dev.longhaul/idempotency";
/// The capability of a server whose clients may delete finished tasks, with the method `dev.longhaul/tasks/delete`: an extension, in legacy revisions an
/// experimental capability.
pub const DELETION: &str = "dev.longhaul/deletion";
/// Key of the task that started this one.
pub const PARENT: &str = "dev.longhaul/parent";
/// Key of the root task: the ancestor that a client called.
pub const ROOT: &str = "dev.longhaul/root";
/// Key of the labels of a task.
pub const LABELS: &str = "dev.longhaul/labels";
/// Key of how a task's command ended.
pub const EXIT: &str = "dev.longhaul/exit";
/// Key of the position of a content in a task's log.
pub const LOG_PAGE: &str = "dev.longhaul/log";
/// Key of what is known of an artifact: its SHA-256, and of a part of it where that is.
pub const ARTIFACT: &str = "dev.longhaul/artifact";
/// Key of the position of a result in a task's output.
pub const OUTPUT_PAGE: &str = "dev.longhaul/output";
