//! `mgb history`: what programs have taken of the GPUs, by day, user and program.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::{Context, bail};
use mgb_command::exit::{self, CommandResult, WithCode};
use mgb_command::table::{Table, plural};
use mgb_command::{out, tell};
use mgb_interface::usage::{self, Usage, UsageDay};
use mgb_probe::byte_size::Bytes;
use mgb_probe::socket_path;
use serde::Serialize;

use crate::user;

const HELP: &str = "\
Columns: processes that began; held, the time for which they had tasks on GPUs (not while all of the memory is in \
the host); gpu, their part of the time in which the GPUs had work (of n programs at work each has 1/n); memory, what \
they had there times how long; evicted, what went to the host to make room for others; saved, how much longer they \
would have taken at most with one program a GPU at a time. Days are those of UTC.

mgbd counts while it runs, and writes every half minute and when the last program has ended: what programs take \
without MGB is not in it. It keeps 400 days of each user. As root, or as the user of mgbd, you see everybody, else \
yourself.

Exit code: 0, 1 if nothing was counted in that time, 2 if there is no folder of what was counted.";

/// Show what programs have taken of the GPUs: GPU time, memory, and what sharing saved.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub struct Args {
    /// So many days, today's with them.
    #[arg(long, value_name = "DAYS", default_value_t = 30,
        value_parser = clap::value_parser!(u32).range(1..=400))]
    days: u32,
    /// Each day by itself.
    #[arg(long)]
    by_day: bool,
    /// One line for each user, instead of one for each program.
    #[arg(long)]
    by_user: bool,
    /// The folder that mgbd keeps it in [default: that of the service, or of your own mgbd].
    #[arg(long, value_name = "FOLDER")]
    folder: Option<PathBuf>,
    /// Print a line for each day, user and program with commas between, in seconds and bytes.
    #[arg(long, conflicts_with_all = ["json", "by_day", "by_user"])]
    csv: bool,
    /// The same as JSON.
    #[arg(long, conflicts_with_all = ["by_day", "by_user"])]
    json: bool,
}

/// What a program of a user's took on a day, for scripts.
#[derive(Debug, Serialize)]
struct Row {
    day: String,
    uid: u32,
    user: String,
    program: String,
    processes: u64,
    held_seconds: f64,
    gpu_seconds: f64,
    saved_seconds: f64,
    memory_byte_seconds: u64,
    evicted_bytes: u64,
}

/// Runs the command.
pub fn run(args: &Args) -> CommandResult {
    let folder = match &args.folder {
        Some(folder) => folder.clone(),
        None => usual_folder(&socket_path()),
    };
    let now = SystemTime::now();
    let (first, last) = (usage::day_of(now, args.days - 1), usage::day_of(now, 0));
    let days = read_all(&folder, |day| first.as_str() <= day && day <= last.as_str()).code(exit::USAGE)?;
    if args.csv {
        out::print(&csv(&rows(&days)));
    } else if args.json {
        out::print(&out::json(&rows(&days)).code(exit::USAGE)?);
    } else {
        out::print(&text(&days, args, &first, &last));
    }
    Ok(if days.is_empty() { exit::FAILED } else { exit::OK })
}

/// The folder of the `mgbd` at this socket: one that was started by hand keeps it beside the socket.
fn usual_folder(socket: &Path) -> PathBuf {
    let beside = usage::usual_folder(socket);
    let is_service = socket.starts_with("/run/mgb") && !beside.exists();
    if is_service {
        PathBuf::from(usage::SERVICE_FOLDER)
    } else {
        beside
    }
}

/// All days that are asked for, of all users whose files may be read.
fn read_all(folder: &Path, asked: impl Fn(&str) -> bool) -> anyhow::Result<Vec<UsageDay>> {
    let users = fs::read_dir(folder).with_context(|| {
        let folder = folder.display();
        format!("no mgbd has counted anything in {folder}: name its folder (mgbd --usage) with --folder")
    })?;
    let mut days = Vec::new();
    let mut hidden = 0;
    for user in users {
        let user = user?;
        let Some(uid) = user
            .file_name()
            .to_str()
            .and_then(|name| name.parse::<u32>().ok())
        else {
            continue;
        };
        let files = match fs::read_dir(user.path()) {
            Err(error) if error.kind() == ErrorKind::PermissionDenied => {
                hidden += 1;
                continue;
            }
            files => files.with_context(|| format!("{} cannot be read", user.path().display()))?,
        };
        for entry in files {
            let name = entry?.file_name();
            let Some(day) = name
                .to_str()
                .and_then(usage::day_of_file)
                .filter(|day| asked(day))
            else {
                continue;
            };
            let file = usage::file_of(folder, uid, day);
            match UsageDay::read(&file) {
                Ok(found) if found.version == usage::VERSION => days.push(found),
                Ok(found) => {
                    let (file, version) = (file.display(), found.version);
                    bail!(
                        "{file} is of version {version}: this mgb reads {}",
                        usage::VERSION
                    )
                }
                Err(error) if error.kind() == ErrorKind::PermissionDenied => hidden += 1,
                Err(error) => tell!("mgb: {} cannot be read, and is left out: {error}", file.display()),
            }
        }
    }
    if days.is_empty() && hidden > 0 {
        bail!("{} may not be read by this user", folder.display());
    }
    days.sort_by(|one, other| (&one.day, one.uid).cmp(&(&other.day, other.uid)));
    Ok(days)
}

