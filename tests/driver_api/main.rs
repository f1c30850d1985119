//! Plays random calls of the driver's API: `driver-api play FIRST LAST [FILE [STEPS]]`, which writes what was called and
//! answered to a file. The same seed makes the same calls in every run, natively and under MGB, and answers may not
//! differ. `driver-api hold MIB MS` holds memory and lets it go, again and again; `driver-api peer` is for itself.

mod asks;
mod books;
mod driver;
mod forks;
mod graphs;
mod holder;
mod mapped;
mod memory;
mod peer;
mod plain;
mod play;
mod pools;
mod streams;
mod world;

use std::fs::File;
use std::io::{BufWriter, Write};
use std::process::ExitCode;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let number = |text: &str| text.parse().unwrap_or_else(|_| panic!("not a number: {text}"));
    match words[..] {
        ["peer"] => peer::serve(),
        ["hold", mib, milliseconds] => holder::hold(number(mib) << 20, number(milliseconds)),
        ["play", first, last, ref more @ ..] => {
            let steps = more.get(1).map(|text| number(text) as usize);
            return play(number(first), number(last), more.first().copied(), steps);
        }
        _ => {
            eprintln!("driver-api play FIRST LAST [FILE [STEPS]] | hold MIB MS | peer");
            return ExitCode::from(2);
        }
    }
    ExitCode::SUCCESS
}

fn play(first: u64, last: u64, file: Option<&str>, steps: Option<usize>) -> ExitCode {
    let mut player = play::Player::start();
    // It is there from when the process and its peer have begun.
    let mut file = file.map(|file| BufWriter::new(File::create(file).expect("the file can be written")));
    player.most = steps.unwrap_or(usize::MAX);
    let (mut calls, mut wrong) = (0, 0);
    for seed in first..=last {
        let (lines, faults) = player.play(seed);
        calls += lines.len();
        wrong += usize::from(faults > 0);
        if let Some(file) = &mut file {
            for line in lines {
                writeln!(file, "{line}").expect("the file can be written");
            }
            // What was called last is seen also where the process ends in the next seed.
            file.flush().expect("the file can be written");
        }
    }
    println!(
        "{} seeds, {calls} calls, {wrong} seeds with faults",
        last - first + 1
    );
    ExitCode::from(u8::from(wrong > 0))
}
