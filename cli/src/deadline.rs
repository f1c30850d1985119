//! Deadlines as people write them, and what is said of them before a program starts.

use std::str::FromStr;
use std::time::{Duration, SystemTime};

use mgb_probe::{Deadline, ExpectedRun};

/// Reads a deadline: a span from now (`90s`, `1h30m`), the next time that the clock shows that (`18:30`,
/// `18:30:15`, local time), or seconds since 1970 (`@1767225600`).
///
/// # Errors
/// What is wrong with it, and the forms that there are.
pub fn parse(text: &str) -> Result<Deadline, String> {
    let found = if let Some(seconds) = text.strip_prefix('@') {
        Deadline::from_str(seconds).ok()
    } else if text.contains(':') {
        next_at(text)
    } else {
        length(text).map(Deadline::within)
    };
    found.ok_or_else(|| {
        format!(
            "`{text}` is no deadline: a span such as 90s or 1h30m (ms, s, m, h, d), or a time such as 18:30"
        )
    })
}

/// A span of time in one or more numbers with their units.
pub fn length(text: &str) -> Option<Duration> {
    let mut rest = text;
    let mut sum = Duration::ZERO;
    while !rest.is_empty() {
        let unit_at = rest.find(|letter: char| letter.is_ascii_alphabetic())?;
        let (number, behind) = rest.split_at(unit_at);
        let end = behind
            .find(|letter: char| !letter.is_ascii_alphabetic())
            .unwrap_or(behind.len());
        let (unit, next) = behind.split_at(end);
        let seconds = match unit {
            "ms" => 0.001,
            "s" => 1.0,
            "m" | "min" => 60.0,
            "h" => 3600.0,
            "d" => 86400.0,
            _ => return None,
        };
        let number: f64 = number.parse().ok()?;
        sum = sum.checked_add(Duration::try_from_secs_f64(number * seconds).ok()?)?;
        rest = next;
    }
    Some(sum).filter(|sum| !sum.is_zero())
}

/// The next time that the clock shows this.
fn next_at(text: &str) -> Option<Deadline> {
    let parts: Vec<&str> = text.split(':').collect();
    let number = |at: usize, limit: i32| {
        let part = parts.get(at)?;
        let is_short = (1..=2).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_digit());
        part.parse().ok().filter(|number| is_short && *number < limit)
    };
    let (hour, minute) = (number(0, 24)?, number(1, 60)?);
    let second = match parts.len() {
        2 => 0,
        3 => number(2, 60)?,
        _ => return None,
    };
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).ok()?;
    let today = libc::time_t::try_from(now.as_secs()).ok()?;
    // The day after begins when it does, also where a clock is put forward or back meanwhile.
    let at = (0..=1).find_map(|day| shown(today, day, (hour, minute, second)).filter(|at| *at > today))?;
    Some(Deadline::within(
        Duration::from_secs(u64::try_from(at).ok()?).saturating_sub(now),
    ))
}

/// When the clock shows this, so many days after today.
fn shown(today: libc::time_t, days: i32, (hour, minute, second): (i32, i32, i32)) -> Option<libc::time_t> {
    // SAFETY: all zeros is a valid tm.
    let mut at: libc::tm = unsafe { std::mem::zeroed() };
    // SAFETY: both are valid for the call, which keeps neither.
    if unsafe { libc::localtime_r(&today, &mut at) }.is_null() {
        return None;
    }
    (at.tm_hour, at.tm_min, at.tm_sec) = (hour, minute, second);
    at.tm_mday += days;
    // Whether it is summer there and then is for the system to say.
    at.tm_isdst = -1;
    // SAFETY: `at` is a valid tm.
    let time = unsafe { libc::mktime(&mut at) };
    (time != -1).then_some(time)
}

/// What is expected of a program, against its deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prospect {
    /// Nothing is known of the program.
    Unknown,
    /// It ends in that time, so much before its deadline.
    Met(Duration, Duration),
    /// It ends in that time, so much after its deadline.
    Missed(Duration, Duration),
    /// Nothing is known of the program, but that its deadline has passed.
    Passed,
}

impl Prospect {
    /// Of a program that is expected to wait and last so long, and is to end within `left` (none: the
    /// deadline has passed).
    pub fn of(expected: Option<ExpectedRun>, left: Option<Duration>) -> Prospect {
        let Some((waits, lasts)) = expected.and_then(|run| Some((run.waits, run.lasts?))) else {
            return left.map_or(Prospect::Passed, |_| Prospect::Unknown);
        };
        let ends = waits.saturating_add(lasts);
        match left.unwrap_or_default().checked_sub(ends) {
            Some(spare) => Prospect::Met(ends, spare),
            None => Prospect::Missed(ends, ends - left.unwrap_or_default()),
        }
    }

