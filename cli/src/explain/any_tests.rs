//! Reports of any content, and files of any bytes: what is read is shown, what cannot be read is an error.

use mgb_catalogue::report::{Report, parse_all};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;
use roxmltree::Document;
use serde_json::{Number, Value};

use super::{dot, read, render, samples, svg};

fn any_value() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(|number| Number::from_f64(number).map_or(Value::Null, Value::from)),
        vec(any::<char>(), 0..200).prop_map(|text| Value::from(String::from_iter(text))),
        Just(Value::from(Vec::<Value>::new())),
        vec(any::<u32>(), 1..40).prop_map(Value::from),
        Just(Value::Object(serde_json::Map::new())),
    ]
}

/// The paths of all values in a document.
fn paths(value: &Value, path: String, all: &mut Vec<String>) {
    match value {
        Value::Array(values) => {
            for (at, value) in values.iter().enumerate() {
                paths(value, format!("{path}/{at}"), all);
            }
        }
        Value::Object(fields) => {
            for (name, value) in fields {
                paths(value, format!("{path}/{name}"), all);
            }
        }
        _ => {}
    }
    all.push(path);
}

fn show(reports: &[Report]) -> String {
    render::text(reports);
    dot::document(reports);
    svg::document(reports)
}

proptest! {
    #[test]
    fn what_can_be_read_is_shown(changes in vec((any::<Index>(), any_value()), 1..6)) {
        let reports = [samples::reports(), samples::awkward()].concat();
        let mut value = serde_json::to_value(reports).unwrap();
        for (at, new) in changes {
            let mut all = Vec::new();
            paths(&value, String::new(), &mut all);
            *value.pointer_mut(&all[at.index(all.len())]).unwrap() = new;
        }
        let documents: Vec<String> = value.as_array().into_iter().flatten().map(Value::to_string).collect();
        if let Ok(reports) = parse_all(documents.join("\n").as_bytes()) {
            let drawing = show(&reports);
            prop_assert!(Document::parse(&drawing).is_ok(), "{:?}", Document::parse(&drawing));
        }
    }

    #[test]
    fn any_section_is_read_or_refused(section in vec(any::<u8>(), 0..200), at in any::<Index>()) {
        let _ = parse_all(&section);
        let mut text = samples::reports()[0].to_line().into_bytes();
        let at = at.index(text.len());
        text.splice(at..(at + section.len()).min(text.len()), section);
        let _ = parse_all(&text).map(|reports| show(&reports));
    }

    #[test]
    fn any_file_is_read_or_refused(
        start in proptest::sample::select(vec![
            &b"!<arch>\n"[..],
            b"!<thin>\n",
            b"\x7fELF\x02\x01\x01",
            b"BC\xc0\xde",
        ]),
        rest in vec(any::<u8>(), 0..300),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        std::fs::write(&file, [start, &rest].concat()).unwrap();
        if let Err(error) = read::reports(&file) {
            prop_assert!(error.to_string().contains("file"), "{error}");
        }
    }
}

/// A program of its own, with wrong bytes where it says what it holds.
#[test]
fn a_damaged_program_is_read_or_refused() {
    let whole = std::fs::read(std::env::current_exe().unwrap()).unwrap();
    let word = |at: usize| u64::from_le_bytes(whole[at..at + 8].try_into().unwrap()) as usize;
    // Where an ELF file of 64 bits has its sections' headers: the last thing in it.
    let headers = word(0x28);
    let length = whole.len();
    let mut runner = proptest::test_runner::TestRunner::default();
    let places = prop_oneof![4usize..64, headers..length];
    runner
        .run(&vec((places, any::<u8>()), 1..8), |changes| {
            let mut damaged = whole.clone();
            for (at, byte) in changes {
                damaged[at] = byte;
            }
            let _ = read::of_object(&damaged);
            Ok(())
        })
        .unwrap();
}
