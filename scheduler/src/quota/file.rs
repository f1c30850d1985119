//! The file of quotas:
//!
//! ```toml
//! [default]            # each user without an entry
//! bytes = "80GiB"
//! gpus = 1
//! processes = 8        # with a context on a GPU, counted on each
//! alone = 1            # GPUs that tasks have for themselves; false: none, true: any number
//! swap = "64GiB"       # host memory for what leaves GPUs
//! waiting = 100        # tasks that wait to begin
//! priority = 0         # the highest MGB_PRIORITY that counts
//! latency = 30         # percent of a GPU's time that latency programs may take from batch; false: none
//! time = "12h"         # how long a task may have its memory on a GPU
//! end-late = false     # whether a process that has it for longer is ended
//!
//! [users.alice]        # what is not said here is as in [default]
//! bytes = "unlimited"
//! weight = 2
//!
//! [groups.students]    # all members together; the weight is each one's
//! bytes = "120GiB"
//! tasks = 40
//!
//! [gpus]               # see the module `gpus`
//! "0-1" = ["group:students"]
//! ```

use std::collections::BTreeMap;
use std::ffi::CString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use mgb_probe::view::KeptView;
use mgb_probe::{Gpu, byte_size};
use nix::unistd::{Gid, Group, Uid, User, getgrouplist};
use serde::Deserialize;

use super::gpus::GpuRules;
use super::{Account, Limits, MAX_LATENCY_PERCENT, Owner, time};

/// Why a file has no quotas.
#[derive(Debug, thiserror::Error)]
pub enum QuotasError {
    /// It cannot be read.
    #[error("failed to read {0}: {1}")]
    Read(PathBuf, std::io::Error),
    /// It is no TOML, or has other keys than it may have.
    #[error("{0}: {1}")]
    Form(PathBuf, Box<toml::de::Error>),
    /// A value makes no sense.
    #[error("{0}: {1}: {2}")]
    Value(PathBuf, String, String),
}

/// A number, a size as people write it, or `unlimited`.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
enum Written {
    Number(u64),
    Text(String),
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct WrittenEntry {
    bytes: Option<Written>,
    tasks: Option<Written>,
    gpus: Option<Written>,
    processes: Option<Written>,
    alone: Option<WrittenAlone>,
    swap: Option<Written>,
    waiting: Option<Written>,
    priority: Option<Written>,
    latency: Option<WrittenLatency>,
    time: Option<Written>,
    end_late: Option<bool>,
    weight: Option<u32>,
}

/// How many GPUs tasks may have for themselves: a number, or whether they may at all.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
enum WrittenAlone {
    May(bool),
    Number(Written),
}

/// How much of a GPU's time latency programs may take: a percentage, or whether there may be any.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(untagged)]
enum WrittenLatency {
    May(bool),
    Percent(u32),
}

impl WrittenLatency {
    fn percent(self) -> Result<u32, String> {
        match self {
            WrittenLatency::May(false) => Ok(0),
            WrittenLatency::May(true) => Ok(MAX_LATENCY_PERCENT),
            WrittenLatency::Percent(percent) if percent <= MAX_LATENCY_PERCENT => Ok(percent),
            WrittenLatency::Percent(percent) => Err(format!(
                "latency is {percent}: batch programs keep half of each second, so {MAX_LATENCY_PERCENT} is the most"
            )),
        }
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenFile {
    #[serde(default)]
    default: WrittenEntry,
    #[serde(default)]
    users: BTreeMap<String, WrittenEntry>,
    #[serde(default)]
    groups: BTreeMap<String, WrittenEntry>,
    #[serde(default)]
    gpus: BTreeMap<String, Vec<String>>,
}

/// What is said of one limit: nothing, or a limit, or that there is none.
type Said = Option<Option<u64>>;

/// What is said of a user or group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct QuotaEntry {
    bytes: Said,
    tasks: Said,
    gpus: Said,
    processes: Said,
    alone: Said,
    swap: Said,
    waiting: Said,
    priority: Said,
    latency: Option<u32>,
    /// How long a task may have its memory on a GPU, in milliseconds.
    time: Said,
    ends_late: Option<bool>,
    weight: Option<u32>,
}

impl QuotaEntry {
    /// The limits that it says itself.
    fn limits(&self) -> Limits {
        Limits {
            bytes: self.bytes.flatten(),
            tasks: self.tasks.flatten(),
            gpus: self.gpus.flatten(),
            processes: self.processes.flatten(),
            // A group of which it is 0 has none that another entry of its members does not give them.
            alone: self.alone.flatten().filter(|most| *most > 0),
            swap: self.swap.flatten(),
            waiting: self.waiting.flatten(),
        }
    }

