//! Any bytes are a journal, and what is read of them says the same when it is written anew.
#![no_main]

use libfuzzer_sys::fuzz_target;
use mgb_scheduler::journal::Image;

fuzz_target!(|bytes: &[u8]| {
    let image = Image::read(bytes);
    let mut line = serde_json::to_vec(&image.record()).expect("a record is JSON");
    line.push(b'\n');
    assert_eq!(Image::read(&line), image);
    for client in image.clients.keys() {
        let mut without = image.clone();
        without.forget(*client);
        assert!(without.ledger().contexts.iter().all(|(of, ..)| of != client));
    }
});
