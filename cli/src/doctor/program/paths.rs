//! Ways past the driver front: what leads the dynamic linker to the driver before it comes to the front.

use mgb_command::check_result::Finding;
use mgb_core::libraries::DRIVER;

use super::facts::Executable;

const NAME: &str = "past the front";
/// The name for linking, which the front does not have.
const UNVERSIONED: &str = "libcuda.so";
const WAY_OUT: &str = "link it with -Wl,--enable-new-dtags, or change it: patchelf --remove-rpath FILE; or run it with \
                       `mgb run --need SIZE`";

/// Checks where the program finds its libraries.
pub fn check(program: &Executable) -> Vec<Finding> {
    // The front is not loaded into a static program at all, which is said elsewhere.
    if program.is_static() {
        return Vec::new();
    }
    let mut findings = Vec::new();
    for object in &program.objects {
        let who = object.file_name();
        if let Some(driver) = &object.rpath_driver {
            let text = format!(
                "the DT_RPATH of {who} leads to {} before LD_LIBRARY_PATH: it uses the GPU past mgbd",
                driver.display()
            );
            findings.push(Finding::problem(NAME, text).way_out(WAY_OUT));
            continue;
        }
        let by_path = object
            .needed
            .iter()
            .find(|needed| needed.name.contains('/') && needed.file_name().starts_with("libcuda.so"));
        if let Some(needed) = by_path.filter(|needed| !needed.is_front) {
            let text = format!("{who} was linked with the driver by its path, {}", needed.name);
            findings.push(Finding::problem(NAME, text).way_out(format!(
                "link it with -lcuda; or: patchelf --replace-needed {} {DRIVER} {}",
                needed.name,
                object.path.display()
            )));
        }
        let unversioned = program.unversioned.is_some();
        let other = object
            .names_driver
            .iter()
            .find(|name| is_path(name) || unversioned && *name == UNVERSIONED);
        if let Some(name) = other {
            let text =
                format!("{who} names {name}: if it loads the driver by that, it uses the GPU past mgbd");
            findings.push(Finding::note(NAME, text).way_out(format!(
                "have it load {DRIVER}; or run it with `mgb run --need SIZE`"
            )));
        }
    }
    findings
}

/// Whether a string is the path of a driver's library.
fn is_path(name: &str) -> bool {
    let file = name.rsplit('/').next().unwrap_or(name);
    name.starts_with('/') && (file == DRIVER || file == UNVERSIONED)
}

#[cfg(test)]
mod tests {
    use mgb_command::check_result::Severity::{Note, Problem};
    use mgb_command::check_result::expect;

    use super::super::facts::samples::{executable, object};
    use super::super::facts::{Needed, ObjectFacts};
    use super::*;

    fn found(object: ObjectFacts) -> Vec<Finding> {
        check(&executable(vec![object]))
    }

    #[test]
    fn an_rpath_with_a_driver_of_its_own_is_named() {
        let with = ObjectFacts {
            rpath_driver: Some("/opt/old/libcuda.so.1".into()),
            ..object("app", &["libcuda.so.1"])
        };
        expect(
            &found(with.clone()),
            "past the front",
            Problem,
            &["app", "/opt/old/libcuda.so.1", "patchelf"],
        );
        let mut alone = executable(vec![with]);
        alone.linker = None;
        alone.objects[0].needed.clear();
        assert_eq!(check(&alone), Vec::new());
    }

    #[test]
    fn a_driver_by_its_path_is_named() {
        let path = "/usr/lib64/libcuda.so.1";
        let mut linked = object("app", &[]);
        linked.needed.push(Needed {
            name: path.to_owned(),
            path: Some(path.into()),
            is_front: false,
        });
        expect(
            &found(linked.clone()),
            "past the front",
            Problem,
            &[path, "--replace-needed"],
        );
        linked.needed[0].is_front = true;
        assert_eq!(found(linked), Vec::new());
        let named = |name: &str| ObjectFacts {
            names_driver: vec![name.to_owned()],
            ..object("libx.so", &[])
        };
        expect(
            &found(named(path)),
            "past the front",
            Note,
            &["libx.so names", path],
        );
        for name in [
            "libcuda.so.1",
            "failed to load libcuda.so.1",
            "/x: no libcuda.so.1 here",
        ] {
            assert_eq!(found(named(name)), Vec::new(), "{name}");
        }
    }

    #[test]
    fn the_name_for_linking_is_a_trap_where_it_leads_somewhere() {
        let named = ObjectFacts {
            names_driver: vec!["libcuda.so".to_owned()],
            ..object("libx.so", &[])
        };
        let mut program = executable(vec![named]);
        assert_eq!(check(&program), Vec::new());
        program.unversioned = Some("/usr/lib64/libcuda.so".into());
        expect(
            &check(&program),
            "past the front",
            Note,
            &["libx.so names libcuda.so", "load libcuda.so.1"],
        );
    }

    #[test]
    fn the_fronts_own_name_is_fine() {
        assert_eq!(
            found(object("app", &["libcuda.so.1", "libcudart.so.13"])),
            Vec::new()
        );
    }
}
