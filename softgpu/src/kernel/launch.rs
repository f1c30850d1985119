//! From a launch call to work in a stream.

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::sync::Arc;

use mgb_abi::launch::LaunchAttributeValue;

use super::variables;
use crate::config::profile::Profile;
use crate::device::Gpu;
use crate::error::{Error, Result, say};
use crate::exec::grid::{Arguments, GridCode, LaunchPlan};
use crate::exec::registry::KernelFunction;
use crate::exec::{pool, threads};
use crate::image::{self, KERNEL_BARRIER, KERNEL_COROUTINE};
use crate::texture::objects::{self, Objects};
use crate::time::{booking, model::KernelWork, mps_client::mps_client};

/// The shape of a launch.
#[derive(Clone, Copy, Debug)]
pub struct LaunchShape {
    /// The dimensions of the grid in blocks.
    pub grid: [u32; 3],
    /// Threads of a block.
    pub block: [u32; 3],
    /// Dynamic shared memory in bytes.
    pub shared: usize,
    /// All blocks must be resident at once.
    pub cooperative: bool,
}

/// Blocks of a kernel that one multiprocessor holds.
pub fn resident(profile: &Profile, function: &KernelFunction, threads: u32, dynamic_shared: u64) -> u32 {
    let Some(code) = function.code else { return 0 };
    let shared = u64::from(code.kernel.static_shared) + dynamic_shared;
    if shared > u64::from(profile.shared_per_block_optin) {
        return 0;
    }
    profile.blocks_resident(threads, registers(profile, code.kernel), shared)
}

/// Registers of a thread: the translation's estimate, in the hardware's bounds.
pub fn registers(profile: &Profile, kernel: &image::Kernel) -> u32 {
    estimated(profile, kernel.registers, most_threads(profile, kernel))
}

/// It is only an estimate: it must not keep a block from running that the kernel's own bound allows.
fn estimated(profile: &Profile, registers: u32, most_threads: u32) -> u32 {
    let most = profile.most_registers(most_threads);
    registers.max(16).next_multiple_of(8).min(most)
}

/// Most threads of a block of a kernel.
pub fn most_threads(profile: &Profile, kernel: &image::Kernel) -> u32 {
    match kernel.max_threads {
        0 => profile.block_threads,
        promised => promised.min(profile.block_threads),
    }
}

/// Checks a launch as the runtime does before anything runs.
///
/// # Errors
/// CUDA's codes for shapes that the device or the kernel does not allow.
pub fn check(profile: &Profile, function: &KernelFunction, shape: &LaunchShape) -> Result {
    let product: u64 = shape.block.iter().map(|&n| u64::from(n)).product();
    let within =
        |values: [u32; 3], most: [u32; 3]| values.iter().zip(most).all(|(&n, most)| n >= 1 && n <= most);
    let sound = within(shape.block, profile.block_dim) && within(shape.grid, profile.grid_dim);
    if !sound || product > u64::from(profile.block_threads) {
        return Err(Error::INVALID_VALUE);
    }
    let Some(code) = function.code else { return Ok(()) };
    if shape.shared > function.dynamic_shared_limit(profile) as usize
        || shape.shared + code.kernel.static_shared as usize > profile.shared_per_block_optin as usize
    {
        return Err(Error::INVALID_VALUE);
    }
    if product > u64::from(most_threads(profile, code.kernel)) {
        return Err(Error::INVALID_VALUE);
    }
    let threads = product as u32;
    let blocks: u64 = shape.grid.iter().map(|&n| u64::from(n)).product();
    let each = resident(profile, function, threads, shape.shared as u64);
    let held = u64::from(each) * u64::from(mps_client().multiprocessors(profile));
    if shape.cooperative && blocks > held {
        return Err(Error::COOPERATIVE_LAUNCH_TOO_LARGE);
    }
    Ok(())
}

/// How a kernel runs.
fn code_of(kernel: &image::Kernel, entry: image::KernelEntry) -> GridCode {
    if kernel.flags & KERNEL_COROUTINE != 0 {
        // SAFETY: the image says that its entry is of that type.
        let begin = unsafe { std::mem::transmute::<image::KernelEntry, image::Begin>(entry) };
        let frame = kernel.frame_bytes as usize;
        return GridCode::Coroutines { begin, frame };
    }
    match kernel.flags & KERNEL_BARRIER {
        0 => GridCode::Rows(entry),
        _ => GridCode::Fibers(entry),
    }
}

