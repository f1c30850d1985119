//! `mgb quota`: what users and groups may have at once, and have.

use std::fmt::Write;

use mgb_command::exit::{self, CommandResult, WithCode};
use mgb_command::table::{Table, span};
use mgb_command::{daemon, out};
use mgb_probe::byte_size::Bytes;
use mgb_probe::view::{OwnerView, QuotasView};
use mgb_probe::{Client, socket_path};

use crate::{kept, user};

/// Show what you and your groups may have of the node's GPUs at once, and have; as root, what everybody has.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "An administrator sets quotas with mgbd --quotas FILE: docs/SERVICE.md. A program whose user has as \
    much as it may have waits until other programs of that user end, and is shown by mgb status as waiting.\n\nExit \
    code: 0, or 3 if no mgbd answers."
)]
pub struct Args {
    /// Print what mgbd's view of the node says of quotas as JSON.
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: &Args) -> CommandResult {
    let client = Client::observe(&socket_path())
        .map_err(daemon::way_out)
        .code(exit::NODE)?;
    let quotas = client.status().code(exit::NODE)?.quotas;
    if args.json {
        out::print(&out::json(&quotas).code(exit::NODE)?);
    } else {
        out::print(&text(&quotas));
    }
    Ok(exit::OK)
}

fn text(quotas: &QuotasView) -> String {
    let mut text = match &quotas.file {
        Some(file) => format!("quotas of {file}\n"),
        None => "no quotas: users share what there is\n".to_owned(),
    };
    // Writing to a String cannot fail.
    if let Some(mistake) = &quotas.mistake {
        let _ = writeln!(
            text,
            "the file was changed and is wrong; what it said before holds: {mistake}"
        );
    }
    let _ = match quotas.owners.as_slice() {
        [] => writeln!(text, "\nnobody has a program here"),
        owners => write!(text, "\n{}{}", table(owners), more(owners)),
    };
    for kept in &quotas.kept {
        let _ = writeln!(text, "{}", kept::text(kept));
    }
    text
}

fn table(owners: &[OwnerView]) -> Table {
    let numbers = ["weight", "memory", "tasks", "gpus", "waiting", "over quota"];
    let head = [&["who"][..], &numbers].concat();
    let mut table = Table::new(&head, &numbers);
    for owner in owners {
        let of = |has: String, most: Option<String>| match most {
            Some(most) => format!("{has} of {most}"),
            None => has,
        };
        let weight = if owner.is_group {
            "-".to_owned()
        } else {
            owner.weight.to_string()
        };
        let most = |most: Option<u64>| most.map(|most| most.to_string());
        table.row([
            who(owner),
            weight,
            of(
                Bytes(owner.bytes).to_string(),
                owner.most_bytes.map(|most| Bytes(most).to_string()),
            ),
            of(owner.tasks.to_string(), most(owner.most_tasks)),
            of(owner.gpus.len().to_string(), most(owner.most_gpus)),
            of(owner.waiting.to_string(), most(owner.most_waiting)),
            owner.held_back.to_string(),
        ]);
    }
    table
}

/// What else is limited, for those for whom it is: a line each.
fn more(owners: &[OwnerView]) -> String {
    let mut text = String::new();
    for owner in owners {
        let size = |bytes: u64| Bytes(bytes).to_string();
        let each = [
            owner
                .most_processes
                .map(|most| format!("{} of {most} processes on GPUs", owner.processes)),
            owner
                .most_alone
                .map(|most| format!("{} of {most} GPUs for itself", owner.alone)),
            owner
                .most_swap_bytes
                .map(|most| format!("{} of {} in host memory", size(owner.swap_bytes), size(most))),
            owner.most_time_ms.map(|most| time(most, owner.ends_late)),
        ];
        let each: Vec<String> = each.into_iter().flatten().collect();
        if !each.is_empty() {
            let _ = writeln!(text, "{}: {}", who(owner), each.join(", "));
        }
    }
    text
}

/// How long a task may have its memory, and what comes of more.
fn time(most_ms: u64, ends_late: bool) -> String {
    let ends = if ends_late {
        ", then its program is ended"
    } else {
        ""
    };
    format!("a task has its memory for {}{ends}", span(most_ms))
}

fn who(owner: &OwnerView) -> String {
    if owner.is_group {
        format!("group {}", user::group_name(owner.id))
    } else {
        user::name(owner.id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_each_has_and_may_have_is_shown() {
        let user = OwnerView {
            id: 0,
            weight: 2,
            bytes: 3 << 30,
            most_bytes: Some(4 << 30),
            tasks: 2,
            gpus: vec![0, 1],
            most_gpus: Some(2),
            waiting: 3,
            most_waiting: Some(9),
            held_back: 1,
            processes: 2,
            most_processes: Some(4),
            alone: 1,
            most_alone: Some(1),
            swap_bytes: 1 << 30,
            most_swap_bytes: Some(2 << 30),
            most_time_ms: Some(12 * 3_600_000),
            ends_late: true,
            ..OwnerView::default()
        };
        let mut quotas = QuotasView {
            file: Some("/etc/mgb/quotas.toml".to_owned()),
            mistake: None,
            owners: vec![user],
            kept: vec![mgb_probe::view::KeptView {
                gpus: vec![0, 1],
                users: vec![],
                groups: vec![0],
            }],
        };
        assert_eq!(
            text(&quotas),
            "quotas of /etc/mgb/quotas.toml\n\n\
             who   weight              memory  tasks    gpus  waiting  over quota\n\
             root       2  3.0 GiB of 4.0 GiB      2  2 of 2   3 of 9           1\n\
             root: 2 of 4 processes on GPUs, 1 of 1 GPUs for itself, 1.0 GiB of 2.0 GiB in host memory, \
             a task has its memory for 12.0 h, then its program is ended\n\
             GPU 0, 1: kept for group root\n"
        );
        quotas.kept.clear();
        quotas.mistake = Some("line 3: what is that?".to_owned());
        quotas.owners = vec![OwnerView {
            is_group: true,
            most_tasks: Some(8),
            ..OwnerView::default()
        }];
        assert_eq!(
            text(&quotas),
            "quotas of /etc/mgb/quotas.toml\n\
             the file was changed and is wrong; what it said before holds: line 3: what is that?\n\n\
             who         weight  memory   tasks  gpus  waiting  over quota\n\
             group root       -     0 B  0 of 8     0        0           0\n"
        );
        let none = text(&QuotasView::default());
        assert_eq!(
            none,
            "no quotas: users share what there is\n\nnobody has a program here\n"
        );
    }
}
