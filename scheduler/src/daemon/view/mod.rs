//! What is shown of the node.

pub(crate) mod fit;
#[allow(clippy::disallowed_methods, reason = "shared memory that is its own")]
pub(crate) mod node_view;
pub(crate) mod user_views;
