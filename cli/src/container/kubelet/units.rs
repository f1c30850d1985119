//! The node's GPU memory as devices: one for each GiB.

use std::collections::BTreeMap;

use mgb_probe::view::NodeView;

use super::api::{HEALTHY, PluginDevice, UNHEALTHY};

/// Bytes that one device stands for.
const UNIT: u64 = 1 << 30;
/// Devices of a node at most: a list of them stays far below the 4 MiB that a message may have.
const MOST: u64 = 65_536;

/// The GPUs of the node as they were last seen: whole GiB of each, and whether it takes programs. Those that
/// are gone stay, and take none: what pods have of them is not given twice.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Units {
    gpus: BTreeMap<u32, (u64, bool)>,
}

impl Units {
    /// After a look at the node; `None`: no mgbd answers.
    pub fn after(&self, view: Option<&NodeView>, overcommit: f64) -> Units {
        let mut gpus = self.gpus.clone();
        for (_, takes) in gpus.values_mut() {
            *takes = false;
        }
        for seen in view.map_or(&[][..], |view| &view.gpus) {
            let units = (seen.gpu.usable_bytes as f64 * overcommit / UNIT as f64) as u64;
            let takes = !(seen.drained || seen.lost);
            gpus.insert(seen.gpu.node_index, (units, takes));
        }
        Units { gpus }
    }

    /// How many devices pods may have now.
    pub fn healthy(&self) -> u64 {
        let counts = self.gpus.values().map(|(units, takes)| units * u64::from(*takes));
        counts.sum::<u64>().min(MOST)
    }

    /// All devices, as the kubelet is told of them.
    pub fn devices(&self) -> Vec<PluginDevice> {
        let all = self.gpus.iter().flat_map(|(gpu, (units, takes))| {
            let health = if *takes { HEALTHY } else { UNHEALTHY };
            (0..*units).map(move |unit| PluginDevice {
                id: format!("{gpu}-{unit}"),
                health: health.to_owned(),
            })
        });
        all.take(MOST as usize).collect()
    }

    /// Whether there is such a device, healthy or not.
    pub fn has(&self, id: &str) -> bool {
        let parsed = id
            .split_once('-')
            .and_then(|(gpu, unit)| Some((gpu.parse().ok()?, unit.parse::<u64>().ok()?)));
        let count = parsed.and_then(|(gpu, unit)| Some((self.gpus.get(&gpu)?.0, unit)));
        count.is_some_and(|(count, unit)| unit < count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use mgb_probe::Gpu;
    use mgb_probe::view::GpuView;

    fn view(gpus: &[(u32, u64, bool)]) -> NodeView {
        let gpus = gpus.iter().map(|(node_index, usable_bytes, drained)| GpuView {
            gpu: Gpu {
                node_index: *node_index,
                usable_bytes: *usable_bytes,
                ..Gpu::default()
            },
            drained: *drained,
            ..GpuView::default()
        });
        NodeView {
            gpus: gpus.collect(),
            ..NodeView::default()
        }
    }

    #[test]
    fn whole_units_of_each_gpu_count() {
        let units =
            Units::default().after(Some(&view(&[(0, 2 * UNIT - 1, false), (3, 2 * UNIT, true)])), 1.0);
        let devices = units.devices();
        let said: Vec<(&str, &str)> = devices
            .iter()
            .map(|device| (device.id.as_str(), device.health.as_str()))
            .collect();
        assert_eq!(said, [("0-0", HEALTHY), ("3-0", UNHEALTHY), ("3-1", UNHEALTHY)]);
        assert_eq!(units.healthy(), 1);
        assert!(
            units.has("3-1") && !units.has("3-2") && !units.has("1-0") && !units.has("3") && !units.has("-")
        );
    }

    #[test]
    fn what_is_gone_stays_and_takes_none() {
        let seen = Units::default().after(Some(&view(&[(0, UNIT, false), (1, UNIT, false)])), 2.0);
        assert_eq!(seen.healthy(), 4);
        let without_mgbd = seen.after(None, 2.0);
        assert_eq!((without_mgbd.healthy(), without_mgbd.devices().len()), (0, 4));
        let one_is_gone = without_mgbd.after(Some(&view(&[(1, UNIT, false)])), 2.0);
        assert_eq!((one_is_gone.healthy(), one_is_gone.devices().len()), (2, 4));
    }

    #[test]
    fn a_list_fits_a_message() {
        let units = Units::default().after(Some(&view(&[(0, u64::MAX, false)])), 100.0);
        let devices = units.devices();
        assert_eq!(devices.len() as u64, units.healthy());
        let list = super::super::api::ListAndWatchResponse { devices };
        assert!(prost::Message::encoded_len(&list) < 2 << 20);
    }
}
