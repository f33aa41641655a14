//! Networks around servers: a load balancer, and namespaces in which they run.

pub mod acceptor;
pub mod balancer;
pub mod namespace;
