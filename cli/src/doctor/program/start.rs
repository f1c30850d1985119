//! Whether a program starts, what the kernel starts for it, and whether the dynamic linker is free to load
//! the driver front into that.

use mgb_command::check_result::Finding;

use super::facts::{Executable, ProgramFacts, Secure, Start};

const FILE: &str = "executable";
const SCRIPT: &str = "script";
const LINKING: &str = "linking";
const RIGHTS: &str = "rights of the file";

/// Checks how the program starts.
pub fn check(facts: &ProgramFacts) -> Vec<Finding> {
    let mut findings =
        match &facts.file {
            Ok(_) if !facts.scripts.is_empty() => Vec::new(),
            Ok(file) => vec![Finding::ok(FILE, file.display().to_string())],
            Err(why) => {
                return vec![Finding::problem(FILE, why.clone()).way_out(
                    "write ./NAME for a program in this folder, and check its permissions (chmod +x)",
                )];
            }
        };
    for (script, interpreter) in &facts.scripts {
        findings.push(Finding::ok(
            SCRIPT,
            format!(
                "{} is a script of {interpreter}, which is what loads libraries; programs that it starts come under \
                 mgbd as well, and can be checked by their names",
                script.display()
            ),
        ));
    }
    let wrong = |name, text: String, way_out: &str| Finding::problem(name, text).way_out(way_out);
    match &facts.start {
        // The scripts lead to no program.
        Start::Nothing => {
            let last = facts.scripts.last().map_or("", |(_, interpreter)| interpreter);
            findings.push(wrong(
                SCRIPT,
                format!("its interpreter `{last}` is not found"),
                "install it, or correct the script's first line",
            ));
        }
        Start::NoFormat(file) => findings.push(wrong(
            FILE,
            format!("{} is neither a program nor a script", file.display()),
            "begin a script with the line #!/bin/sh, or the interpreter that it is for",
        )),
        Start::Foreign(file, kind) => findings.push(wrong(
            FILE,
            format!(
                "{} is {kind}; CUDA and MGB have 64-bit x86 programs only",
                file.display()
            ),
            "build it for x86-64",
        )),
        Start::Unreadable(file, why) => findings.push(wrong(
            FILE,
            format!(
                "{} cannot be read, so nothing more is known of it: {why}",
                file.display()
            ),
            "have its owner permit reading, or check it as its owner",
        )),
        Start::Program(program) => {
            findings.extend(linking(program));
            findings.extend(rights(program));
        }
    }
    findings
}

fn linking(program: &Executable) -> Option<Finding> {
    match &program.linker {
        Some((_, true)) => None,
        Some((linker, false)) => Some(
            Finding::problem(
                LINKING,
                format!("its dynamic linker {} does not exist", linker.display()),
            )
            .way_out("build it for this system, or run it in the container that it was built for"),
        ),
        None if !program.is_static() => Some(Finding::note(
            LINKING,
            "a library, not a program: what is said of it holds in the programs that load it",
        )),
        None if program.objects.iter().any(|object| !object.names_driver.is_empty()) => Some(
            Finding::problem(
                LINKING,
                "linked statically: it has no dynamic linker that would load the driver front, and uses the GPU past \
                 mgbd",
            )
            .way_out("link it dynamically (without -static), or run it with `mgb run --need SIZE`"),
        ),
        None => Some(Finding::note(
            LINKING,
            "linked statically: the driver front is not loaded into it; programs that it starts come under mgbd",
        )),
    }
}

fn rights(program: &Executable) -> Option<Finding> {
    let has = match &program.secure {
        Some(Secure::User(uid)) => format!("the set-user-ID bit (uid {uid})"),
        Some(Secure::Group(gid)) => format!("the set-group-ID bit (gid {gid})"),
        Some(Secure::Capabilities) => "file capabilities".to_owned(),
        None if program.may_be_secure => {
            return Some(Finding::note(
                RIGHTS,
                "its file grants rights by set-ID bits or capabilities: no difference for this user, but for others \
                 it runs past mgbd",
            ));
        }
        None => return None,
    };
    let text = format!(
        "it has {has}: the dynamic linker ignores LD_LIBRARY_PATH, so that it runs natively, past mgbd"
    );
    Some(
        Finding::problem(RIGHTS, text)
            .way_out("run a copy of it without these rights (cp), or run it with `mgb run --need SIZE`"),
    )
}

