//! Which GPUs are whose: the table `[gpus]` in the file of quotas.
//!
//! ```toml
//! [gpus]
//! "0-1" = ["group:vision"]
//! "2" = ["group:robots", "user:alice"]
//! "GPU-3f1c…" = []     # nobody's
//! ```
//!
//! A GPU that is named here is for those alone that stand there. One that is not named is everybody's.

use std::collections::{BTreeMap, BTreeSet};

use crate::gpu_set::GpuSet;
use mgb_probe::Gpu;
use mgb_probe::view::KeptView;

/// The largest number of a GPU that makes sense in a range.
const MAX_NUMBER: u32 = 1024;

/// GPUs, as the file names them.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Named {
    /// By their numbers on the node, as `nvidia-smi` counts: the first and the last of them.
    Numbers(u32, u32),
    Uuid(String),
}

/// A line of the table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct GpuRule {
    named: Vec<Named>,
    users: BTreeSet<u32>,
    groups: BTreeSet<u32>,
    /// The GPUs that are meant, by mgbd's numbers.
    gpus: GpuSet,
}

/// The table `[gpus]`: for whom GPUs are kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct GpuRules(Vec<GpuRule>);

impl GpuRules {
    /// Reads the table. Names that the system does not know are added to `unknown`.
    pub(super) fn read(
        written: &BTreeMap<String, Vec<String>>,
        user: impl Fn(&str) -> Option<u32>,
        group: impl Fn(&str) -> Option<u32>,
        unknown: &mut Vec<String>,
    ) -> Result<GpuRules, String> {
        let mut rules = Vec::new();
        for (gpus, whose) in written {
            let named = gpus.split(',').map(|entry| named(entry.trim()));
            let mut rule = GpuRule {
                named: named.collect::<Result<_, _>>()?,
                ..GpuRule::default()
            };
            for who in whose {
                let number = |name: &str, of: Option<u32>| of.or_else(|| name.parse().ok());
                let (set, name, number) = match who.split_once(':') {
                    Some(("user", name)) => {
                        (&mut rule.users, format!("user {name}"), number(name, user(name)))
                    }
                    Some(("group", name)) => (
                        &mut rule.groups,
                        format!("group {name}"),
                        number(name, group(name)),
                    ),
                    _ => return Err(format!("`{who}` is neither user:NAME nor group:NAME")),
                };
                match number {
                    Some(number) => drop(set.insert(number)),
                    None => unknown.push(name),
                }
            }
            rules.push(rule);
        }
        Ok(GpuRules(rules))
    }

    /// Finds the GPUs that are meant among those that are shared; returns what none of them is called.
    pub(super) fn find(&mut self, shared: &[Gpu]) -> Vec<String> {
        let mut unknown = Vec::new();
        for rule in &mut self.0 {
            rule.gpus = GpuSet::EMPTY;
            for named in &rule.named {
                let found = shared.iter().filter(|gpu| named.is(gpu));
                let found = found.map(|gpu| gpu.index as usize).collect::<GpuSet>();
                if found.is_empty() {
                    unknown.push(named.to_string());
                }
                rule.gpus |= found;
            }
        }
        unknown
    }

    /// Whether it names groups.
    pub(super) fn name_groups(&self) -> bool {
        self.0.iter().any(|rule| !rule.groups.is_empty())
    }

    /// The GPUs that a user in these groups may use; all where none is kept for others.
    pub(super) fn of(&self, uid: u32, groups: &[u32]) -> GpuSet {
        let is_for = |rule: &&GpuRule| {
            rule.users.contains(&uid) || groups.iter().any(|group| rule.groups.contains(group))
        };
        let kept: GpuSet = self.0.iter().map(|rule| rule.gpus).collect();
        let own: GpuSet = self.0.iter().filter(is_for).map(|rule| rule.gpus).collect();
        !kept | own
    }

    /// The GPUs that are kept, as the node view shows them.
    pub(super) fn views(&self) -> Vec<KeptView> {
        let view = |rule: &GpuRule| KeptView {
            gpus: rule.gpus.iter().map(|gpu| gpu as u32).collect(),
            users: rule.users.iter().copied().collect(),
            groups: rule.groups.iter().copied().collect(),
        };
        let here = self.0.iter().filter(|rule| !rule.gpus.is_empty());
        here.map(view).collect()
    }
}

