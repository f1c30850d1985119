//! The command line of sbatch, srun or salloc: its options, what is to run, and its arguments.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::tool::Tool;

/// What was found in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SlurmCommandLine {
    /// Whose it is.
    tool: Tool,
    /// All words, as they were given.
    words: Vec<String>,
    /// Options with their values; a letter's without its line.
    options: Vec<(String, Option<String>)>,
    /// How many of the words are options.
    before_command: usize,
}

impl SlurmCommandLine {
    /// Parses the words of a command line.
    pub fn parse(tool: Tool, words: &[String]) -> SlurmCommandLine {
        let mut line = SlurmCommandLine {
            tool,
            words: words.to_vec(),
            ..SlurmCommandLine::default()
        };
        let mut rest = words.iter().peekable();
        while let Some(word) = rest.next_if(|word| word.starts_with('-') && word.len() > 1) {
            line.before_command += 1;
            if word == "--" {
                break;
            }
            let (name, own, takes) = if let Some(long) = word.strip_prefix("--") {
                let (name, own) = match long.split_once('=') {
                    Some((name, value)) => (name.to_owned(), Some(value.to_owned())),
                    None => (long.to_owned(), None),
                };
                let takes = own.is_none() && !tool.is_plain_word(&name);
                (name, own, takes)
            } else {
                let letters = &word[1..];
                let has_value = |letter| !tool.is_plain_letter(letter) || tool.may_have_value(letter);
                let Some(at) = letters.find(has_value) else {
                    line.options.push((letters.to_owned(), None));
                    continue;
                };
                let letter = letters[at..].chars().next().unwrap_or(' ');
                let value = &letters[at + letter.len_utf8()..];
                let own = (!value.is_empty()).then(|| value.to_owned());
                let takes = own.is_none() && !tool.is_plain_letter(letter);
                if at > 0 {
                    line.options.push((letters[..at].to_owned(), None));
                }
                (letter.to_string(), own, takes)
            };
            let value = if takes {
                line.before_command += usize::from(rest.peek().is_some());
                rest.next().cloned()
            } else {
                own
            };
            line.options.push((name, value));
        }
        line
    }

    /// The same without an option of MGB's own, wherever among Slurm's it stands, and whether it was there.
    pub fn without_flag(&self, name: &str) -> (SlurmCommandLine, bool) {
        let word = format!("--{name}");
        let at = self.words[..self.before_command]
            .iter()
            .position(|other| *other == word);
        (self.without(at, 1), at.is_some())
    }

    /// The same of an option with a value, and that.
    pub fn without_option(&self, name: &str) -> (SlurmCommandLine, Option<String>) {
        let (word, start) = (format!("--{name}"), format!("--{name}="));
        let words = &self.words[..self.before_command];
        if let Some(at) = words.iter().position(|other| other.starts_with(&start)) {
            let value = words[at][start.len()..].to_owned();
            return (self.without(Some(at), 1), Some(value));
        }
        let at = words
            .iter()
            .position(|other| *other == word && self.words.len() > 1);
        let value = at.and_then(|at| self.words.get(at + 1).cloned());
        (self.without(at.filter(|_| value.is_some()), 2), value)
    }

    fn without(&self, at: Option<usize>, count: usize) -> SlurmCommandLine {
        let mut words = self.words.clone();
        if let Some(at) = at {
            words.drain(at..at + count);
        }
        SlurmCommandLine::parse(self.tool, &words)
    }

    /// All of its words.
    pub fn words(&self) -> &[String] {
        &self.words
    }

    fn option(&self, names: [&str; 2]) -> Option<&str> {
        let found = self
            .options
            .iter()
            .rev()
            .find(|(name, _)| names.contains(&name.as_str()));
        found.and_then(|(_, value)| value.as_deref())
    }

    /// Whether nothing is to be said.
    pub fn is_quiet(&self) -> bool {
        let quiet = |name: &str| name == "quiet" || name.len() < 4 && name.contains('Q');
        self.options
            .iter()
            .any(|(name, value)| value.is_none() && quiet(name))
    }

