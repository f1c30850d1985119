//! What the driver honours of the classes of programs (docs/TIME.md): the priority of MPS clients and their
//! percentage of the multiprocessors, and what of the environment changes that.

use mgb_command::check_result::Finding;
use mgb_core::mps::{PERCENTAGE, PRIORITY, SETTING};
use mgb_probe::{CLASS, Class};

const NAME: &str = "classes";
/// The driver by which it was measured what clients of MPS are given (docs/design/hardware-behaviour.md).
const MEASURED_DRIVER: u32 = 580;
const HOLDS: &str =
    "latency programs go first by holds and by a bound on what is in flight, and not by priority";

/// What was seen of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClassFacts {
    /// Programs use software GPUs.
    pub software: bool,
    /// The driver's version, as NVML says.
    pub driver: Option<String>,
    /// Whether mgbd has an MPS, or is to start one.
    pub has_mps: bool,
    /// The process of the control daemon at the pipe folder of the mgbd that runs; none where none runs.
    pub control: Option<Option<u32>>,
    /// What the environment of this user's programs says of MPS's priority,
    pub priority: Option<String>,
    /// of the percentage of multiprocessors,
    pub percentage: Option<String>,
    /// of MGB's use of MPS,
    pub mps: Option<String>,
    /// and of their class.
    pub class: Option<String>,
}

/// Checks the facts about classes.
pub fn check(facts: &ClassFacts) -> Vec<Finding> {
    let mut findings = vec![honoured(facts)];
    findings.extend(class(facts));
    if facts.has_mps && !facts.software {
        findings.extend(variables(facts));
    }
    findings
}

fn honoured(facts: &ClassFacts) -> Finding {
    if facts.software {
        return Finding::ok(NAME, format!("software GPUs under mgbd have no MPS: {HOLDS}"));
    }
    if !facts.has_mps {
        return Finding::note(
            NAME,
            format!("without MPS {HOLDS}; no multiprocessors are left free for them"),
        )
        .way_out("see the check MPS");
    }
    if facts.control == Some(None) {
        let text = format!(
            "no control daemon of mgbd's MPS is seen from here, as from a container it may not be: if it has ended, \
             {HOLDS}"
        );
        return Finding::note(NAME, text).way_out("restart mgbd (`mgb stop`) if it has ended");
    }
    let Some(driver) = &facts.driver else {
        return Finding::note(
            NAME,
            "which driver there is cannot be seen, nor what it honours of classes",
        )
        .way_out("see the check driver");
    };
    let honours = "batch programs have a lower priority in MPS than latency programs, and those that start beside one \
                   leave it some multiprocessors";
    let major = driver
        .split('.')
        .next()
        .and_then(|major| major.parse::<u32>().ok());
    let control = match facts.control.flatten() {
        Some(pid) => format!(" (control daemon: process {pid})"),
        None => String::new(),
    };
    match major {
        Some(major) if major >= MEASURED_DRIVER => {
            Finding::ok(NAME, format!("driver {driver} honours both of MPS's settings: {honours}{control}"))
        }
        _ => Finding::note(
            NAME,
            format!(
                "whether driver {driver} honours MPS's settings was not measured, which was with {MEASURED_DRIVER}; \
                 where it does, {honours}{control}"
            ),
        )
        .way_out(format!("use driver {MEASURED_DRIVER} or newer")),
    }
}

/// What the environment says of the class.
fn class(facts: &ClassFacts) -> Option<Finding> {
    let said = facts.class.as_deref()?;
    Some(match Class::named(said) {
        Some(Class::Latency) => Finding::note(
            NAME,
            format!("{CLASS}=latency: all programs that are started here say that others wait for them"),
        )
        .way_out(format!(
            "unset {CLASS}, and use `mgb run --latency` for those that are meant"
        )),
        Some(Class::Batch) => Finding::ok(NAME, format!("{CLASS}=batch")),
        None => Finding::problem(
            NAME,
            format!("{CLASS}={said} is neither latency nor batch, and taken as batch"),
        )
        .way_out(format!("unset {CLASS}")),
    })
}

