//! What programs register: images with translated code, kernels by their host stubs, variables by
//! their host shadows.
//!
//! An image may come before or after the CUDA runtime's own registration of the same kernels, so the
//! two are joined when a kernel is first asked for.

use std::collections::HashMap;
use std::ffi::CStr;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, LazyLock};

use parking_lot::RwLock;

use crate::config::profile::Profile;
use crate::error::{Error, Result, c_str, say_once};
use crate::image::{self, Image, Kernel, Variable};

/// A kernel, as a launch finds it.
pub struct Function {
    /// Its host stub.
    pub stub: usize,
    /// Its mangled name.
    pub name: String,
    /// Its translated code; `None` if its program brought none.
    pub code: Option<Code>,
    /// `cudaFuncAttributeMaxDynamicSharedMemorySize`, once set.
    pub dynamic_shared: AtomicI32,
}

/// Translated code.
#[derive(Clone, Copy)]
pub struct Code {
    /// The translation unit.
    pub image: &'static Image,
    /// The kernel in it.
    pub kernel: &'static Kernel,
}

#[derive(Default)]
struct Registry {
    names: HashMap<usize, String>,
    codes: HashMap<usize, Code>,
    functions: HashMap<usize, Arc<Function>>,
    variables: HashMap<usize, (&'static Image, &'static Variable)>,
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
    for kernel in kernels {
        registry
            .codes
            .insert(kernel.stub as usize, Code { image, kernel });
        registry.functions.remove(&(kernel.stub as usize));
    }
    for variable in variables.iter().filter(|variable| !variable.host.is_null()) {
        registry
            .variables
            .insert(variable.host as usize, (image, variable));
    }
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
}

/// The kernel that a host stub launches.
///
/// # Errors
/// `INVALID_HANDLE` if nobody registered it.
pub fn function(stub: usize) -> Result<Arc<Function>> {
    if let Some(function) = REGISTRY.read().functions.get(&stub) {
        return Ok(function.clone());
    }
    let mut registry = REGISTRY.write();
    let code = registry.codes.get(&stub).copied();
    let name = match (registry.names.get(&stub), code) {
        (Some(name), _) => name.clone(),
        // SAFETY: a constant string of a registered image.
        (None, Some(code)) => unsafe { c_str(code.kernel.name) }
            .unwrap_or(c"?")
            .to_string_lossy()
            .into_owned(),
        (None, None) => return Err(Error::INVALID_HANDLE),
    };
    let function = Arc::new(Function {
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
        say_once(&format!("variable {name} has no translated module: {REBUILD}"));
    }
    Err(Error::INVALID_SYMBOL)
}

const REBUILD: &str = "build the program with mgb clang, which brings host code for the software GPU";

impl Function {
    /// The code to run.
    ///
    /// # Errors
    /// `INVALID_DEVICE_FUNCTION` if the program brought none, `NOT_SUPPORTED` if the kernel could not be
    /// translated; each after a line on stderr that says so.
    pub fn runnable(&self) -> Result<(Code, image::Entry)> {
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
