//! Which processes and jobs are suspended, and since when.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::broker::clients::{ClientState, Clients, Subject};
use crate::journal::Standing;

/// The suspended processes and jobs, and since when each is.
#[derive(Debug, Default)]
pub(super) struct Suspensions(BTreeMap<Subject, Duration>);

impl Suspensions {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn has(&self, subject: Subject) -> bool {
        self.0.contains_key(&subject)
    }

    /// Since when the client is suspended; `None`: it is not.
    pub(super) fn since(&self, client: &ClientState) -> Option<Duration> {
        if self.is_empty() || client.observes() {
            return None;
        }
        Subject::all_of(client)
            .filter_map(|subject| self.0.get(&subject).copied())
            .min()
    }

    /// Suspends a process or a job. False: it was suspended.
    pub(super) fn add(&mut self, subject: Subject, now: Duration) -> bool {
        let is_new = !self.has(subject);
        if is_new {
            self.0.insert(subject, now);
        }
        is_new
    }

    /// Resumes a process, or a job and all its processes. Whether any of it was suspended.
    pub(super) fn remove(&mut self, subject: Subject, clients: &Clients) -> bool {
        let mut was = self.0.remove(&subject).is_some();
        if let Subject::Job(_) = subject {
            for (_, entry) in clients.of(subject) {
                was |= self.0.remove(&Subject::Process(entry.pid())).is_some();
            }
        }
        was
    }

    /// A client is gone: what it was the last of is forgotten. Whether anything was.
    pub(super) fn forget(&mut self, gone: &ClientState, clients: &Clients) -> bool {
        let mut was = false;
        for subject in Subject::all_of(gone) {
            if clients.of(subject).next().is_none() {
                was |= self.0.remove(&subject).is_some();
            }
        }
        was
    }

    /// Writes down what is suspended.
    pub(super) fn write(&self, standing: &mut Standing) {
        let mut jobs = Vec::new();
        for (subject, since) in &self.0 {
            match subject {
                Subject::Process(pid) => standing.processes.push((*pid, *since)),
                Subject::Job((uid, job)) => jobs.push((*uid, *job, *since)),
            }
        }
        standing.suspended_jobs = jobs.iter().map(|(_, job, since)| (*job, *since)).collect();
        standing.suspended_jobs_of = Some(jobs);
    }

    /// What was suspended under an earlier broker and is here still. Nobody has told of those that ended meanwhile,
    /// and their numbers may be others' by now.
    pub(super) fn bring_in(&mut self, standing: &Standing, clients: &Clients) {
        let processes = standing.processes.iter();
        let processes = processes.map(|(pid, since)| (Subject::Process(*pid), *since));
        let all = processes.chain(jobs_of(standing, clients));
        let here = all.filter(|(subject, _)| clients.of(*subject).next().is_some());
        self.0.extend(here);
    }
}

/// The jobs that were suspended, and since when. An `mgbd` that knew no users of jobs named numbers alone: then the
/// jobs of all who are here with that number.
fn jobs_of(standing: &Standing, clients: &Clients) -> Vec<(Subject, Duration)> {
    let by_number = || {
        let jobs = standing.suspended_jobs.iter();
        jobs.flat_map(|&(job, since)| {
            let users = clients.iter().filter(move |(_, entry)| {
                entry.job() == job || mgb_probe::slurm_whole(entry.job()) == Some(job)
            });
            users.map(move |(_, entry)| (entry.uid(), job, since))
        })
        .collect()
    };
    let jobs = standing.suspended_jobs_of.clone().unwrap_or_else(by_number);
    jobs.into_iter()
        .map(|(uid, job, since)| (Subject::Job((uid, job)), since))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: fn(u64) -> Duration = Duration::from_secs;

    fn clients() -> Clients {
        let mut clients = Clients::default();
        for client in [1, 2] {
            clients.arrive(client, client as u32);
            clients.join(client, 9);
        }
        clients
    }

    #[test]
    fn a_job_is_suspended_with_all_its_processes_and_resumed_so() {
        let clients = clients();
        let mut suspensions = Suspensions::default();
        assert!(suspensions.add(Subject::Process(1), AT(2)) && suspensions.add(Subject::Job((0, 9)), AT(3)));
        assert!(!suspensions.add(Subject::Job((0, 9)), AT(4)), "it is already");
        let since =
            |suspensions: &Suspensions| [1, 2].map(|client| suspensions.since(clients.get(client).unwrap()));
        assert_eq!(since(&suspensions), [Some(AT(2)), Some(AT(3))]);
        assert!(suspensions.remove(Subject::Job((0, 9)), &clients));
        assert_eq!(since(&suspensions), [None, None]);
    }

    #[test]
    fn a_suspended_job_is_forgotten_with_its_last_process() {
        let mut clients = clients();
        let mut suspensions = Suspensions::default();
        suspensions.add(Subject::Job((0, 9)), AT(1));
        for (client, is_forgotten) in [(1, false), (2, true)] {
            let gone = clients.remove(client).unwrap();
            assert_eq!(suspensions.forget(&gone, &clients), is_forgotten);
        }
        assert!(suspensions.is_empty());
    }

    #[test]
    fn what_is_suspended_comes_back_if_it_is_here_still() {
        let mut before = Suspensions::default();
        for subject in [Subject::Process(1), Subject::Process(77), Subject::Job((0, 9))] {
            before.add(subject, AT(5));
        }
        let mut standing = Standing::default();
        before.write(&mut standing);
        let mut after = Suspensions::default();
        after.bring_in(&standing, &clients());
        let has = |subject| after.has(subject);
        assert!(has(Subject::Process(1)) && has(Subject::Job((0, 9))) && !has(Subject::Process(77)));
    }
}