    /// What this says, and where it says nothing the default.
    fn or(&self, default: &QuotaEntry) -> QuotaEntry {
        QuotaEntry {
            bytes: self.bytes.or(default.bytes),
            tasks: self.tasks.or(default.tasks),
            gpus: self.gpus.or(default.gpus),
            processes: self.processes.or(default.processes),
            alone: self.alone.or(default.alone),
            swap: self.swap.or(default.swap),
            waiting: self.waiting.or(default.waiting),
            priority: self.priority.or(default.priority),
            latency: self.latency.or(default.latency),
            time: self.time.or(default.time),
            ends_late: self.ends_late.or(default.ends_late),
            weight: self.weight.or(default.weight),
        }
    }
}

/// The quotas of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Quotas {
    default: QuotaEntry,
    users: BTreeMap<u32, QuotaEntry>,
    groups: BTreeMap<u32, QuotaEntry>,
    gpus: GpuRules,
    /// Users and groups that it names and the system does not know.
    pub unknown: Vec<String>,
}

impl Quotas {
    /// Reads a file. Names become numbers here, by the name service, which may take its time: nobody is asked
    /// for them later.
    ///
    /// # Errors
    /// The file cannot be read, or a value in it makes no sense.
    pub fn read(path: &Path) -> Result<Quotas, QuotasError> {
        Quotas::read_by(path, user, group)
    }

    /// Reads a file without asking anybody: who is in it by name is unknown.
    ///
    /// # Errors
    /// As [`Quotas::read`].
    pub fn read_unnamed(path: &Path) -> Result<Quotas, QuotasError> {
        let nobody = |_: &str| None;
        Quotas::read_by(path, nobody, nobody)
    }

    fn read_by(
        path: &Path,
        user: impl Fn(&str) -> Option<u32>,
        group: impl Fn(&str) -> Option<u32>,
    ) -> Result<Quotas, QuotasError> {
        let text =
            std::fs::read_to_string(path).map_err(|error| QuotasError::Read(path.to_owned(), error))?;
        let written: WrittenFile =
            toml::from_str(&text).map_err(|error| QuotasError::Form(path.to_owned(), Box::new(error)))?;
        let entry = |whose: String, written: &WrittenEntry| {
            entry(written).map_err(|why| QuotasError::Value(path.to_owned(), whose, why))
        };
        let mut quotas = Quotas {
            default: entry("[default]".to_owned(), &written.default)?,
            ..Quotas::default()
        };
        for (name, said) in &written.users {
            let said = entry(format!("[users.{name}]"), said)?;
            match user(name).or_else(|| name.parse().ok()) {
                Some(uid) => drop(quotas.users.insert(uid, said)),
                None => quotas.unknown.push(format!("user {name}")),
            }
        }
        for (name, said) in &written.groups {
            let said = entry(format!("[groups.{name}]"), said)?;
            match group(name).or_else(|| name.parse().ok()) {
                Some(gid) => drop(quotas.groups.insert(gid, said)),
                None => quotas.unknown.push(format!("group {name}")),
            }
        }
        quotas.gpus = GpuRules::read(&written.gpus, user, group, &mut quotas.unknown)
            .map_err(|why| QuotasError::Value(path.to_owned(), "[gpus]".to_owned(), why))?;
        Ok(quotas)
    }

    /// Finds the GPUs that it names among those that are shared; returns what none of them is called.
    pub fn find_gpus(&mut self, shared: &[Gpu]) -> Vec<String> {
        self.gpus.find(shared)
    }

    /// Which GPUs are for some alone, for people.
    pub fn kept_views(&self) -> Vec<KeptView> {
        self.gpus.views()
    }

    /// Whether it says something of groups.
    pub fn name_groups(&self) -> bool {
        !self.groups.is_empty() || self.gpus.name_groups()
    }

    /// Whether it would have late processes ended, and names users or groups that the system does not know:
    /// any user may be one of those, and have more time, so that nobody is ended.
    pub fn spares_all(&self) -> bool {
        let all = [&self.default].into_iter().chain(self.users.values());
        let mut all = all.chain(self.groups.values());
        !self.unknown.is_empty() && all.any(|said| said.ends_late == Some(true))
    }

    /// What holds for a user, but for the groups that the user may be in.
    pub fn account_without_groups(&self, uid: u32) -> Account {
        let account = self.account_in(uid, &[]);
        if !self.name_groups() {
            return account;
        }
        Account {
            is_provisional: true,
            // One of the groups may have more.
            most_time: None,
            ..account
        }
    }

    /// What holds for a user. Asks the name service for the user's groups if the file says something of
    /// groups; that may take its time.
    pub fn account(&self, uid: u32) -> Account {
        if !self.name_groups() {
            return self.account_in(uid, &[]);
        }
        match groups_of(uid) {
            Ok(groups) => self.account_in(uid, &groups),
            // Nobody is ended whose groups nobody can say.
            Err(_) => Account {
                most_time: None,
                ..self.account_in(uid, &[])
            },
        }
    }