/// What the environment says to MPS, and what becomes of it.
fn variables(facts: &ClassFacts) -> Vec<Finding> {
    let mut findings = Vec::new();
    if facts.mps.as_deref() == Some("off") {
        let text = format!(
            "{SETTING}=off: programs started here use their GPUs outside MPS, without its priorities"
        );
        findings.push(Finding::note(NAME, text).way_out(format!("unset {SETTING}")));
        return findings;
    }
    if let Some(own) = &facts.priority {
        let text = format!("{PRIORITY}={own} counts for nothing: mgbd sets it by a program's class");
        findings.push(Finding::note(NAME, text).way_out(format!("unset {PRIORITY}")));
    }
    let own = facts.percentage.as_ref();
    if let Some((own, percent)) = own.and_then(|own| Some((own, own.trim().parse::<f64>().ok()?)))
        && percent > 0.0
        && percent < 100.0
    {
        let text = format!(
            "{PERCENTAGE}={own}: programs started here have no more of the multiprocessors, latency programs neither; \
             of batch programs the lower of this and mgbd's counts"
        );
        findings.push(Finding::note(NAME, text).way_out(format!("unset {PERCENTAGE}")));
    }
    findings
}

#[cfg(test)]
mod tests {
    use mgb_command::check_result::Severity::{Note, Ok as Fine, Problem};
    use mgb_command::check_result::expect;

    use super::*;

    fn facts() -> ClassFacts {
        ClassFacts {
            driver: Some("580.159.03".to_owned()),
            has_mps: true,
            control: Some(Some(77)),
            ..ClassFacts::default()
        }
    }

    #[test]
    fn what_the_driver_honours_is_said() {
        expect(
            &check(&facts()),
            NAME,
            Fine,
            &["driver 580.159.03 honours both", "process 77"],
        );
        let of = |driver: &str| ClassFacts {
            driver: Some(driver.to_owned()),
            ..facts()
        };
        expect(
            &check(&of("535.1")),
            NAME,
            Note,
            &["driver 535.1", "not measured", "580 or newer"],
        );
        expect(&check(&of("unknown")), NAME, Note, &["driver unknown"]);
        let unseen = ClassFacts {
            driver: None,
            ..facts()
        };
        expect(&check(&unseen), NAME, Note, &["cannot be seen"]);
    }

    #[test]
    fn without_mps_holds_are_all_there_is() {
        let without = ClassFacts {
            has_mps: false,
            priority: Some("0".to_owned()),
            ..facts()
        };
        expect(&check(&without), NAME, Note, &["without MPS", "by holds"]);
        assert_eq!(check(&without).len(), 1, "its variables say nothing then");
        let software = ClassFacts {
            software: true,
            ..facts()
        };
        expect(&check(&software), NAME, Fine, &["software GPUs"]);
        let dead = ClassFacts {
            control: Some(None),
            ..facts()
        };
        expect(&check(&dead), NAME, Note, &["no control daemon", "mgb stop"]);
        let not_started = ClassFacts {
            control: None,
            ..facts()
        };
        expect(&check(&not_started), NAME, Fine, &["honours both"]);
    }

    #[test]
    fn what_the_environment_changes_is_said() {
        let own = |change: fn(&mut ClassFacts)| {
            let mut facts = facts();
            change(&mut facts);
            check(&facts).split_off(1)
        };
        let found = own(|facts| facts.priority = Some("0".to_owned()));
        expect(
            &found,
            NAME,
            Note,
            &["counts for nothing", "unset CUDA_MPS_CLIENT_PRIORITY"],
        );
        let found = own(|facts| facts.percentage = Some("30".to_owned()));
        expect(&found, NAME, Note, &["=30", "latency programs neither"]);
        for harmless in ["100", "0", "-5", "x"] {
            let mut facts = facts();
            facts.percentage = Some(harmless.to_owned());
            assert_eq!(check(&facts).len(), 1, "{harmless}");
        }
        let found = own(|facts| {
            facts.mps = Some("off".to_owned());
            facts.priority = Some("1".to_owned());
        });
        assert_eq!(found.len(), 1);
        expect(&found, NAME, Note, &["outside MPS"]);
        expect(
            &own(|facts| facts.class = Some("latency".to_owned())),
            NAME,
            Note,
            &["all programs"],
        );
        expect(
            &own(|facts| facts.class = Some("fast".to_owned())),
            NAME,
            Problem,
            &["neither"],
        );
    }
}
