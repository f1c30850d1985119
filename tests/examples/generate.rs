//! Writes generated sources: `generate FIRST LAST FOLDER` those without attacks, `generate --attack FEATURES FIRST
//! LAST FOLDER` those that attack the pass (`mgb_tests::generate::attack`).

use std::fs;
use std::path::Path;

use mgb_tests::generate;

fn write(path: &Path, text: &str) {
    fs::write(path, text).unwrap_or_else(|e| panic!("failed to write {}: {e}", path.display()));
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (features, rest) = match arguments.as_slice() {
        [flag, features, rest @ ..] if flag == "--attack" => {
            let features: Result<generate::attack::Features, String> = features.parse();
            (Some(features.unwrap_or_else(|e| panic!("{e}"))), rest)
        }
        rest => (None, rest),
    };
    let [first, last, folder] = rest else {
        eprintln!("usage: generate [--attack FEATURES] FIRST LAST FOLDER");
        std::process::exit(2);
    };
    let number = |text: &str| text.parse::<u64>().expect("FIRST and LAST are numbers");
    for seed in number(first)..=number(last) {
        let path = |name: String| Path::new(folder).join(name);
        match &features {
            None => write(&path(format!("g{seed}.cu")), &generate::source(seed)),
            Some(features) => {
                let source = generate::attack::source(seed, features);
                write(&path(format!("a{seed}.cu")), &source.main);
                if let Some(other) = source.other {
                    write(&path(format!("a{seed}_other.cu")), &other);
                }
            }
        }
    }
}
