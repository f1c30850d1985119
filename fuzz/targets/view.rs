//! What `mgb status` and `mgb explain` read: any bytes are a node view or none, and a section of reports or
//! an error; what is one can be written anew and read again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use mgb_catalogue::report;
use mgb_probe::view::NodeView;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(view) = serde_json::from_slice::<NodeView>(bytes) {
        let text = serde_json::to_vec(&view).expect("a view is JSON");
        assert_eq!(
            serde_json::from_slice::<NodeView>(&text).expect("what was written"),
            view
        );
    }
    if let Ok(reports) = report::parse_all(bytes) {
        for report in reports {
            let line = report.to_line();
            assert_eq!(
                report::parse_all(line.as_bytes())
                    .expect("what was written")
                    .len(),
                1
            );
        }
    }
});
