//! The mixes of `benches/mixes.toml`: which jobs, how large, in which order. The file describes its own
//! format, and how jobs are drawn, so that every machine draws the same.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use crate::batch::jobfile::FileJob;

/// The format that is read here.
const VERSION: u32 = 1;

#[derive(Debug, Deserialize)]
struct File {
    version: u32,
    seed: u64,
    programs: BTreeMap<String, toml::Table>,
    sets: BTreeMap<String, MixSet>,
    #[serde(rename = "mix")]
    mixes: Vec<MixDefinition>,
}

#[derive(Debug, Deserialize)]
struct MixSet {
    settings: Vec<MixSetting>,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
struct MixSetting {
    program: String,
    size: f64,
    args: Vec<String>,
}

#[derive(Debug, Deserialize)]
struct MixDefinition {
    name: String,
    about: String,
    draw: Vec<MixDraw>,
}

#[derive(Debug, Deserialize)]
struct MixDraw {
    from: String,
    jobs: usize,
}

/// All mixes there are, drawn.
#[derive(Debug)]
pub struct Mixes {
    /// What they were drawn from.
    pub seed: u64,
    /// In the order of the file.
    pub mixes: Vec<Mix>,
}

/// A mix of jobs.
#[derive(Clone, Debug)]
pub struct Mix {
    /// How it is asked for.
    pub name: String,
    /// What it is, in a line.
    pub about: String,
    jobs: Jobs,
}

#[derive(Clone, Debug)]
enum Jobs {
    /// Workloads, by their settings.
    Drawn(Vec<MixSetting>),
    /// The user's own commands.
    Listed(Vec<FileJob>),
}

impl Mixes {
    /// Reads the file and draws from its seed, or from another.
    ///
    /// # Errors
    /// Naming what is wrong with the file.
    pub fn read(file: &Path, seed: Option<u64>) -> Result<Self> {
        let shown = file.display();
        let text = std::fs::read_to_string(file)
            .with_context(|| format!("failed to read the mixes {shown}; run `make benches` first"))?;
        Self::parse(&text, seed).with_context(|| format!("failed to use the mixes {shown}"))
    }

    fn parse(text: &str, seed: Option<u64>) -> Result<Self> {
        let file: File = toml::from_str(text)?;
        if file.version != VERSION {
            bail!("its version is {}, this mgb reads {VERSION}", file.version);
        }
        let seed = seed.unwrap_or(file.seed);
        let mixes = file
            .mixes
            .iter()
            .enumerate()
            .map(|(place, entry)| drawn(&file, entry, seed.wrapping_add(place as u64)))
            .collect::<Result<_>>()?;
        Ok(Self { seed, mixes })
    }

    /// Those of these names, in the order of the names.
    ///
    /// # Errors
    /// Naming one that is not there, and all that are.
    pub fn choose(&self, names: &[String]) -> Result<Vec<Mix>> {
        let find = |name: &String| {
            let found = self.mixes.iter().find(|mix| mix.name == *name);
            found.cloned().with_context(|| {
                let known: Vec<&str> = self.mixes.iter().map(|mix| mix.name.as_str()).collect();
                format!("no mix is called {name}; known are {}", known.join(", "))
            })
        };
        names.iter().map(find).collect()
    }
}

fn drawn(file: &File, entry: &MixDefinition, state: u64) -> Result<Mix> {
    let mut random = SplitMix64(state);
    let mut jobs = Vec::new();
    for draw in &entry.draw {
        let set = file.sets.get(&draw.from);
        let settings = &set
            .filter(|set| !set.settings.is_empty())
            .with_context(|| format!("mix {} draws from {}, which holds nothing", entry.name, draw.from))?
            .settings;
        for _ in 0..draw.jobs {
            let setting = &settings[random.below(settings.len())];
            if !file.programs.contains_key(&setting.program) {
                bail!(
                    "set {} names {}, which is not a program",
                    draw.from,
                    setting.program
                );
            }
            jobs.push(setting.clone());
        }
    }
    for last in (1..jobs.len()).rev() {
        jobs.swap(last, random.below(last + 1));
    }
    Ok(Mix {
        name: entry.name.clone(),
        about: entry.about.clone(),
        jobs: Jobs::Drawn(jobs),
    })
}

impl Mix {
    /// The user's own jobs, in an order that the seed makes.
    pub fn listed(name: String, mut jobs: Vec<FileJob>, seed: u64) -> Self {
        let mut random = SplitMix64(seed);
        for last in (1..jobs.len()).rev() {
            jobs.swap(last, random.below(last + 1));
        }
        for (index, job) in jobs.iter_mut().enumerate() {
            job.number = index + 1;
        }
        Self {
            about: "jobs of a list".to_owned(),
            name,
            jobs: Jobs::Listed(jobs),
        }
    }

