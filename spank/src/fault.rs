//! Faults on purpose, in the places that matter, for the tests of what follows from them: `fault=` in
//! plugstack.conf.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Does what the test wants to see.
pub fn make(which: Option<&str>) {
    match which {
        Some("panic") => panic!("a fault on purpose"),
        // SAFETY: none; that is the point.
        Some("crash") => unsafe { libc::raise(libc::SIGSEGV) },
        _ => 0,
    };
}

/// Runs what an entry does. A panic must not cross into C; it is said, and the job goes on without MGB.
pub fn contain(entry: impl FnOnce(), say: impl FnOnce(&str)) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(entry)) {
        let said = payload
            .downcast_ref::<&str>()
            .map(|text| (*text).to_owned())
            .or_else(|| payload.downcast_ref::<String>().cloned());
        let text = format!(
            "a fault in the plugin: {}; the job goes on without MGB",
            said.as_deref().unwrap_or("no word")
        );
        // Not once more.
        let _ = catch_unwind(AssertUnwindSafe(|| say(&text)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_said_and_goes_no_further() {
        let mut said = String::new();
        contain(|| make(Some("panic")), |text| said.push_str(text));
        assert!(
            said.contains("a fault on purpose") && said.contains("without MGB"),
            "{said}"
        );
        contain(|| make(None), |_| unreachable!());
        contain(|| panic!("a"), |_| panic!("b"));
    }
}
