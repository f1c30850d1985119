//! `CUDA_VISIBLE_DEVICES`: which of the node's GPUs a process may use.
//!
//! Read once, from the environment as the program was started with it, before
//! lazyrt or MPS change it. Entries are indices in PCI order (as NVML and
//! `CUDA_DEVICE_ORDER=PCI_BUS_ID` count), or UUIDs, which may be cut short as
//! long as they name one GPU. As in CUDA, the list ends at the first entry that
//! names none.

/// Why a device list is not used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VisibleError {
    /// The list leaves nothing.
    #[error("CUDA_VISIBLE_DEVICES={0} leaves no GPU visible; unset it, or name GPUs by index or UUID")]
    Nothing(String),
    /// The list names MIG instances, which MGB does not share.
    #[error("CUDA_VISIBLE_DEVICES={0} names a MIG instance, which MGB cannot share; name whole GPUs")]
    Mig(String),
}

/// Positions in `uuids` (all GPUs of the node, in PCI order) that `list` (the
/// variable's value; `None`: not set) leaves visible, in the list's order.
pub fn visible_gpus(list: Option<&str>, uuids: &[&str]) -> Result<Vec<usize>, VisibleError> {
    let Some(list) = list else {
        return Ok((0..uuids.len()).collect());
    };
    let mut visible = Vec::new();
    for entry in list.split(',').map(str::trim) {
        if entry.starts_with("MIG-") {
            return Err(VisibleError::Mig(list.to_owned()));
        }
        let found = if let Ok(index) = entry.parse::<usize>() {
            (index < uuids.len()).then_some(index)
        } else if entry.starts_with("GPU-") {
            let mut matching = (0..uuids.len()).filter(|&at| {
                uuids[at]
                    .get(..entry.len())
                    .is_some_and(|head| head.eq_ignore_ascii_case(entry))
            });
            matching.next().filter(|_| matching.next().is_none())
        } else {
            None
        };
        match found {
            Some(index) if !visible.contains(&index) => visible.push(index),
            // CUDA rejects a list that names a GPU twice; stop there likewise.
            _ => break,
        }
    }
    if visible.is_empty() {
        Err(VisibleError::Nothing(list.to_owned()))
    } else {
        Ok(visible)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UUIDS: [&str; 3] = ["GPU-aa11", "GPU-aa22", "GPU-bb33"];

    #[test]
    fn follows_cudas_rules() {
        let visible = |list| visible_gpus(list, &UUIDS);
        assert_eq!(visible(None), Ok(vec![0, 1, 2]));
        assert_eq!(visible(Some("2,0")), Ok(vec![2, 0]));
        assert_eq!(visible(Some("GPU-bb, 0")), Ok(vec![2, 0]));
        assert_eq!(visible(Some("0,7,1")), Ok(vec![0]));
        assert_eq!(visible(Some("1,GPU-aa")), Ok(vec![1]));
        assert!(visible(Some("")).is_err());
        assert!(visible(Some("-1")).is_err());
        assert!(matches!(visible(Some("MIG-1")), Err(VisibleError::Mig(_))));
    }
}
