//! What the file of quotas may say.

use super::*;

fn read(text: &str) -> Result<Quotas, QuotasError> {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), text).unwrap();
    Quotas::read(file.path())
}

#[test]
fn an_entry_says_what_differs_from_the_default() {
    let quotas = read(
        "[default]\nbytes = \"2GiB\"\ntasks = 4\n[users.root]\nbytes = \"unlimited\"\nweight = 3\n\
         [users.77]\ntasks = 9\n[groups.50]\ngpus = 1\nweight = 5\n",
    )
    .unwrap();
    let of = |uid, groups: &[u32]| quotas.account_in(uid, groups);
    let gib = Some(2 << 30);
    let limits = |bytes, tasks, gpus| Limits {
        bytes,
        tasks,
        gpus,
        ..Limits::default()
    };
    assert_eq!(of(5, &[]).limits, [(Owner::User(5), limits(gib, Some(4), None))]);
    assert_eq!(of(0, &[]).limits, [(Owner::User(0), limits(None, Some(4), None))]);
    assert_eq!(
        of(77, &[50, 51]).limits,
        [
            (Owner::User(77), limits(gib, Some(9), None)),
            (Owner::Group(50), limits(None, None, Some(1))),
        ]
    );
    let weights = [of(5, &[]), of(0, &[50]), of(77, &[50])].map(|account| account.weight);
    assert_eq!(weights, [1, 3, 5]);
    assert_eq!(read("").unwrap().account(5), Account::default());
}

#[test]
fn it_says_who_may_have_a_gpu_for_himself_and_how_many_processes() {
    let quotas = read(
        "[default]\nalone = false\nprocesses = 4\n[users.77]\nalone = true\nprocesses = \"unlimited\"\n\
         [groups.50]\nalone = true\n",
    )
    .unwrap();
    let may = |uid, groups: &[u32]| quotas.account_in(uid, groups).may_be_alone;
    assert_eq!([may(5, &[]), may(77, &[]), may(5, &[50])], [false, true, true]);
    let most = |uid| {
        quotas
            .account_in(uid, &[])
            .limits
            .first()
            .and_then(|(_, own)| own.processes)
    };
    assert_eq!([most(5), most(77)], [Some(4), None]);
    let quotas = read(
        "[default]\nalone = 1\nswap = \"1GiB\"\nwaiting = 3\n[users.77]\nalone = 0\n[groups.50]\nalone = 2\n",
    )
    .unwrap();
    let all = |uid, groups: &[u32]| {
        let account = quotas.account_in(uid, groups);
        let limits = account.limits.into_iter();
        let limits = limits.map(|(_, own)| (own.alone, own.swap, own.waiting));
        (account.may_be_alone, limits.collect::<Vec<_>>())
    };
    let gib = Some(1 << 30);
    assert_eq!(all(5, &[]), (true, vec![(Some(1), gib, Some(3))]));
    assert_eq!(all(77, &[]), (false, vec![(None, gib, Some(3))]));
    let both = vec![(Some(2), gib, Some(3)), (Some(2), None, None)];
    assert_eq!(all(5, &[50]), (true, both), "all of the group together");
    let text = "[default]\npriority = 1\n[users.77]\npriority = \"unlimited\"\n[groups.50]\npriority = 3\n";
    let quotas = read(text).unwrap();
    let priority = |uid, groups: &[u32]| quotas.account_in(uid, groups).most_priority;
    assert_eq!(
        [priority(5, &[]), priority(77, &[50]), priority(5, &[50])],
        [Some(1), Some(u32::MAX), Some(3)]
    );
    assert!(Account::default().may_be_alone);
}

#[test]
fn it_says_how_long_tasks_may_have_their_memory_and_who_is_ended() {
    let quotas = read(
        "[default]\ntime = \"30m\"\nend-late = true\n[users.77]\ntime = \"unlimited\"\n\
         [users.78]\nend-late = false\n[groups.50]\ntime = \"1d12h\"\n\
         [groups.51]\ntime = \"2h\"\nend-late = false\n",
    )
    .unwrap();
    let may = |uid, groups: &[u32]| {
        let account = quotas.account_in(uid, groups);
        (
            account.most_time.map(|most| most.as_secs() / 60),
            account.ends_late,
        )
    };
    assert_eq!(may(5, &[]), (Some(30), true));
    assert_eq!(may(77, &[50]), (None, true));
    assert_eq!(may(78, &[]), (Some(30), false));
    assert_eq!(
        may(5, &[50, 51]),
        (Some(36 * 60), false),
        "what one of the groups may"
    );
    assert_eq!(may(5, &[51]), (Some(120), false));
    let none = Account::default();
    assert_eq!((none.most_time, none.ends_late), (None, false));
}

#[test]
fn while_it_is_not_known_who_may_have_more_time_nobody_is_ended() {
    let quotas = read("[default]\ntime = \"1m\"\nend-late = true\n[groups.50]\ntime = \"1h\"\n").unwrap();
    assert_eq!(quotas.account_without_groups(5).most_time, None);
    assert!(quotas.account_in(5, &[]).ends_late && !quotas.spares_all());
    let quotas = read("[default]\ntime = \"1m\"\nend-late = true\n[users.nobody-at-all]\n").unwrap();
    let account = quotas.account(5);
    assert!(account.most_time.is_some() && !account.ends_late && quotas.spares_all());
}

#[test]
fn a_user_is_in_the_groups_of_the_system() {
    let quotas = read("[groups.root]\ntasks = 2\n").unwrap();
    let limits = quotas.account(0).limits;
    assert_eq!(limits.len(), 1);
    assert_eq!(limits[0].0, Owner::Group(0));
}

#[test]
fn mistakes_are_named() {
    let said = |text: &str| read(text).unwrap_err().to_string();
    assert!(said("[default]\nbites = 3\n").contains("bites"));
    assert!(said("[users.root]\nbytes = \"much\"\n").contains("[users.root]: bytes: `much` is no size"));
    assert!(said("[groups.root]\nweight = 0\n").contains("weight is 0"));
    assert!(said("[users.root]\ngpus = \"some\"\n").contains("gpus: `some` is no number"));
    for time in ["30", "\"30\"", "0", "\"-3m\"", "\"1.5h\"", "\"soon\""] {
        let said = said(&format!("[groups.root]\ntime = {time}\n"));
        assert!(
            said.contains("[groups.root]: time: `") && said.contains("is no time"),
            "{said}"
        );
    }
    assert!(said("[default]\nend-late = \"yes\"\n").contains("end-late"));
    assert!(said("[default]\nend_late = true\n").contains("end_late"));
    let unknown = read("[users.nobody-at-all]\ntasks = 1\n").unwrap().unknown;
    assert_eq!(unknown, ["user nobody-at-all"]);
}