    fn account_in(&self, uid: u32, groups: &[u32]) -> Account {
        let own = self.users.get(&uid).copied().unwrap_or_default();
        let of_groups = groups
            .iter()
            .filter_map(|gid| Some((*gid, self.groups.get(gid)?)));
        // Who is in several groups may what one of them may.
        let most = |number: &Option<u64>| number.unwrap_or(u64::MAX);
        let by_groups = QuotaEntry {
            alone: of_groups
                .clone()
                .filter_map(|(_, said)| said.alone)
                .max_by_key(most),
            priority: of_groups
                .clone()
                .filter_map(|(_, said)| said.priority)
                .max_by_key(most),
            latency: of_groups.clone().filter_map(|(_, said)| said.latency).max(),
            time: of_groups
                .clone()
                .filter_map(|(_, said)| said.time)
                .max_by_key(most),
            ends_late: of_groups.clone().filter_map(|(_, said)| said.ends_late).min(),
            weight: of_groups.clone().filter_map(|(_, said)| said.weight).max(),
            ..QuotaEntry::default()
        };
        let user = own.or(&by_groups).or(&self.default);
        let mut limits = vec![(Owner::User(uid), user.limits())];
        limits.extend(of_groups.map(|(gid, said)| (Owner::Group(gid), said.limits())));
        limits.retain(|(_, limits)| !limits.are_none());
        Account {
            limits,
            weight: user.weight.unwrap_or(1),
            may_be_alone: user.alone != Some(Some(0)),
            most_priority: user
                .priority
                .map(|most| u32::try_from(most.unwrap_or(u64::MAX)).unwrap_or(u32::MAX)),
            latency_percent: user.latency,
            most_time: user.time.flatten().map(Duration::from_millis),
            ends_late: user.ends_late == Some(true) && self.unknown.is_empty(),
            gpus: self.gpus.of(uid, groups),
            is_provisional: false,
        }
    }
}

fn entry(written: &WrittenEntry) -> Result<QuotaEntry, String> {
    if written.weight == Some(0) {
        return Err("weight is 0; the least is 1".to_owned());
    }
    Ok(QuotaEntry {
        bytes: limit("bytes", written.bytes.as_ref(), bytes)?,
        tasks: limit("tasks", written.tasks.as_ref(), number)?,
        gpus: limit("gpus", written.gpus.as_ref(), number)?,
        processes: limit("processes", written.processes.as_ref(), number)?,
        alone: match &written.alone {
            Some(WrittenAlone::May(true)) => Some(None),
            Some(WrittenAlone::May(false)) => Some(Some(0)),
            Some(WrittenAlone::Number(most)) => limit("alone", Some(most), number)?,
            None => None,
        },
        swap: limit("swap", written.swap.as_ref(), bytes)?,
        waiting: limit("waiting", written.waiting.as_ref(), number)?,
        priority: limit("priority", written.priority.as_ref(), number)?,
        latency: written.latency.map(WrittenLatency::percent).transpose()?,
        time: match &written.time {
            // Of what, nobody could say.
            Some(Written::Number(bare)) => Some(Some(
                time::parse(&bare.to_string()).map_err(|why| format!("time: {why}"))?,
            )),
            said => limit("time", said.as_ref(), time::parse)?,
        },
        ends_late: written.end_late,
        weight: written.weight,
    })
}

fn bytes(text: &str) -> Result<u64, String> {
    byte_size::parse(text).map_err(|error| error.to_string())
}

fn number(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("`{text}` is no number"))
}

fn limit(
    what: &str,
    written: Option<&Written>,
    read: impl Fn(&str) -> Result<u64, String>,
) -> Result<Said, String> {
    Ok(match written {
        None => None,
        Some(Written::Number(number)) => Some(Some(*number)),
        Some(Written::Text(text)) if text == "unlimited" => Some(None),
        Some(Written::Text(text)) => Some(Some(read(text).map_err(|why| format!("{what}: {why}"))?)),
    })
}

/// The number of a user of this name.
fn user(name: &str) -> Option<u32> {
    let known = User::from_name(name).ok().flatten();
    known.map(|user| user.uid.as_raw())
}

/// The number of a group of this name.
fn group(name: &str) -> Option<u32> {
    let known = Group::from_name(name).ok().flatten();
    known.map(|group| group.gid.as_raw())
}

/// The groups that the system says a user is in. What a process says of itself does not count: it may have
/// left some.
///
/// # Errors
/// The name service cannot say.
fn groups_of(uid: u32) -> nix::Result<Vec<u32>> {
    let Some(user) = User::from_uid(Uid::from_raw(uid))? else {
        return Ok(Vec::new());
    };
    let name = CString::new(user.name).map_err(|_| nix::Error::EINVAL)?;
    let groups = getgrouplist(&name, user.gid)?;
    Ok(groups.into_iter().map(Gid::as_raw).collect())
}

#[cfg(test)]
mod tests;
