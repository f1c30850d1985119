//! `mgb quota`: what users and groups may have at once, and have.

use std::fmt::Write;

use mgb_probe::size::Bytes;
use mgb_probe::view::{OwnerView, QuotasView};
use mgb_probe::{Client, socket_path};

use crate::exit::{self, Outcome, WithCode};
use crate::table::Table;
use crate::{daemon, out, user};

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
pub fn run(args: &Args) -> Outcome {
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
        owners => write!(text, "\n{}", table(owners)),
    };
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
        let (who, weight) = if owner.is_group {
            (format!("group {}", user::group_name(owner.id)), "-".to_owned())
        } else {
            (user::name(owner.id), owner.weight.to_string())
        };
        let most = |most: Option<u64>| most.map(|most| most.to_string());
        table.row([
            who,
            weight,
            of(
                Bytes(owner.bytes).to_string(),
                owner.most_bytes.map(|most| Bytes(most).to_string()),
            ),
            of(owner.tasks.to_string(), most(owner.most_tasks)),
            of(owner.gpus.len().to_string(), most(owner.most_gpus)),
            owner.waiting.to_string(),
            owner.held_back.to_string(),
        ]);
    }
    table
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
            held_back: 1,
            ..OwnerView::default()
        };
        let mut quotas = QuotasView {
            file: Some("/etc/mgb/quotas.toml".to_owned()),
            mistake: None,
            owners: vec![user],
        };
        assert_eq!(
            text(&quotas),
            "quotas of /etc/mgb/quotas.toml\n\n\
             who   weight              memory  tasks    gpus  waiting  over quota\n\
             root       2  3.0 GiB of 4.0 GiB      2  2 of 2        3           1\n"
        );
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