    /// Whether it is for a job that is there already, and has asked for what it needs.
    pub fn is_in_a_job(&self) -> bool {
        let is_inside = || std::env::var_os("SLURM_JOB_ID").is_some();
        self.tool == Tool::Srun && (self.option(["jobid", "jobid"]).is_some() || is_inside())
    }

    /// What is to run in place of a script.
    pub fn wrap(&self) -> Option<&str> {
        self.option(["wrap", "wrap"])
            .filter(|_| self.tool == Tool::Sbatch)
    }

    /// The script or program, and its arguments.
    pub fn command(&self) -> &[String] {
        &self.words[self.before_command.min(self.words.len())..]
    }

    /// The folder in which the job runs.
    pub fn folder(&self) -> PathBuf {
        let here = std::env::current_dir().unwrap_or_default();
        self.option(["chdir", "D"])
            .map_or(here.clone(), |folder| here.join(folder))
    }

    /// The script, where it can be found: as sbatch does, here or in `PATH`.
    pub fn script(&self) -> Option<PathBuf> {
        let name = self.command().first()?;
        let path = Path::new(name);
        if path.is_file() {
            return Some(path.to_owned());
        }
        let folders = std::env::var_os("PATH")?;
        let is_bare = !name.contains('/');
        let mut there = std::env::split_paths(&folders).map(|folder| folder.join(name));
        there.find(|path| is_bare && path.is_file())
    }

    /// The text that runs: the script's, or that of `--wrap`; of srun and salloc the words that they run.
    /// `None`: it comes from the standard input.
    pub fn text(&self) -> Result<Option<String>> {
        if let Some(text) = self.wrap() {
            return Ok(Some(text.to_owned()));
        }
        if self.tool != Tool::Sbatch {
            return Ok(Some(self.command().join(" ")));
        }
        let Some(path) = self.script() else {
            return Ok(None);
        };
        let bytes = std::fs::read(&path).with_context(|| format!("failed to read {}", path.display()))?;
        Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
    }

    /// The list of GRES that the job asks for: on the command line, in the environment, or in the script.
    pub fn gres(&self) -> Result<Option<String>> {
        if let Some(list) = self.option(["gres", "gres"]) {
            return Ok(Some(list.to_owned()));
        }
        if let Some(list) = std::env::var(self.tool.gres_variable())
            .ok()
            .filter(|list| !list.is_empty())
        {
            return Ok(Some(list));
        }
        if self.wrap().is_some() || self.tool != Tool::Sbatch {
            return Ok(None);
        }
        Ok(self.text()?.as_deref().and_then(gres_of_script))
    }

    /// All words with a list of GRES that has these entries as well.
    pub fn with_gres(&self, gres: Option<&str>, more: &str) -> Vec<String> {
        let list = match gres {
            None | Some("" | "none" | "NONE") => more.to_owned(),
            Some(list) => format!("{list},{more}"),
        };
        let mut words = self.words.clone();
        // The last one counts, and comes before what runs.
        let ends = usize::from(self.before_command > 0 && words[self.before_command - 1] == "--");
        words.insert(self.before_command - ends, format!("--gres={list}"));
        words
    }
}

