//! Resources: the registers and the static shared memory that kernels take, read off the machine code which
//! the compile has embedded in the module, so that it is known before there is a context how much of a GPU a
//! launch fills. What cannot be read is left out: the kernel's resources are then unknown.
use std::collections::HashMap;

use crate::device::cubin::Cubin;
pub use crate::device::cubin::Taken;
use crate::device::fatbin::{self, Embedded, ImageKind};
use crate::host::collect::Collected;
use crate::host::ir::{self, Value};

/// What the kernels of a module take.
pub struct Resources {
    by_stub: HashMap<Value, Taken>,
}

impl Resources {
    /// Of a module with its device code embedded.
    pub fn new(collected: &Collected) -> Self {
        let mut by_name: HashMap<String, Taken> = HashMap::new();
        let constants = ir::globals(collected.module).filter(|one| one.section() == fatbin::SECTION);
        let mut containers: Vec<Vec<u8>> = constants.filter_map(|one| one.text()).collect();
        containers.extend(Embedded::of(collected.module).bytes);
        for (name, taken) in containers.iter().flat_map(|bytes| kernels(bytes)) {
            let known = by_name.entry(name).or_default();
            known.registers = known.registers.max(taken.registers);
            known.shared = known.shared.max(taken.shared);
        }
        let registrations = match by_name.is_empty() {
            true => Vec::new(),
            false => collected.calls_of("__cudaRegisterFunction"),
        };
        let by_stub = registrations.into_iter().filter_map(|call| {
            let mut name = call.operand(2).text()?;
            name.pop();
            let taken = by_name.get(&String::from_utf8(name).ok()?)?;
            Some((call.operand(1), *taken))
        });
        Self {
            by_stub: by_stub.collect(),
        }
    }

    /// What the kernel of a stub takes, where it is known.
    pub fn of(&self, stub: Value) -> Option<Taken> {
        self.by_stub.get(&stub).copied()
    }
}

/// The kernels of all machine code in containers.
fn kernels(bytes: &[u8]) -> Vec<(String, Taken)> {
    let images = fatbin::entries(bytes).unwrap_or_default().into_iter();
    let files = images
        .filter(|image| image.kind == ImageKind::Elf)
        .filter_map(|image| image.content());
    files
        .flat_map(|file| {
            Cubin::read(&file)
                .and_then(|file| file.kernels())
                .unwrap_or_default()
        })
        .collect()
}
