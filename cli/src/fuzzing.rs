//! What `mgb` reads of Slurm, for the fuzzer.

use mgb_slurm::cluster::job::SlurmStep;
use mgb_slurm::submit;
use mgb_slurm::tools::record;

use crate::status;

/// Any text is what Slurm says: of nodes, of jobs that ran, of a task.
pub fn slurm(text: &str) {
    let records = record::read(text);
    for record in &records {
        let times = record.waited.abs().max(record.held.abs());
        // As mgb writes them.
        if times.is_finite() && times < 1e9 {
            let again = record::read(&record::comment("", std::slice::from_ref(record)));
            assert_eq!(again.len(), 1, "{record:?}");
            let (again, peak) = (&again[0], record.peak_mib);
            assert_eq!((&again.node, again.peak_mib), (&record.node, peak));
        }
    }
    let words: Vec<&str> = text.split_whitespace().collect();
    let step = SlurmStep::of(|name| match name {
        "SLURM_JOB_ID" => words.first().map(|word| (*word).to_owned()),
        _ => words.get(1).map(|word| (*word).to_owned()),
    });
    if let Some(Ok(step)) = step {
        assert!(step.whole().is_some() && mgb_probe::job_number(&step.name()).is_some());
    }
    status::read_cluster(text);
    submit::read(text);
}