/// A launch that has been checked: what a stream runs, and what a graph keeps.
#[derive(Clone)]
pub struct CheckedLaunch {
    /// The kernel that is launched.
    pub function: Arc<KernelFunction>,
    /// The shape of the launch.
    pub shape: LaunchShape,
    /// `cudaLaunchAttribute`s that were set for a graph's node, kept so that the program can read them.
    pub attributes: BTreeMap<u32, LaunchAttributeValue>,
    arguments: Arc<Arguments>,
    objects: Arc<Objects>,
}

impl CheckedLaunch {
    /// Checks a launch, and copies its arguments.
    ///
    /// # Errors
    /// Those of [`check`]; what is wrong with the kernel; no memory for its module's variables.
    ///
    /// # Safety
    /// `arguments` is as the kernel's parameters ask: a pointer to each value.
    pub unsafe fn new(
        gpu: &'static Gpu,
        function: Arc<KernelFunction>,
        shape: LaunchShape,
        arguments: *const *const c_void,
    ) -> Result<CheckedLaunch> {
        check(gpu.profile(), &function, &shape)?;
        let (code, _) = function.runnable()?;
        let kernel = code.kernel;
        // SAFETY: the parameters are a registered image's array; `arguments` points to a value for each:
        // contract of `CheckedLaunch::new`.
        let arguments = unsafe {
            let parameters = image::slice(kernel.parameters, kernel.parameter_count);
            if arguments.is_null() && !parameters.is_empty() {
                return Err(Error::INVALID_VALUE);
            }
            Arc::new(Arguments::copy(parameters, arguments))
        };
        variables::block(gpu, code.image)?;
        Ok(CheckedLaunch {
            function,
            shape,
            attributes: BTreeMap::new(),
            arguments,
            objects: objects::of(gpu.ordinal),
        })
    }

    /// A pointer to each argument's value.
    pub fn arguments(&self) -> *const *const c_void {
        self.arguments.pointers()
    }

    /// Runs it in a stream of this priority; returns its modelled end. A kernel that fails sticks to the
    /// device.
    ///
    /// # Errors
    /// No code, or no memory for its module's variables.
    pub fn run(&self, gpu: &Gpu, ready: u64, priority: i32) -> Result<u64> {
        let (code, entry) = self.function.runnable()?;
        let LaunchShape {
            grid, block, shared, ..
        } = self.shape;
        let threads = block.iter().product();
        let profile = gpu.profile();
        let resident = resident(profile, &self.function, threads, shared as u64);
        let plan = LaunchPlan {
            name: self.function.name.as_str().into(),
            code: code_of(code.kernel, entry),
            image: code.image,
            local_bytes: code.kernel.local_bytes as usize,
            grid,
            block,
            static_shared: code.kernel.static_shared as usize,
            dynamic_shared: shared,
            variables: variables::block(gpu, code.image)?,
            objects: self.objects.clone(),
            arguments: self.arguments.clone(),
            resident: (u64::from(resident) * u64::from(mps_client().multiprocessors(profile))).max(1),
            workspace: self.shape.cooperative.then(Default::default),
        };
        let outcome = pool::run(plan);
        outcome.output.write();
        if let Some(failure) = outcome.failure {
            // CUDA prints an assertion as it stands.
            if failure.error == Error::ASSERT {
                mgb_stderr::say!("{}", failure.text)
            } else {
                say(&failure.text)
            }
            gpu.fail(failure.error);
        }
        let work = KernelWork {
            blocks: grid.iter().map(|&n| u64::from(n)).product(),
            threads,
            resident,
            operations: outcome.operations,
            longest: outcome.longest,
        };
        Ok(booking::kernel(
            &gpu.device(),
            &work,
            ready,
            priority,
            threads::stopping,
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::estimated;
    use crate::config::profiles::STANDARD;

    #[test]
    fn an_estimate_keeps_no_block_from_running() {
        assert_eq!(estimated(&STANDARD, 40, 1024), 40);
        assert_eq!(estimated(&STANDARD, 200, 1024), 64);
        assert_eq!(estimated(&STANDARD, 200, 128), 200);
        assert_eq!(estimated(&STANDARD, 1000, 1), STANDARD.registers_per_thread);
        for threads in 1..=1024 {
            assert!(
                STANDARD.blocks_resident(threads, estimated(&STANDARD, 1000, threads), 0) > 0,
                "{threads}"
            );
        }
    }
}
