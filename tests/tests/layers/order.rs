//! `layers.toml`: the order of a crate's modules, bottom first.

use std::collections::BTreeMap;

use toml::{Table, Value};

/// The order of the modules in one crate or module.
#[derive(Debug, Default, PartialEq)]
pub struct ModuleOrder {
    /// Bottom first; the modules of one layer do not import each other. None for a crate without an order.
    pub layers: Option<Vec<Vec<String>>>,
    /// How many circles a crate that is not in layers yet still has.
    pub circles: Option<usize>,
    /// The orders inside modules that have one.
    pub inside: BTreeMap<String, ModuleOrder>,
}

impl ModuleOrder {
    /// The orders of all crates in the text of `layers.toml`.
    pub fn parse_all(text: &str) -> Result<BTreeMap<String, Self>, String> {
        let table: Table = text.parse().map_err(|error| format!("{error}"))?;
        table
            .into_iter()
            .map(|(name, value)| Ok((name.clone(), Self::parse(&name, value)?)))
            .collect()
    }

    fn parse(section: &str, value: Value) -> Result<Self, String> {
        let Value::Table(table) = value else {
            return Err(format!("{section} is not a section"));
        };
        let mut order = Self::default();
        for (key, value) in table {
            match key.as_str() {
                "layers" => {
                    let layers = value.try_into();
                    order.layers = Some(layers.map_err(|_| {
                        format!("layers of [{section}] is not a list of lists of module names")
                    })?);
                }
                "circles" => {
                    let circles = value
                        .as_integer()
                        .and_then(|circles| usize::try_from(circles).ok());
                    order.circles =
                        Some(circles.ok_or_else(|| format!("circles of [{section}] is not a number"))?);
                }
                _ => {
                    let inside = Self::parse(&format!("{section}.{key}"), value)?;
                    order.inside.insert(key, inside);
                }
            }
        }
        if order.layers.is_none() && order.circles.is_none() {
            return Err(format!("[{section}] has no layers"));
        }
        Ok(order)
    }

    /// The layer of `module`, counted from the bottom.
    pub fn layer(&self, module: &str) -> Option<usize> {
        let layers = self.layers.as_ref()?;
        layers
            .iter()
            .position(|layer| layer.iter().any(|name| name == module))
    }
}
