//! Templates of CUDA text.

use std::fmt::Display;

/// `template` with each `@name@` replaced by its value.
///
/// # Panics
///
/// When a name has no value: the template is wrong.
pub fn put(template: &str, values: &[(&str, &dyn Display)]) -> String {
    let mut text = template.to_owned();
    for (name, value) in values {
        text = text.replace(&format!("@{name}@"), &value.to_string());
    }
    assert!(!text.contains('@'), "a name without a value in: {text}");
    text
}