#[cfg(test)]
mod tests {
    use mgb_command::check_result::Severity::{Note, Ok as Fine, Problem};
    use mgb_command::check_result::expect;

    use super::super::facts::samples::{executable, object, program};
    use super::*;

    fn starts(start: Start) -> ProgramFacts {
        ProgramFacts {
            start,
            ..program(Executable::default())
        }
    }

    fn of(executable: Executable) -> Vec<Finding> {
        check(&program(executable))
    }

    #[test]
    fn a_program_that_starts_is_named() {
        let found = of(executable(vec![object("app", &[])]));
        expect(&found, "executable", Fine, &["/home/me/app"]);
        assert_eq!(found.len(), 1);
    }

    #[test]
    fn what_does_not_start_is_a_problem() {
        let missing = ProgramFacts {
            file: Err("failed to find the program app".to_owned()),
            ..starts(Start::Nothing)
        };
        let found = check(&missing);
        expect(&found, "executable", Problem, &["failed to find", "chmod +x"]);
        assert_eq!(found.len(), 1);
        for (start, words) in [
            (Start::NoFormat("/a".into()), ["/a is neither", "#!/bin/sh"]),
            (
                Start::Foreign("/a".into(), "a 32-bit program".to_owned()),
                ["/a is a 32-bit program", "x86-64"],
            ),
            (
                Start::Unreadable("/a".into(), "Permission denied".to_owned()),
                ["Permission denied", "owner"],
            ),
        ] {
            expect(&check(&starts(start)), "executable", Problem, &words);
        }
        let mut other = executable(Vec::new());
        other.linker = Some(("/lib/ld-musl-x86_64.so.1".into(), false));
        expect(&of(other), "linking", Problem, &["ld-musl", "does not exist"]);
    }

    #[test]
    fn scripts_lead_to_their_interpreter() {
        let script = |start| ProgramFacts {
            scripts: vec![("/s/train".into(), "/usr/bin/env python3".to_owned())],
            ..starts(start)
        };
        let found = check(&script(Start::Program(Box::new(executable(vec![object(
            "python3",
            &[],
        )])))));
        expect(
            &found,
            "script",
            Fine,
            &["/s/train is a script of /usr/bin/env python3"],
        );
        assert_eq!(found.len(), 1);
        let gone = check(&script(Start::Nothing));
        expect(&gone, "script", Problem, &["`/usr/bin/env python3` is not found"]);
    }

    #[test]
    fn a_static_program_that_uses_the_driver_goes_past_the_front() {
        let mut alone = executable(vec![object("app", &[])]);
        alone.linker = None;
        expect(&of(alone.clone()), "linking", Note, &["programs that it starts"]);
        alone.objects[0].names_driver = vec!["libcuda.so.1".to_owned()];
        expect(&of(alone), "linking", Problem, &["past mgbd", "--need"]);
    }

    #[test]
    fn a_library_is_no_static_program() {
        let mut library = executable(vec![object("libx.so", &["libc.so.6"])]);
        library.linker = None;
        expect(&of(library), "linking", Note, &["a library"]);
    }

    #[test]
    fn rights_keep_the_front_out() {
        for (secure, words) in [
            (Secure::User(0), ["set-user-ID bit (uid 0)", "natively"]),
            (Secure::Group(7), ["set-group-ID bit (gid 7)", "--need"]),
            (Secure::Capabilities, ["file capabilities", "LD_LIBRARY_PATH"]),
        ] {
            let mut rich = executable(vec![object("app", &[])]);
            rich.secure = Some(secure);
            rich.may_be_secure = true;
            expect(&of(rich), "rights of the file", Problem, &words);
        }
        let mut own = executable(vec![object("app", &[])]);
        own.may_be_secure = true;
        expect(&of(own), "rights of the file", Note, &["no difference"]);
    }
}
