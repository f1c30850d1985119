//! Any bytes are a client's first message or none, and any bytes are `mgbd`'s answer to it or none.
#![no_main]

use libfuzzer_sys::fuzz_target;
use mgb_probe::hello::HelloAnswer;
use mgb_probe::wire::{OLDEST, Opening, VERSION};

fuzz_target!(|bytes: &[u8]| {
    if let Some(opening) = Opening::decode(bytes) {
        assert_eq!(Opening::decode(&opening.encode()), Some(opening));
        if let Some(version) = opening.common() {
            assert!((OLDEST..=VERSION).contains(&version));
        }
    }
    if let Ok(answer) = serde_json::from_slice::<HelloAnswer>(bytes) {
        let text = serde_json::to_vec(&answer).expect("an answer is JSON");
        assert_eq!(
            serde_json::from_slice::<HelloAnswer>(&text).expect("what was written"),
            answer
        );
    }
});