/// The list in a script's last `#SBATCH --gres`, of those before its first command.
fn gres_of_script(text: &str) -> Option<String> {
    let head = text
        .lines()
        .take_while(|line| line.is_empty() || line.starts_with('#'));
    let options = head.filter_map(|line| line.strip_prefix("#SBATCH"));
    let lists = options.filter_map(|line| {
        let mut words = line.split_whitespace();
        while let Some(word) = words.next() {
            if let Some(list) = word.strip_prefix("--gres=") {
                return Some(list.to_owned());
            }
            if word == "--gres" {
                return words.next().map(str::to_owned);
            }
        }
        None
    });
    lists.last()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(text: &str) -> SlurmCommandLine {
        of(Tool::Sbatch, text)
    }

    fn of(tool: Tool, text: &str) -> SlurmCommandLine {
        let words: Vec<String> = text.split(' ').map(str::to_owned).collect();
        SlurmCommandLine::parse(tool, &words)
    }

    #[test]
    fn the_script_is_the_first_word_that_is_no_option() {
        for options in [
            "",
            "--time=5 ",
            "--time 5 -p x ",
            "-p x -n4 -Qv ",
            "--parsable --exclusive -W ",
            "--exclusive=user --requeue -t 5 -- ",
            "-QN 2 ",
        ] {
            let line = line(&format!("{options}job.sh -n 5"));
            assert_eq!(line.command(), ["job.sh", "-n", "5"], "{options}");
        }
        assert!(line("-p x").command().is_empty() && line("-p").command().is_empty());
    }

    #[test]
    fn the_program_of_srun_is_found_behind_options_of_its_own() {
        for options in [
            "",
            "-l -n 4 -u ",
            "-lQn4 ",
            "-I30 -K0 ",
            "-I --pty -W 5 ",
            "--wait 5 --mpi=pmi2 --pty --label ",
            "--immediate=3 --kill-on-bad-exit -w n1 ",
        ] {
            let line = of(Tool::Srun, &format!("{options}./app -n 5"));
            assert_eq!(line.command(), ["./app", "-n", "5"], "{options}");
            assert_eq!(line.text().unwrap().as_deref(), Some("./app -n 5"));
        }
        assert!(of(Tool::Srun, "--jobid=7 ./app").is_in_a_job());
        assert!(of(Tool::Srun, "-lQn4 x").is_quiet() && !of(Tool::Srun, "-ln4 x").is_quiet());
        let line = of(Tool::Salloc, "--no-shell -K9 -n 2");
        assert!(line.command().is_empty());
        assert_eq!(
            line.with_gres(None, "mgb_mem:1").last().unwrap(),
            "--gres=mgb_mem:1"
        );
    }

    #[test]
    fn options_of_mgbs_own_may_stand_among_sbatchs() {
        let (rest, is_there) = line("-p x --print -t 5 job.sh --print").without_flag("print");
        assert!(is_there && rest.words().join(" ") == "-p x -t 5 job.sh --print");
        for text in ["-p x --need 4G job.sh --need 1", "-p x --need=4G job.sh --need 1"] {
            let (rest, value) = line(text).without_option("need");
            assert_eq!(value.as_deref(), Some("4G"), "{text}");
            assert_eq!(rest.words().join(" "), "-p x job.sh --need 1");
        }
        let (rest, value) = line("job.sh --need 1").without_option("need");
        assert!(value.is_none() && rest.command().len() == 3);
        assert!(line("--need").without_option("need").1.is_none());
    }

    #[test]
    fn memory_is_added_to_what_is_asked_for() {
        assert_eq!(
            line("-p x job.sh 1").with_gres(None, "mgb_mem:12").join(" "),
            "-p x --gres=mgb_mem:12 job.sh 1"
        );
        let asked = line("--gres=gpu:1 -- job.sh");
        let gres = asked.gres().unwrap();
        assert_eq!(
            asked.with_gres(gres.as_deref(), "mgb_mem:12").join(" "),
            "--gres=gpu:1 --gres=gpu:1,mgb_mem:12 -- job.sh"
        );
        assert_eq!(
            line("job.sh").with_gres(Some("none"), "mgb_mem:1")[0],
            "--gres=mgb_mem:1"
        );
    }

    #[test]
    fn a_scripts_own_list_counts() {
        let script =
            "#!/bin/sh\n#SBATCH --time=5 --gres=a:1\n\n#SBATCH --gres b:2\necho\n#SBATCH --gres=c:3\n";
        assert_eq!(gres_of_script(script).as_deref(), Some("b:2"));
        assert_eq!(gres_of_script("#!/bin/sh\necho --gres=a:1\n"), None);
    }

    #[test]
    fn what_is_wrapped_and_where_it_runs_is_known() {
        let words = ["--wrap", "./app 5 | tail", "-D", "/tmp", "-Q"].map(str::to_owned);
        let line = SlurmCommandLine::parse(Tool::Sbatch, &words);
        assert_eq!(line.wrap(), Some("./app 5 | tail"));
        assert_eq!(line.folder(), Path::new("/tmp"));
        assert!(line.is_quiet() && line.command().is_empty());
        assert_eq!(line.text().unwrap().as_deref(), Some("./app 5 | tail"));
    }
}