    /// Whether the deadline is not going to be met.
    pub fn is_missed(self) -> bool {
        matches!(self, Prospect::Missed(..) | Prospect::Passed)
    }

    /// When it is expected to end, from now.
    pub fn ends(self) -> Option<Duration> {
        match self {
            Prospect::Unknown | Prospect::Passed => None,
            Prospect::Met(ends, _) | Prospect::Missed(ends, _) => Some(ends),
        }
    }

    /// The same in words, of a deadline in so long.
    pub fn sentence(self, left: Option<Duration>) -> String {
        let due = left.map_or("has passed".to_owned(), |left| format!("in {}", in_words(left)));
        match self {
            Prospect::Unknown => {
                format!("deadline {due}; nothing is known of the program with these arguments")
            }
            Prospect::Passed => format!("deadline {due}"),
            Prospect::Met(ends, _) => format!("deadline {due}; expected to end in {}: met", in_words(ends)),
            Prospect::Missed(ends, late) => {
                format!(
                    "deadline {due}; expected to end in {}: missed by {}",
                    in_words(ends),
                    in_words(late)
                )
            }
        }
    }
}

/// A time as precise as a deadline wants it.
fn in_words(time: Duration) -> String {
    match time.as_secs() {
        0..120 => format!("{:.1} s", time.as_secs_f64()),
        seconds @ 120..7200 => format!("{} min {} s", seconds / 60, seconds % 60),
        seconds => format!("{} h {} min", seconds / 3600, seconds / 60 % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: fn(u64) -> Duration = Duration::from_secs;

    #[test]
    fn spans_have_units() {
        for (text, seconds) in [
            ("90s", 90.0),
            ("1h30m", 5400.0),
            ("1.5h", 5400.0),
            ("250ms", 0.25),
            ("2d", 172_800.0),
        ] {
            assert_eq!(length(text), Some(Duration::from_secs_f64(seconds)), "{text}");
        }
        for text in [
            "",
            "90",
            "s",
            "0s",
            "-1s",
            "1x",
            "1e9999s",
            "nans",
            "infs",
            "1s2",
            "s1",
            "9e18d9e18d",
            "1 s",
            "٣s",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_time_is_the_next_one() {
        let day = AT(25 * 3600);
        for text in ["0:00", "00:00", "18:30", "23:59:59", "7:5"] {
            let left = parse(text).unwrap().left().unwrap();
            assert!(left <= day, "{text} in {left:?}");
        }
        for text in [
            "24:00", "18:60", "18:30:60", "18:", ":30", "1:2:3:4", "+1:30", "018:30", "a:b",
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains("90s") && error.contains("18:30"), "{error}");
        }
        assert!(parse("@0").unwrap().left().is_none());
        assert!(parse("@soon").is_err());
    }

    #[test]
    fn the_prospect_is_said() {
        let run = |waits, lasts: Option<u64>| ExpectedRun {
            waits: AT(waits),
            lasts: lasts.map(AT),
        };
        let say = |expected, left: Option<u64>| {
            let left = left.map(AT);
            Prospect::of(expected, left).sentence(left)
        };
        let unknown = "deadline in 90.0 s; nothing is known of the program with these arguments";
        assert_eq!(say(None, Some(90)), unknown);
        assert_eq!(say(Some(run(5, None)), Some(90)), unknown);
        assert_eq!(
            say(Some(run(20, Some(30))), Some(50)),
            "deadline in 50.0 s; expected to end in 50.0 s: met"
        );
        assert_eq!(
            say(Some(run(20, Some(30))), Some(40)),
            "deadline in 40.0 s; expected to end in 50.0 s: missed by 10.0 s"
        );
        assert_eq!(
            say(Some(run(0, Some(30))), None),
            "deadline has passed; expected to end in 30.0 s: missed by 30.0 s"
        );
        assert_eq!(say(None, None), "deadline has passed");
        assert!(Prospect::of(None, None).is_missed());
        assert_eq!(
            say(Some(run(100, Some(30))), Some(7260)),
            "deadline in 2 h 1 min; expected to end in 2 min 10 s: met"
        );
        let forever = ExpectedRun {
            waits: Duration::MAX,
            lasts: Some(AT(1)),
        };
        assert_eq!(
            Prospect::of(Some(forever), Some(AT(1))).ends(),
            Some(Duration::MAX)
        );
    }
}