fn rows(days: &[UsageDay]) -> Vec<Row> {
    let seconds = |ns: u64| (ns as f64 / 1e6).round() / 1e3;
    let of_day = |day: &UsageDay| {
        let user = user::name(day.uid);
        let row = |(program, usage): (&String, &Usage)| Row {
            day: day.day.clone(),
            uid: day.uid,
            user: user.clone(),
            program: program.clone(),
            processes: usage.processes,
            held_seconds: seconds(usage.held_ns),
            gpu_seconds: seconds(usage.gpu_ns),
            saved_seconds: seconds(usage.shared_ns),
            memory_byte_seconds: usage.byte_seconds,
            evicted_bytes: usage.evicted_bytes,
        };
        day.programs.iter().map(row).collect::<Vec<_>>()
    };
    days.iter().flat_map(of_day).collect()
}

fn csv(rows: &[Row]) -> String {
    let head = "day,uid,user,program,processes,held_seconds,gpu_seconds,saved_seconds,memory_byte_seconds,\
                evicted_bytes\n";
    let line = |row: &Row| {
        format!(
            "{},{},{},{},{},{:.3},{:.3},{:.3},{},{}\n",
            row.day,
            row.uid,
            quoted(&row.user),
            quoted(&row.program),
            row.processes,
            row.held_seconds,
            row.gpu_seconds,
            row.saved_seconds,
            row.memory_byte_seconds,
            row.evicted_bytes
        )
    };
    head.to_owned() + &rows.iter().map(line).collect::<String>()
}

/// A field as RFC 4180 has it. Programs choose their labels, and a spreadsheet takes what begins with these
/// characters for a formula: an apostrophe before it has it shown as text.
fn quoted(text: &str) -> String {
    let guard = if text.starts_with(['=', '+', '-', '@', '\t']) {
        "'"
    } else {
        ""
    };
    if text.contains(['"', ',', '\n', '\r']) {
        format!("\"{guard}{}\"", text.replace('"', "\"\""))
    } else {
        format!("{guard}{text}")
    }
}

fn text(days: &[UsageDay], args: &Args, first: &str, last: &str) -> String {
    if days.is_empty() {
        return format!("nothing was counted from {first} to {last}\n");
    }
    let several = args.by_user || user::are_several(days.iter().map(|day| day.uid));
    let mut sums: BTreeMap<(String, u32, String), Usage> = BTreeMap::new();
    let mut all = Usage::default();
    for day in days {
        for (program, usage) in &day.programs {
            let of_day = if args.by_day {
                day.day.clone()
            } else {
                String::new()
            };
            let program = if args.by_user {
                String::new()
            } else {
                program.clone()
            };
            *sums.entry((of_day, day.uid, program)).or_default() += *usage;
            all += *usage;
        }
    }
    let mut sums: Vec<_> = sums.into_iter().collect();
    // Days in their order; in each of them who has had most.
    sums.sort_by(|((one, ..), a), ((other, ..), b)| {
        (one, b.gpu_ns, b.held_ns).cmp(&(other, a.gpu_ns, a.held_ns))
    });
    let numbers = ["processes", "held", "gpu", "memory", "evicted", "saved"];
    let shown = [
        (args.by_day, "day"),
        (several, "user"),
        (!args.by_user, "program"),
    ];
    let words: Vec<&str> = shown
        .iter()
        .filter(|(is, _)| *is)
        .map(|(_, word)| *word)
        .collect();
    let mut table = Table::new(&[&words[..], &numbers].concat(), &numbers);
    for ((day, uid, program), usage) in &sums {
        let words = [day.clone(), user::name(*uid), printable(program)];
        let words = words
            .into_iter()
            .zip(&shown)
            .filter(|(_, (is, _))| *is)
            .map(|(word, _)| word);
        table.row(words.chain(cells(usage)));
    }
    let total = std::iter::once("all".to_owned()).chain(std::iter::repeat_n(String::new(), words.len() - 1));
    table.row(total.chain(cells(&all)));
    let counted = plural(
        days.iter()
            .map(|day| &day.day)
            .collect::<std::collections::BTreeSet<_>>()
            .len(),
        "day",
    );
    format!("{first} to {last}: {counted} with work\n\n{table}")
}

