//! What programs register: images with translated code, kernels by their host stubs, variables by
//! their host shadows.
//!
//! An image may come before or after the CUDA runtime's own registration of the same kernels, so the
//! two are joined when a kernel is first asked for. The image of device code that was linked across files
//! has no stubs and no shadows: its kernels and variables are found by their names, among those of the same
//! program or library.

use std::collections::HashMap;
use std::ffi::CStr;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, LazyLock};

use parking_lot::RwLock;

use crate::config::profile::Profile;
use crate::error::{Error, Result, c_str, say_once};
use crate::image::{self, Image, Kernel, Variable};

/// A kernel, as a launch finds it.
pub struct KernelFunction {
    /// Its host stub.
    pub stub: usize,
    /// Its mangled name.
    pub name: String,
    /// Its translated code; `None` if its program brought none.
    pub code: Option<TranslatedCode>,
    /// `cudaFuncAttributeMaxDynamicSharedMemorySize`, once set.
    pub dynamic_shared: AtomicI32,
}

/// The translated code of a kernel.
#[derive(Clone, Copy)]
pub struct TranslatedCode {
    /// The translation unit.
    pub image: &'static Image,
    /// The kernel in it.
    pub kernel: &'static Kernel,
}

/// By name, each with where the program or library begins that it came with.
type Named<T> = HashMap<String, Vec<(usize, T)>>;

#[derive(Default)]
struct Registry {
    names: HashMap<usize, String>,
    codes: HashMap<usize, TranslatedCode>,
    functions: HashMap<usize, Arc<KernelFunction>>,
    variables: HashMap<usize, (&'static Image, &'static Variable)>,
    /// Kernels and variables without a host side.
    named_codes: Named<TranslatedCode>,
    named_variables: Named<(&'static Image, &'static Variable)>,
    shadows: HashMap<usize, String>,
}

static REGISTRY: LazyLock<RwLock<Registry>> = LazyLock::new(RwLock::default);

/// Takes an image's kernels and variables.
///
/// # Safety
/// The image, and all it points to, is as the header says and stays for the life of the process.
pub unsafe fn add_image(image: &'static Image) {
    if image.version != image::VERSION {
        // SAFETY: `source` is null or a constant string: contract of `add_image`.
        let source = unsafe { c_str(image.source) }.unwrap_or(c"?").to_string_lossy();
        say_once(&format!(
            "{source} was translated for version {} of the software GPU, this is version {}: build it again",
            image.version,
            image::VERSION
        ));
        return;
    }
    let mut registry = REGISTRY.write();
    // SAFETY: the arrays have as many elements as the image says: contract of `add_image`.
    let (kernels, variables) = unsafe {
        (
            image::slice(image.kernels, image.kernel_count),
            image::slice(image.variables, image.variable_count),
        )
    };
    let file = file_of(std::ptr::from_ref(image) as usize);
    for kernel in kernels {
        let code = TranslatedCode { image, kernel };
        if kernel.stub.is_null() {
            // SAFETY: a constant string: contract of `add_image`.
            let name = unsafe { name(kernel.name) };
            registry.named_codes.entry(name).or_default().push((file, code));
            continue;
        }
        registry.codes.insert(kernel.stub as usize, code);
        registry.functions.remove(&(kernel.stub as usize));
    }
    for variable in variables {
        if variable.host.is_null() {
            // SAFETY: a constant string: contract of `add_image`.
            let name = unsafe { name(variable.name) };
            let found = (file, (image, variable));
            registry.named_variables.entry(name).or_default().push(found);
            continue;
        }
        registry
            .variables
            .insert(variable.host as usize, (image, variable));
    }
}

/// The program or library that an address lies in: where it begins; 0 for none.
fn file_of(address: usize) -> usize {
    // SAFETY: plain values, for which zeros are valid.
    let mut found: libc::Dl_info = unsafe { std::mem::zeroed() };
    // SAFETY: looks the address up, and does not touch what lies there.
    match unsafe { libc::dladdr(address as *const _, &mut found) } {
        0 => 0,
        _ => found.dli_fbase as usize,
    }
}

/// The only one that came with the file which the address lies in.
fn beside<T: Copy>(all: Option<&Vec<(usize, T)>>, address: usize) -> Option<T> {
    let file = file_of(address);
    let mut found = all?.iter().filter(|(there, _)| *there == file);
    let (_, only) = found.next()?;
    found.next().is_none().then_some(*only)
}

/// # Safety
/// Null or a C string.
unsafe fn name(text: *const std::ffi::c_char) -> String {
    // SAFETY: contract of this function.
    unsafe { c_str(text) }
        .unwrap_or(c"?")
        .to_string_lossy()
        .into_owned()
}

