//! The treatments: the defaults of a family, the row of a function, and roles that follow from C types.

use std::collections::BTreeMap;
use std::path::Path;

use crate::api::{Api, ApiFunction};
use crate::kinds::{Class, Role, Treatment};

/// `data/treatments.toml`.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TreatmentRules {
    family: BTreeMap<String, TreatmentRow>,
    roles: BTreeMap<String, String>,
    function: BTreeMap<String, TreatmentRow>,
}

/// The defaults of a family, or the row of a function: what a row leaves out, the family decides.
#[derive(Default, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
struct TreatmentRow {
    /// A family's functions: the header groups, and the name prefixes that sort out mixed groups.
    groups: Vec<String>,
    prefixes: Vec<String>,
    /// The family of a function that neither a group nor a prefix gives one.
    family: Option<String>,
    /// By argument name, or by position where the header names none.
    roles: BTreeMap<String, String>,
    treatment: Option<String>,
    class: Option<String>,
    creates_context: Option<bool>,
    asynchronous: Option<bool>,
    note: Option<String>,
}

/// A function with all its properties.
pub struct Judged<'a> {
    pub function: &'a ApiFunction,
    /// Where the arguments are declared: for a form that no header declares, its base.
    pub signature: &'a ApiFunction,
    pub roles: Vec<Role>,
    pub family: String,
    pub class: Class,
    pub treatment: Treatment,
    pub creates_context: bool,
    pub asynchronous: bool,
    pub note: String,
}

pub fn read(path: &Path) -> TreatmentRules {
    let text =
        std::fs::read_to_string(path).unwrap_or_else(|e| panic!("failed to read {}: {e}", path.display()));
    toml::from_str(&text).unwrap_or_else(|e| panic!("failed to parse {}: {e}", path.display()))
}

impl TreatmentRules {
    pub fn judge<'a>(&self, api: &'a Api) -> Result<Vec<Judged<'a>>, String> {
        let by_name: BTreeMap<&str, &ApiFunction> = api
            .functions
            .iter()
            .map(|function| (function.name.as_str(), function))
            .collect();
        for (name, row) in &self.function {
            let function = by_name
                .get(name.as_str())
                .ok_or(format!("no function is called {name}"))?;
            if !function.base.is_empty() {
                return Err(format!("{name} is a form of {}: judge that one", function.base));
            }
            for param in row.roles.keys() {
                let known =
                    |(at, p): (usize, &crate::api::ApiParam)| p.name == *param || at.to_string() == *param;
                if !function.params.iter().enumerate().any(known) {
                    return Err(format!("{name} has no argument {param}"));
                }
            }
        }
        by_name
            .values()
            .map(|function| self.decide(function, &by_name))
            .collect()
    }

    fn decide<'a>(
        &self,
        function: &'a ApiFunction,
        by_name: &BTreeMap<&str, &'a ApiFunction>,
    ) -> Result<Judged<'a>, String> {
        let base = by_name.get(function.base.as_str()).copied().unwrap_or(function);
        let none = TreatmentRow::default();
        let row = self.function.get(&base.name).unwrap_or(&none);
        let name = row
            .family
            .clone()
            .or_else(|| self.family_of(base))
            .ok_or(format!(
                "{} is in no family: its header group is '{}'",
                base.name, base.group
            ))?;
        let family = self
            .family
            .get(&name)
            .ok_or(format!("{}: no family {name}", base.name))?;
        let word = |of: fn(&TreatmentRow) -> Option<&String>| of(row).or(of(family)).map(String::as_str);
        let class = word(|r| r.class.as_ref()).unwrap_or("Other");
        let treatment = word(|r| r.treatment.as_ref()).ok_or(format!(
            "{}: neither its row nor family {name} says how it is treated",
            base.name
        ))?;
        let class = Class::from_word(class).ok_or(format!("{}: no class {class}", base.name))?;
        let treatment =
            Treatment::from_word(treatment).ok_or(format!("{}: no treatment {treatment}", base.name))?;
        let note = row
            .note
            .clone()
            .or_else(|| family.note.clone())
            .unwrap_or_default();
        if treatment == Treatment::BindThenPass && note.is_empty() {
            return Err(format!(
                "{}: a note must say why it is {}",
                base.name,
                treatment.word()
            ));
        }
        Ok(Judged {
            function,
            signature: base,
            roles: self.roles(base, row)?,
            family: name,
            class,
            treatment,
            creates_context: row.creates_context.or(family.creates_context).unwrap_or(true),
            asynchronous: row
                .asynchronous
                .or(family.asynchronous)
                .unwrap_or(class == Class::Launch || base.name.ends_with("Async")),
            note,
        })
    }

    fn family_of(&self, function: &ApiFunction) -> Option<String> {
        let starts = |family: &TreatmentRow| {
            family
                .prefixes
                .iter()
                .any(|p| function.name.starts_with(p.as_str()))
        };
        let grouped =
            |family: &TreatmentRow| !function.group.is_empty() && family.groups.contains(&function.group);
        let named = |(name, _): (&String, &TreatmentRow)| name.clone();
        // A prefix takes precedence over a group: it separates functions that a group of the header mixes.
        self.family
            .iter()
            .find(|(_, family)| starts(family))
            .or_else(|| self.family.iter().find(|(_, family)| grouped(family)))
            .map(named)
    }

    fn roles(&self, function: &ApiFunction, row: &TreatmentRow) -> Result<Vec<Role>, String> {
        let role = |(at, param): (usize, &crate::api::ApiParam)| {
            let own = row
                .roles
                .get(&param.name)
                .or_else(|| row.roles.get(&at.to_string()));
            let word = own
                .or_else(|| self.roles.get(&param.ty))
                .map_or("Plain", String::as_str);
            Role::from_word(word).ok_or(format!("{}: no role {word}", function.name))
        };
        function.params.iter().enumerate().map(role).collect()
    }
}
