//! The shared object: what it is called, what it exports, and with which versions.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The static library that this test's build has made.
fn library() -> PathBuf {
    let deps = std::env::current_exe().unwrap().parent().unwrap().to_owned();
    let newest = std::fs::read_dir(deps)
        .unwrap()
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| {
            let name = path
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            name.starts_with("libsoftgpu") && name.ends_with(".a")
        });
    newest
        .max_by_key(|path| path.metadata().unwrap().modified().unwrap())
        .expect("the static library is built")
}

fn link(folder: &Path) -> PathBuf {
    let object = folder.join("libcudart.so.13");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("link.sh");
    let status = Command::new(script).arg(folder).arg(library()).status().unwrap();
    assert!(status.success());
    object
}

fn tool(name: &str, arguments: &[&str], object: &Path) -> String {
    let output = Command::new(name).args(arguments).arg(object).output().unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_object_exports_all_of_libcudart_with_its_versions() {
    let folder = tempfile::tempdir().unwrap();
    let object = link(folder.path());
    let listing = tool("nm", &["-D", "--with-symbol-versions", "--defined-only"], &object);
    let symbols: BTreeMap<&str, &str> = listing
        .lines()
        .filter_map(|line| line.split_whitespace().nth(2)?.split_once("@@"))
        .collect();
    for entry in mgb_catalogue::all().iter().filter(|entry| entry.exported) {
        assert_eq!(
            symbols.get(entry.name),
            Some(&"libcudart.so.13"),
            "{}",
            entry.name
        );
    }
    let runtime = symbols
        .iter()
        .filter(|(_, version)| **version == "libcudart.so.13")
        .count();
    assert_eq!(
        runtime,
        mgb_catalogue::all().iter().filter(|entry| entry.exported).count()
    );
    let ours = |name: &&str| name.starts_with("cu") || name.starts_with("__cuda") || name.starts_with("nvml");
    let others: Vec<_> = symbols.keys().filter(|name| !ours(name)).collect();
    let own = [&"__softgpuRegisterImage", &"softgpuDeviceGetContextBytes"];
    assert_eq!(others, own, "nothing of Rust's shows");
    for name in DRIVER.iter().chain(NVML) {
        assert!(symbols.contains_key(name), "{name}");
    }
    let dynamic = tool("readelf", &["-d", "--wide"], &object);
    assert!(dynamic.contains("Library soname: [libcudart.so.13]"), "{dynamic}");
    assert!(dynamic.contains("NODELETE"), "{dynamic}");
}

/// What lazyrt asks the driver for.
const DRIVER: &[&str] = &[
    "cuInit",
    "cuDriverGetVersion",
    "cuDeviceGetCount",
    "cuDeviceGet",
    "cuDeviceGetUuid",
    "cuDeviceGetUuid_v2",
    "cuDeviceGetAttribute",
    "cuDeviceGetName",
    "cuDeviceTotalMem_v2",
    "cuMemGetAllocationGranularity",
    "cuMemAddressReserve",
    "cuMemAddressFree",
    "cuMemCreate",
    "cuMemRelease",
    "cuMemMap",
    "cuMemUnmap",
    "cuMemSetAccess",
    "cuMemGetInfo_v2",
    "cuDevicePrimaryCtxRetain",
    "cuDevicePrimaryCtxGetState",
    "cuDevicePrimaryCtxRelease_v2",
    "cuCtxGetCurrent",
    "cuCtxSetCurrent",
    "cuCtxSynchronize",
    "cuMemcpyHtoD_v2",
    "cuMemcpyDtoH_v2",
    "cuMemcpyDtoD_v2",
    "cuMemsetD8_v2",
    "cuGetErrorName",
    "cuGetErrorString",
    "cuGetProcAddress_v2",
];

/// What nvml-wrapper asks for in mgbd.
const NVML: &[&str] = &[
    "nvmlInit_v2",
    "nvmlShutdown",
    "nvmlErrorString",
    "nvmlSystemGetDriverVersion",
    "nvmlDeviceGetCount_v2",
    "nvmlDeviceGetHandleByIndex_v2",
    "nvmlDeviceGetHandleByUUID",
    "nvmlDeviceGetUUID",
    "nvmlDeviceGetName",
    "nvmlDeviceGetMemoryInfo",
    "nvmlDeviceGetMemoryInfo_v2",
    "nvmlDeviceGetComputeRunningProcesses_v3",
    "nvmlDeviceGetUtilizationRates",
];
