//! What devices there are: models, and the environment that chooses among them.

pub mod device;
pub mod profile;
pub mod profiles;
pub mod spec;
pub mod textures;
pub mod visible;
