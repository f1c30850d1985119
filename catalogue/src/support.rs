//! The support table of the docs (`docs/SUPPORT.md`), written from the catalogue.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::kinds::Treatment;
use crate::table::{RuntimeFunction, all, cuda_version};

/// The meaning of each treatment for a user.
fn meaning(treatment: Treatment) -> &'static str {
    match treatment {
        Treatment::Address => "hands out or takes back addresses of the arena; needs no GPU",
        Treatment::Bound => "binds the task of the objects it names, then runs on that task's GPU",
        Treatment::Recorded => {
            "kept while no GPU is bound, if small, and replayed at binding; else as `Bound`"
        }
        Treatment::Answered => "answered by MGB; passed on only where a bound GPU has to say it",
        Treatment::Native => "needs no GPU: passed on as it is",
        Treatment::Anchors => "binds everything the process holds, and ties it to that GPU",
        Treatment::Refused => "refused, with the reason",
        Treatment::BindThenPass => {
            "binds what the call may need (everything the process holds, unless the note says less), then passes it through"
        }
    }
}

/// The whole page, as Markdown.
pub fn markdown() -> String {
    let mut page = format!(
        "# What MGB does with each function of the CUDA runtime\n\n\
         Generated from the catalogue by `make support`; do not edit. CUDA {}: {} functions, {} declared by \
         the headers, {} exported by the library. A `_ptsz` or `_ptds` form (per-thread default stream) is \
         treated as its plain function and stands with it.\n\n\
         | treatment | what it means | functions |\n|---|---|---:|\n",
        cuda_version(),
        all().len(),
        all().iter().filter(|entry| entry.declared).count(),
        all().iter().filter(|entry| entry.exported).count(),
    );
    for &treatment in Treatment::ALL {
        let count = all().iter().filter(|entry| entry.treatment == treatment).count();
        row(
            &mut page,
            format_args!("`{}` | {} | {count}", treatment.word(), meaning(treatment)),
        );
    }
    let mut families: BTreeMap<&str, Vec<&RuntimeFunction>> = BTreeMap::new();
    for entry in all().iter().filter(|entry| entry.base.is_none()) {
        families.entry(entry.family).or_default().push(entry);
    }
    for (family, entries) in families {
        write!(
            page,
            "\n## {family}\n\n| function | treatment | note |\n|---|---|---|\n"
        )
        .expect(WRITES);
        for entry in entries {
            let forms: String = all()
                .iter()
                .filter(|form| form.base == Some(entry.name))
                .map(|form| format!(", `{}`", &form.name[entry.name.len()..]))
                .collect();
            let treatment = entry.treatment.word();
            row(
                &mut page,
                format_args!("`{}`{forms} | {treatment} | {}", entry.name, entry.note),
            );
        }
    }
    refusals(&mut page);
    page
}

/// What the software GPU does not have, by reason.
fn refusals(page: &mut String) {
    let mut reasons: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for entry in all()
        .iter()
        .filter(|entry| entry.exported && entry.base.is_none())
    {
        if let Some(reason) = crate::softgpu::refusal(entry.name) {
            reasons.entry(reason).or_default().push(entry.name);
        }
    }
    let count: usize = reasons.values().map(Vec::len).sum();
    write!(
        page,
        "\n## What the software GPU refuses\n\n\
         On software GPUs these {count} functions return `cudaErrorNotSupported`, and name themselves on stderr with the \
         reason. All others are there; softgpu's build holds this list against its sources.\n\n\
         | reason | functions |\n|---|---|\n"
    )
    .expect(WRITES);
    for (reason, names) in reasons {
        let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
        row(page, format_args!("{reason} | {}", names.join(", ")));
    }
}

const WRITES: &str = "a String takes any text";

fn row(page: &mut String, cells: std::fmt::Arguments) {
    writeln!(page, "| {cells} |").expect(WRITES);
}