/// A name as a terminal may have it.
fn printable(name: &str) -> String {
    name.chars()
        .map(|one| if one.is_control() { '?' } else { one })
        .collect()
}

fn cells(usage: &Usage) -> [String; 6] {
    [
        usage.processes.to_string(),
        time(usage.held_ns),
        time(usage.gpu_ns),
        format!("{} h", Bytes(usage.byte_seconds / 3600)),
        Bytes(usage.evicted_bytes).to_string(),
        time(usage.shared_ns),
    ]
}

/// `12.3 s`, `4:05 min`, `31:20 h`.
fn time(ns: u64) -> String {
    let seconds = ns as f64 / 1e9;
    let whole = seconds.round() as u64;
    match whole {
        0..60 => format!("{seconds:.1} s"),
        60..3600 => format!("{}:{:02} min", whole / 60, whole % 60),
        _ => format!("{}:{:02} h", whole / 3600, whole % 3600 / 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn day(day: &str, uid: u32, programs: &[(&str, u64)]) -> UsageDay {
        let mut found = UsageDay::new(day, uid);
        for &(program, seconds) in programs {
            *found.of(program) = Usage {
                processes: 2,
                held_ns: seconds * 1_500_000_000,
                gpu_ns: seconds * 1_000_000_000,
                shared_ns: seconds * 500_000_000,
                byte_seconds: seconds << 32,
                evicted_bytes: 3 << 30,
            };
        }
        found
    }

    fn shown(days: &[UsageDay], by_day: bool, by_user: bool) -> String {
        let args = Args {
            days: 2,
            by_day,
            by_user,
            folder: None,
            csv: false,
            json: false,
        };
        text(days, &args, "2024-02-28", "2024-02-29")
    }

    const NOBODY: u32 = 4_000_000_001;

    #[test]
    fn programs_are_summed_over_days_and_who_has_most_is_first() {
        let days = [
            day("2024-02-28", NOBODY, &[("serve", 30), ("train", 40)]),
            day("2024-02-29", NOBODY, &[("train\u{1b}", 4000)]),
        ];
        insta::assert_snapshot!(shown(&days, false, false), @r"
        2024-02-28 to 2024-02-29: 2 days with work

        program  processes      held     gpu      memory  evicted      saved
        train?           2    1:40 h  1:06 h   4.4 GiB h  3.0 GiB  33:20 min
        train            2  1:00 min  40.0 s  45.5 MiB h  3.0 GiB     20.0 s
        serve            2    45.0 s  30.0 s  34.1 MiB h  3.0 GiB     15.0 s
        all              6    1:41 h  1:07 h   4.5 GiB h  9.0 GiB  33:55 min
        ");
    }

    #[test]
    fn each_day_and_each_user_by_itself() {
        let days = [
            day("2024-02-28", NOBODY, &[("serve", 30)]),
            day("2024-02-28", NOBODY + 1, &[("serve", 40), ("train", 50)]),
            day("2024-02-29", NOBODY, &[("serve", 10)]),
        ];
        let lines = |text: String| {
            let words = |line: &str| line.split_whitespace().take(3).collect::<Vec<_>>().join(" ");
            text.lines().skip(3).map(words).collect::<Vec<_>>()
        };
        assert_eq!(
            lines(shown(&days, true, false)),
            [
                "2024-02-28 4000000002 train",
                "2024-02-28 4000000002 serve",
                "2024-02-28 4000000001 serve",
                "2024-02-29 4000000001 serve",
                "all 8 3:15",
            ]
        );
        assert_eq!(
            lines(shown(&days, false, true)),
            ["4000000002 4 2:15", "4000000001 4 1:00", "all 8 3:15"]
        );
    }

    #[test]
    fn no_label_is_a_formula() {
        assert_eq!(quoted("=1+1"), "'=1+1");
        assert_eq!(quoted("@sum(1,2)"), "\"'@sum(1,2)\"");
        assert_eq!(quoted("train-1"), "train-1");
    }

    #[test]
    fn fields_with_commas_and_quotes_are_quoted() {
        let days = [day("2024-02-28", NOBODY, &[("a,\"b\"", 30)])];
        assert_eq!(
            csv(&rows(&days)).lines().nth(1),
            Some(
                "2024-02-28,4000000001,4000000001,\"a,\"\"b\"\"\",2,45.000,30.000,15.000,128849018880,3221225472"
            )
        );
    }
}
