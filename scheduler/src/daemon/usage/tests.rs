use std::fs;

use super::files::KEPT_DAYS;
use super::*;

const GIB: u64 = 1 << 30;

fn at(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn holder(client: ClientId, uid: u32, label: &str) -> Holder {
    Holder {
        client,
        gpu: 0,
        uid,
        label: Text::new(label),
        granted: at(0),
        bytes: 2 * GIB,
        evicted: 0,
        gpu_ns: 0,
    }
}

#[test]
fn each_has_its_part_of_what_two_hold() {
    let folder = tempfile::tempdir().unwrap();
    let mut book = UsageBook::open(folder.path().to_owned(), false, at(0));
    let [one, two] = [(1, 100), (2, 1100)].map(|(client, granted)| Holder {
        granted: at(granted),
        ..holder(client, 7, "train")
    });
    // The second comes as half of the time is over.
    book.sample(&[one.clone(), two.clone()], |_| true, at(1100), SystemTime::now());
    let one = Holder {
        gpu_ns: 600,
        evicted: GIB,
        ..one
    };
    book.sample(&[one, two], |_| true, at(2100), SystemTime::now());
    assert_eq!(
        *book.users.get_mut(&7).unwrap().of("train"),
        Usage {
            processes: 2,
            held_ns: 3_000_000_000,
            gpu_ns: 600,
            // Half a second when the other had come, and half a second each.
            shared_ns: 1_500_000_000,
            byte_seconds: 6 * GIB,
            evicted_bytes: GIB,
        }
    );
    // Who is away with all of its memory holds nothing.
    let away = Holder {
        bytes: 0,
        evicted: 2 * GIB,
        ..holder(1, 7, "train")
    };
    book.sample(
        &[away, holder(2, 7, "train")],
        |_| true,
        at(3100),
        SystemTime::now(),
    );
    let sums = *book.users.get_mut(&7).unwrap().of("train");
    assert_eq!((sums.held_ns, sums.shared_ns), (4_000_000_000, 1_500_000_000));
    // A machine that slept.
    book.sample(
        &[holder(2, 7, "train")],
        |_| true,
        at(1_000_000),
        SystemTime::now(),
    );
    assert_eq!(
        book.users.get_mut(&7).unwrap().of("train").held_ns,
        14_000_000_000
    );
}

#[test]
fn a_process_whose_tasks_come_and_go_is_one() {
    let folder = tempfile::tempdir().unwrap();
    let mut book = UsageBook::open(folder.path().to_owned(), false, at(0));
    for round in 0..3 {
        let task = Holder {
            granted: at(1000 * round),
            evicted: GIB,
            gpu_ns: 100 * (round + 1),
            ..holder(1, 7, "train")
        };
        let clock = SystemTime::now();
        book.sample(&[task], |_| true, at(1000 * round + 400), clock);
        book.sample(&[], |_| true, at(1000 * round + 500), clock);
    }
    let sums = *book.users.get_mut(&7).unwrap().of("train");
    assert_eq!((sums.processes, sums.gpu_ns), (1, 300));
    assert_eq!((sums.held_ns, sums.evicted_bytes), (1_200_000_000, 3 * GIB));
    book.sample(&[], |_| false, at(3000), SystemTime::now());
    assert!(book.counted.is_empty());
}

#[test]
fn the_next_one_goes_on_with_the_day() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("new/usage");
    let count = |now: u64| {
        let mut book = UsageBook::open(place.clone(), true, at(0));
        assert_eq!(book.due_in(at(0)), None);
        book.sample(
            &[holder(1, 7, "train"), holder(2, 8, "serve")],
            |_| true,
            at(now),
            SystemTime::now(),
        );
        assert_eq!(book.due_in(at(now)), Some(SAVE_INTERVAL));
        book.sample(&[], |_| true, at(now), SystemTime::now());
        assert_eq!(book.due_in(at(now)), Some(LAST_INTERVAL));
        book
    };
    count(1000).finish();
    let mut book = count(2000);
    book.check(SAVE_INTERVAL);
    book.finish();
    let today = usage::day_of(SystemTime::now(), 0);
    for (uid, name) in [(7, "train"), (8, "serve")] {
        let mut day = UsageDay::read(&usage::file_of(&place, uid, &today)).unwrap();
        assert_eq!((day.of(name).held_ns, day.of(name).processes), (3_000_000_000, 2));
        assert_eq!(day.programs.len(), 1);
    }
}

#[test]
fn a_file_that_is_none_is_replaced_and_old_ones_go() {
    let folder = tempfile::tempdir().unwrap();
    let today = usage::day_of(SystemTime::now(), 0);
    let file = usage::file_of(folder.path(), 7, &today);
    fs::create_dir(folder.path().join("7")).unwrap();
    let of_day = |before: usize| {
        let day = usage::day_of(SystemTime::now(), before as u32);
        usage::file_of(folder.path(), 7, &day)
    };
    for before in 0..=KEPT_DAYS {
        fs::write(of_day(before), "{").unwrap();
    }
    let (old, kept) = (of_day(KEPT_DAYS), of_day(KEPT_DAYS - 1));
    let mut book = UsageBook::open(folder.path().to_owned(), false, at(0));
    assert!(!old.exists() && kept.exists());
    book.sample(&[holder(1, 7, "train")], |_| true, at(0), SystemTime::now());
    book.sample(&[holder(1, 7, "train")], |_| true, at(1000), SystemTime::now());
    book.finish();
    assert_eq!(UsageDay::read(&file).unwrap().of("train").held_ns, 1_000_000_000);
}

#[test]
fn a_day_ends_also_where_nobody_works() {
    let folder = tempfile::tempdir().unwrap();
    let mut book = UsageBook::open(folder.path().to_owned(), false, at(0));
    let days = [0, 1, 0].map(|day| SystemTime::now() + Duration::from_secs(day * 86400));
    book.sample(&[holder(1, 7, "train")], |_| true, at(1000), days[0]);
    book.sample(&[holder(1, 7, "train")], |_| true, at(3000), days[1]);
    // The clock is set back.
    book.sample(&[holder(1, 7, "train")], |_| true, at(6000), days[2]);
    book.finish();
    let held = |clock| {
        let file = usage::file_of(folder.path(), 7, &usage::day_of(clock, 0));
        UsageDay::read(&file).unwrap().of("train").held_ns / 1_000_000_000
    };
    assert_eq!(days[..2].iter().map(|day| held(*day)).collect::<Vec<_>>(), [1, 5]);
}

#[test]
fn what_could_not_be_written_is_written_later() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("usage");
    fs::write(&place, "in the way").unwrap();
    let mut book = UsageBook::open(place.clone(), false, at(0));
    book.sample(&[holder(1, 7, "train")], |_| true, at(1000), SystemTime::now());
    book.check(at(1000) + SAVE_INTERVAL);
    while book.writes.as_ref().is_some_and(|writes| !writes.is_finished()) {
        std::thread::yield_now();
    }
    fs::remove_file(&place).unwrap();
    book.finish();
    let today = usage::day_of(SystemTime::now(), 0);
    assert_eq!(
        UsageDay::read(&usage::file_of(&place, 7, &today))
            .unwrap()
            .programs
            .len(),
        1
    );
}

#[test]
fn a_folder_that_cannot_be_made_costs_nothing_but_the_files() {
    let mut book = UsageBook::open("/proc/none".into(), false, at(0));
    book.sample(&[holder(1, 7, "train")], |_| true, at(0), SystemTime::now());
    book.check(SAVE_INTERVAL);
    book.finish();
}
