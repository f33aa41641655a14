//! What the gateway offers of its upstreams, to all and to single clients.

mod claims;
pub(crate) mod client_catalog;
pub(crate) mod instructions;
pub(crate) mod offering;
mod provider;
mod tools;
pub(crate) mod unavailable;

pub(crate) use claims::{EarlierNames, Owners, collisions, digest_of_names};
pub(crate) use client_catalog::{ClientNotifications, ClientTools};
pub(crate) use offering::{Offering, too_long};
pub(crate) use provider::UpstreamProvider;
pub(crate) use tools::{UpstreamTool, offer_members, offer_tools, offer_with_later, upstream_tool};