    /// Its jobs in the order in which they are queued, for GPUs of `capacity` bytes, with the workloads in
    /// `folder`. A list's commands run as they were written.
    ///
    /// # Errors
    /// When a workload is not there.
    pub fn jobs(&self, folder: &Path, capacity: u64) -> Result<Vec<FileJob>> {
        let settings = match &self.jobs {
            Jobs::Listed(jobs) => return Ok(jobs.clone()),
            Jobs::Drawn(settings) => settings,
        };
        let job = |(index, setting): (usize, &MixSetting)| {
            let bytes = (capacity as f64 * setting.size) as u64;
            let mut arguments = vec![bytes.to_string()];
            arguments.extend(setting.args.iter().cloned());
            let mut job = FileJob::of_own(
                index + 1,
                ("workload", "benches"),
                folder,
                &setting.program,
                arguments,
            )?;
            // Its clocks run in any case; this has it print them.
            job.arguments.push("--profile".to_owned());
            Ok(job)
        };
        settings.iter().enumerate().map(job).collect()
    }
}

/// The generator that the file names.
struct SplitMix64(u64);

impl SplitMix64 {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = r#"
        version = 1
        seed = 1
        [programs]
        train = { host = 1.1 }
        other = { host = 0.5 }
        [sets.small]
        settings = [{ program = "train", size = 0.1, args = [] }, { program = "other", size = 0.2, args = ["--steps", "3"] }]
        [sets.large]
        settings = [{ program = "train", size = 0.5, args = [] }]
        [[mix]]
        name = "A"
        about = "four"
        draw = [{ from = "large", jobs = 2 }, { from = "small", jobs = 4 }]
        [[mix]]
        name = "B"
        about = "one"
        draw = [{ from = "small", jobs = 1 }]
    "#;

    #[test]
    fn the_generator_is_the_one_that_the_file_names() {
        let mut random = SplitMix64(1);
        let first = [random.next(), random.next(), random.next()];
        assert_eq!(
            first,
            [10451216379200822465, 13757245211066428519, 17911839290282890590]
        );
    }

    #[test]
    fn jobs_are_drawn_and_ordered_by_the_seed() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["train", "other"] {
            std::fs::write(folder.path().join(name), "").unwrap();
        }
        let lines = |seed| {
            let mixes = Mixes::parse(FILE, seed).unwrap();
            let jobs = mixes.mixes[0].jobs(folder.path(), 1000).unwrap();
            assert!(
                jobs.iter()
                    .enumerate()
                    .all(|(index, job)| job.number == index + 1)
            );
            assert!(
                jobs.iter()
                    .all(|job| job.arguments.last().unwrap() == "--profile")
            );
            jobs.into_iter().map(|job| job.text).collect::<Vec<_>>()
        };
        insta::assert_snapshot!(lines(None).join("\n"));
        assert_eq!(lines(None), lines(Some(1)));
        assert_ne!(lines(None), lines(Some(2)));
    }

    #[test]
    fn the_projects_own_mixes_can_be_drawn() {
        let text = include_str!("../../../benches/mixes.toml");
        let mixes = Mixes::parse(text, None).unwrap();
        let counts: BTreeMap<&str, usize> = mixes
            .mixes
            .iter()
            .map(|mix| match &mix.jobs {
                Jobs::Drawn(settings) => (mix.name.as_str(), settings.len()),
                Jobs::Listed(jobs) => (mix.name.as_str(), jobs.len()),
            })
            .collect();
        assert_eq!(
            (counts["W1"], counts["W8"], counts["networks"], counts["short"]),
            (16, 32, 128, 512)
        );
    }

    #[test]
    fn what_is_wrong_is_named() {
        let error = |text: &str| format!("{:#}", Mixes::parse(text, None).unwrap_err());
        assert!(error(&FILE.replace("version = 1", "version = 2")).contains("version is 2"));
        assert!(error(&FILE.replace("from = \"large\"", "from = \"huge\"")).contains("draws from huge"));
        assert!(error(&FILE.replace("other = {", "another = {")).contains("other, which is not a program"));
        let mixes = Mixes::parse(FILE, None).unwrap();
        let unknown = mixes
            .choose(&["B".to_owned(), "C".to_owned()])
            .unwrap_err()
            .to_string();
        assert_eq!(unknown, "no mix is called C; known are A, B");
    }
}