impl Named {
    fn is(&self, gpu: &Gpu) -> bool {
        match self {
            Named::Numbers(first, last) => (*first..=*last).contains(&gpu.node_index),
            Named::Uuid(uuid) => gpu.uuid.eq_ignore_ascii_case(uuid),
        }
    }
}

impl std::fmt::Display for Named {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Named::Numbers(first, last) if first == last => write!(f, "GPU {first}"),
            Named::Numbers(first, last) => write!(f, "GPUs {first}-{last}"),
            Named::Uuid(uuid) => f.write_str(uuid),
        }
    }
}

fn named(entry: &str) -> Result<Named, String> {
    if entry.starts_with("GPU-") {
        return Ok(Named::Uuid(entry.to_owned()));
    }
    let number = |text: &str| {
        text.trim()
            .parse::<u32>()
            .ok()
            .filter(|number| *number <= MAX_NUMBER)
    };
    let (first, last) = entry.split_once('-').unwrap_or((entry, entry));
    match (number(first), number(last)) {
        (Some(first), Some(last)) if first <= last => Ok(Named::Numbers(first, last)),
        _ => Err(format!("`{entry}` names no GPUs: write 2, 0-3, or a UUID")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::test_gpu;

    fn rules(table: &[(&str, &[&str])]) -> Result<(GpuRules, Vec<String>), String> {
        let own = |whose: &&[&str]| whose.iter().map(|who| (*who).to_owned()).collect();
        let written = table.iter().map(|(gpus, whose)| ((*gpus).to_owned(), own(whose)));
        let mut unknown = Vec::new();
        let nobody = |_: &str| None;
        let mut rules = GpuRules::read(&written.collect(), nobody, nobody, &mut unknown)?;
        // Another one has the number 0 on the node.
        let shared: Vec<Gpu> = (0..4)
            .map(|index| Gpu {
                node_index: index + 1,
                ..test_gpu(index, 1, 1)
            })
            .collect();
        unknown.extend(rules.find(&shared));
        Ok((rules, unknown))
    }

    #[test]
    fn a_named_gpu_is_for_those_who_stand_there_and_the_others_are_everybodys() {
        let (rules, unknown) = rules(&[("1-2", &["group:50"]), ("GPU-2", &["group:60", "user:7"])]).unwrap();
        assert_eq!(unknown, [] as [&str; 0]);
        let may = |uid, groups: &[u32]| rules.of(uid, groups).bits() & 0b1111;
        assert_eq!(may(1, &[]), 0b1000, "the common one");
        assert_eq!(
            [may(1, &[50]), may(1, &[60]), may(7, &[])],
            [0b1011, 0b1100, 0b1100]
        );
        assert_eq!(may(7, &[50, 60]), 0b1111);
        assert!(rules.name_groups());
        assert_eq!(GpuRules::default().of(1, &[]), GpuSet::ALL);
        let views = rules.views();
        assert_eq!(
            (views[0].gpus.as_slice(), views[0].groups.as_slice()),
            ([0, 1].as_slice(), [50].as_slice())
        );
    }

    #[test]
    fn mistakes_and_what_is_not_there_are_named() {
        let wrong = |gpus: &str, who: &str| rules(&[(gpus, &[who])]).unwrap_err();
        for gpus in ["", "x", "3-1", "1-", "0-99999", "-1"] {
            assert!(wrong(gpus, "user:7").contains("names no GPUs"), "{gpus}");
        }
        assert!(wrong("1", "alice").contains("neither user:NAME nor group:NAME"));
        let (rules, unknown) = rules(&[("0,1", &["user:alice"]), ("GPU-9", &[])]).unwrap();
        assert_eq!(unknown, ["user alice", "GPU 0", "GPU-9"]);
        assert_eq!(
            rules.of(7, &[]) & GpuSet::from_bits(0b1111),
            GpuSet::from_bits(0b1110),
            "it is kept although nobody may use it"
        );
    }
}
