//! Writes generated sources: `generate FIRST LAST FOLDER`.

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [first, last, folder] = arguments.as_slice() else {
        eprintln!("usage: generate FIRST LAST FOLDER");
        std::process::exit(2);
    };
    let number = |text: &str| text.parse::<u64>().expect("FIRST and LAST are numbers");
    for seed in number(first)..=number(last) {
        let path = std::path::Path::new(folder).join(format!("g{seed}.cu"));
        std::fs::write(&path, mgb_tests::generate::source(seed))
            .unwrap_or_else(|e| panic!("failed to write {}: {e}", path.display()));
    }
}
