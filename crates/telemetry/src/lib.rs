//! Traces of a server's tasks, and its metrics, sent to an OpenTelemetry collector over OTLP (HTTP; traces as protobuf, metrics as JSON).
//!
//! A task is a span from its creation to its end. Below it, each attempt is a span, and below an attempt each operation of a durable tool that it recorded: steps,
//! timers, questions, polls and children. A task continues the trace of its caller (`traceparent` in `_meta`, W3C Trace Context), and a child that of the task
//! that started it. Ids of spans follow from the ids of tasks, so what several processes send of one task is one trace.
//!
//! A span is sent when it has ended. What a process has not sent when it dies is not sent by the next one; the task itself is complete in the store.
//!
//! [`MetricsSender`] sends what the server's `/metrics` says: the same names, labels and numbers.

mod collector;
mod complaints;
mod ids;
mod metrics_sender;
mod open_metrics;
mod operations;
mod otlp_metrics;
mod span;
mod trace;
mod traced_store;
mod tracer;

pub use collector::{CollectorError, CollectorSettings};
pub use metrics_sender::MetricsSender;
pub use tracer::Tracer;
