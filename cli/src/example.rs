//! A node as mgbd shows it, for tests of what people and machines see of it.

use mgb_probe::view::NodeView;

/// Two GPUs of different numbers here and for the driver, four living tasks of two users, of which the third
/// alone is on the second GPU, and three requests that wait.
pub fn view() -> NodeView {
    serde_json::from_str(include_str!("example_view.json")).expect("a view")
}