/// `__cudaRegisterFunction`.
pub fn add_function(stub: usize, name: &CStr) {
    let mut registry = REGISTRY.write();
    registry.names.insert(stub, name.to_string_lossy().into_owned());
    registry.functions.remove(&stub);
}

/// `__cudaRegisterVar`.
pub fn add_shadow(host: usize, name: &CStr) {
    REGISTRY
        .write()
        .shadows
        .insert(host, name.to_string_lossy().into_owned());
}

/// `__cudaUnregisterFatBinary`: what a module registered is gone.
pub fn remove(stubs: &[usize], shadows: &[usize]) {
    let mut registry = REGISTRY.write();
    for stub in stubs {
        registry.names.remove(stub);
        registry.codes.remove(stub);
        registry.functions.remove(stub);
    }
    for host in shadows {
        registry.shadows.remove(host);
        registry.variables.remove(host);
    }
    let gone: Vec<usize> = [stubs, shadows].concat().into_iter().map(file_of).collect();
    let stays = |file: usize| !gone.contains(&file);
    registry
        .named_codes
        .values_mut()
        .for_each(|all| all.retain(|(file, _)| stays(*file)));
    registry
        .named_variables
        .values_mut()
        .for_each(|all| all.retain(|(file, _)| stays(*file)));
}

/// The kernel that a host stub launches.
///
/// # Errors
/// `INVALID_HANDLE` if nobody registered it.
pub fn function(stub: usize) -> Result<Arc<KernelFunction>> {
    if let Some(function) = REGISTRY.read().functions.get(&stub) {
        return Ok(function.clone());
    }
    let mut registry = REGISTRY.write();
    let code = registry.codes.get(&stub).copied();
    let name = match (registry.names.get(&stub), code) {
        (Some(name), _) => name.clone(),
        // SAFETY: a constant string of a registered image.
        (None, Some(code)) => unsafe { name(code.kernel.name) },
        (None, None) => return Err(Error::INVALID_HANDLE),
    };
    let code = code.or_else(|| beside(registry.named_codes.get(&name), stub));
    let function = Arc::new(KernelFunction {
        stub,
        name,
        code,
        dynamic_shared: AtomicI32::new(0),
    });
    registry.functions.insert(stub, function.clone());
    Ok(function)
}

/// The variable that a host shadow stands for.
///
/// # Errors
/// `INVALID_SYMBOL` if none.
pub fn variable(host: usize) -> Result<(&'static Image, &'static Variable)> {
    let registry = REGISTRY.read();
    if let Some(&found) = registry.variables.get(&host) {
        return Ok(found);
    }
    if let Some(name) = registry.shadows.get(&host) {
        if let Some(found) = beside(registry.named_variables.get(name), host) {
            return Ok(found);
        }
        say_once(&format!("variable {name} has no translated module: {REBUILD}"));
    }
    Err(Error::INVALID_SYMBOL)
}

/// Says that a managed variable cannot be served: nvcc compiled it, and its value is in device code.
pub fn refuse_managed(name: &str) {
    say_once(&format!(
        "managed variable {name} has no translated module, and is zero: run the program on a real GPU, or use \
         cudaMallocManaged in its place and {REBUILD}"
    ));
}

const REBUILD: &str = "build the program with mgb clang, which brings host code for the software GPU";

impl KernelFunction {
    /// The code to run.
    ///
    /// # Errors
    /// `INVALID_DEVICE_FUNCTION` if the program brought none, `NOT_SUPPORTED` if the kernel could not be
    /// translated; each after a line on stderr that says so.
    pub fn runnable(&self) -> Result<(TranslatedCode, image::KernelEntry)> {
        let Some(code) = self.code else {
            say_once(&format!("kernel {} has no host code: {REBUILD}", self.name));
            return Err(Error::INVALID_DEVICE_FUNCTION);
        };
        let Some(entry) = code.kernel.entry else {
            // SAFETY: null or a constant string of a registered image.
            let why = unsafe { c_str(code.kernel.error) }.unwrap_or(c"it could not be translated");
            say_once(&format!(
                "kernel {} cannot run: {}",
                self.name,
                why.to_string_lossy()
            ));
            return Err(Error::NOT_SUPPORTED);
        };
        Ok((code, entry))
    }

    /// Most bytes of dynamic shared memory that a launch may ask for.
    pub fn dynamic_shared_limit(&self, profile: &Profile) -> u32 {
        let fixed = self.code.map_or(0, |code| code.kernel.static_shared);
        let standard = profile.shared_per_block.saturating_sub(fixed);
        standard.max(self.dynamic_shared.load(Ordering::Relaxed) as u32)
    }
}
