//! What the wire promises, seen from outside: official examples and schemas, eras, headers, hostile input.
#![allow(clippy::unwrap_used)]

mod admission;
mod asked;
mod emitted;
mod era;
mod examples;
mod fixture;
mod forms;
mod fuzz;
mod hostile;
mod input_requests;
mod invariant_8;
mod offers;
mod param_headers;
mod reproduced;
mod results;
mod retired;
mod rounds;
mod schema;
mod subscriptions;
mod wrong_params;
