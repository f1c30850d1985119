//! The files by which DCGM exporter knows which jobs use a GPU: one for each GPU, named by its number, with a
//! job on each line. It adds them to its metrics as the label `hpc_job`.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

use mgb_command::out;
use mgb_probe::view::{NodeView, TaskState, TaskView};
use mgb_probe::{job_number, slurm_job};

/// The folder of such files.
pub(super) struct JobFiles {
    folder: PathBuf,
    /// By GPU: what was written last.
    written: BTreeMap<u32, String>,
}

impl JobFiles {
    /// The files of a folder, in which nothing else is to write files of such names.
    pub(super) fn new(folder: &Path) -> JobFiles {
        JobFiles {
            folder: folder.to_owned(),
            written: BTreeMap::new(),
        }
    }

    /// Leaves the files as they are, which are emptied otherwise.
    pub(super) fn leave(mut self) {
        self.written.clear();
    }

    /// Writes the files of GPUs whose jobs are others than before; `None`: no jobs are known.
    ///
    /// # Errors
    /// The first of the system's; the other files are written all the same.
    pub(super) fn update(&mut self, view: Option<&NodeView>) -> io::Result<()> {
        let mut wanted: BTreeMap<u32, String> =
            self.written.keys().map(|gpu| (*gpu, String::new())).collect();
        if let Some(view) = view {
            wanted.extend(jobs(view));
        }
        let mut outcome = Ok(());
        for (gpu, text) in wanted {
            let file = self.folder.join(gpu.to_string());
            if self.written.get(&gpu) == Some(&text) && file.exists() {
                continue;
            }
            let replaced = out::replace(&file, |writer| writer.write_all(text.as_bytes()));
            match replaced {
                Ok(()) => _ = self.written.insert(gpu, text),
                Err(error) => {
                    let named = io::Error::new(error.kind(), format!("{}: {error}", file.display()));
                    outcome = outcome.and(Err(named));
                }
            }
        }
        outcome
    }
}

impl Drop for JobFiles {
    fn drop(&mut self) {
        // Who reads them would take what was there for what is.
        let _ = self.update(None);
    }
}

/// By GPU, as the driver counts them: a line for each job that has tasks there.
fn jobs(view: &NodeView) -> BTreeMap<u32, String> {
    let of_gpu = |index: u32| {
        let living = |task: &&TaskView| task.gpu == index && task.state != TaskState::Reclaiming;
        let jobs: BTreeSet<String> = view.tasks.iter().filter(living).map(job).collect();
        jobs.iter().map(|job| format!("{job}\n")).collect::<String>()
    };
    let gpus = view.gpus.iter();
    gpus.map(|gpu| (gpu.gpu.node_index, of_gpu(gpu.gpu.index)))
        .collect()
}

/// What a task's job is called: Slurm's number, else MGB's, else the process. The exporter prints a line as
/// it is, between quotation marks: it has nothing but digits, letters and hyphens.
fn job(task: &TaskView) -> String {
    let number = task.job.as_deref().and_then(job_number);
    match (number.and_then(slurm_job), number) {
        (Some(slurm), _) => slurm.to_string(),
        (None, Some(number)) => format!("mgb-{number:016x}"),
        (None, None) => format!("pid-{}", task.pid),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example::view;

    fn text(folder: &Path, gpu: u32) -> String {
        std::fs::read_to_string(folder.join(gpu.to_string())).unwrap()
    }

    #[test]
    fn each_gpu_has_the_jobs_of_its_tasks() {
        let folder = tempfile::tempdir().unwrap();
        let mut files = JobFiles::new(folder.path());
        let mut view = view();
        view.tasks[0].job = Some(format!("{:016x}", mgb_probe::slurm_step(4660, 3)));
        view.tasks[1].job = Some("00000000000000ff".to_owned());
        files.update(Some(&view)).unwrap();
        let gpu = |at: usize| view.gpus[at].gpu.node_index;
        assert_eq!(
            text(folder.path(), gpu(0)),
            "4660\nmgb-00000000000000ff\npid-102\n"
        );
        // A process without a job.
        assert_eq!(
            text(folder.path(), gpu(1)),
            format!("pid-{}\n", view.tasks[2].pid)
        );
        let names = std::fs::read_dir(folder.path()).unwrap().count();
        assert_eq!(names, view.gpus.len(), "nothing else is left there");

        // One that somebody removes is there again; what is as before is not written.
        std::fs::remove_file(folder.path().join(gpu(0).to_string())).unwrap();
        let before = std::fs::metadata(folder.path().join(gpu(1).to_string())).unwrap();
        files.update(Some(&view)).unwrap();
        assert!(text(folder.path(), gpu(0)).contains("4660"));
        let after = std::fs::metadata(folder.path().join(gpu(1).to_string())).unwrap();
        assert_eq!(before.modified().unwrap(), after.modified().unwrap());

        // Without mgbd, and at the end, no job is there.
        files.update(None).unwrap();
        assert_eq!(text(folder.path(), gpu(0)), "");
        files.update(Some(&view)).unwrap();
        drop(files);
        assert_eq!(text(folder.path(), gpu(0)), "");
    }

    #[test]
    fn what_a_job_says_of_itself_cannot_end_a_label() {
        let mut task = view().tasks[0].clone();
        task.job = Some("ff\",x=\"1\n7".to_owned());
        assert_eq!(job(&task), format!("pid-{}", task.pid));
    }

    #[test]
    fn a_folder_that_is_not_there_is_named() {
        let mut files = JobFiles::new(Path::new("/nonexistent"));
        let error = files.update(Some(&view())).unwrap_err();
        assert!(error.to_string().contains("/nonexistent/"), "{error}");
    }
}
