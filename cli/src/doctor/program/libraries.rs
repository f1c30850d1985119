//! Libraries that use a GPU without the driver's `libcuda.so.1`, or that limit how a GPU is shared.

use mgb_command::check_result::Finding;

use super::facts::Executable;

/// They come to the GPU without `libcuda.so.1`.
const PAST: [(&str, &str); 5] = [
    ("libOpenCL.so", "OpenCL"),
    ("libvulkan.so", "Vulkan"),
    ("libGL.so", "OpenGL"),
    ("libGLX.so", "OpenGL"),
    ("libEGL.so", "OpenGL"),
];
/// Their memory is open to other processes or devices, so that it stays where it is.
const SHARING: [&str; 3] = ["libnccl", "libnvshmem", "libcufile"];

/// Checks the libraries of the program.
pub fn check(program: &Executable) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut said = Vec::new();
    for object in program.objects.iter().skip(1) {
        let name = object.file_name();
        if let Some((_, interface)) = PAST.iter().find(|(start, _)| name.starts_with(start)) {
            if said.contains(interface) {
                continue;
            }
            said.push(*interface);
            let text = format!(
                "{name}: memory that it takes by {interface} does not wait for room; mgbd sees it once it is taken"
            );
            findings.push(Finding::note("libraries", text));
        }
        if SHARING.iter().any(|start| name.starts_with(start)) {
            let text =
                format!("{name} shares memory with other processes or devices: that memory is never swapped");
            findings.push(Finding::note("libraries", text));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use mgb_command::check_result::Severity::Note;
    use mgb_command::check_result::expect;

    use super::super::facts::samples::{executable, object};
    use super::*;

    #[test]
    fn known_libraries_are_named_once() {
        let names = [
            "app",
            "libOpenCL.so.1",
            "libnccl.so.2",
            "libGL.so.1",
            "libGLX.so.0",
            "libm.so.6",
        ];
        let found = check(&executable(names.map(|name| object(name, &[])).into()));
        expect(&found, "libraries", Note, &["libOpenCL.so.1", "does not wait"]);
        assert!(
            found
                .iter()
                .any(|finding| finding.text.contains("libnccl.so.2 shares"))
        );
        assert_eq!(found.len(), 3, "{found:#?}");
    }
}
