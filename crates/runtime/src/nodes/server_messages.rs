//! What the servers around nodes tell each other of clients that reach several of them. The runtime carries it, and does not read it.

use crate::Engine;
use longhaul_core::{Json, NodeId, store::NodeRole};
use serde_json::value::RawValue;
use tokio::sync::mpsc;

impl Engine {
    /// Whether other nodes may share the store.
    pub fn may_have_other_nodes(&self) -> bool {
        self.store().capabilities().many_nodes
    }

    /// Whether clients send requests to this node.
    pub fn accepts_requests(&self) -> bool {
        self.0.node.registered.role != NodeRole::Worker
    }

    /// Sends a message to the server of another node. It may be lost.
    pub fn tell_server(&self, node: NodeId, message: Box<RawValue>) {
        self.0.node.messages.tell_server(node, message);
    }

    /// Sends one message to the servers of all other nodes. It may be lost.
    pub fn broadcast_to_servers(&self, message: Box<RawValue>) {
        if self.may_have_other_nodes() {
            self.0.node.messages.broadcast_to_servers(message);
        }
    }

    /// The messages that servers of other nodes send to this one; `None` if this was called before. Up to 1,024 wait; further ones are lost.
    pub fn server_messages(&self) -> Option<mpsc::Receiver<Json>> {
        self.0.node.messages.take_server_messages()
    }
}
