//! Set-up beside another program that installs packages: dpkg's own refusal is waited out, and apt's as
//! well.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use mgb_tests::wait::until;
use rustix::fs::{FlockOperation, fcntl_lock};

/// A scratch checkout with set-up's script, a dpkg database of its own, and an apt-get that enters packages
/// there. Its first update finds the lists locked.
struct Machine(tempfile::TempDir);

const APT: &str = r#"#!/bin/sh
echo "$@" >>"$DPKG_ADMINDIR/calls"
case "$*" in
*update*)
    if ! [ -e "$DPKG_ADMINDIR/tried" ]; then
        touch "$DPKG_ADMINDIR/tried"
        echo "E: Could not get lock /var/lib/apt/lists/lock. It is held by process 7 (apt-get)" >&2
        exit 100
    fi ;;
*install*)
    printf 'Package: wanted\nStatus: install ok installed\nVersion: 1\n' >>"$DPKG_ADMINDIR/status"
    printf 'Architecture: all\nMaintainer: x\nDescription: x\n' \
        >>"$DPKG_ADMINDIR/status" ;;
esac
"#;

fn script(path: &Path, text: &str) {
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

impl Machine {
    fn new() -> Machine {
        let machine = Machine(tempfile::tempdir().unwrap());
        let own = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        for folder in ["tools", "bin", "dpkg/info", "dpkg/updates", "dpkg/triggers"] {
            fs::create_dir_all(machine.path(folder)).unwrap();
        }
        fs::copy(own.join("tools/setup.sh"), machine.path("tools/setup.sh")).unwrap();
        fs::copy(own.join("Cargo.toml"), machine.path("Cargo.toml")).unwrap();
        script(&machine.path("tools/cuda.sh"), "#!/bin/sh\necho /nowhere\n");
        script(&machine.path("bin/apt-get"), APT);
        // Where this is not run by root.
        script(&machine.path("bin/sudo"), "#!/bin/sh\nexec \"$@\"\n");
        for file in ["dpkg/status", "dpkg/available", "dpkg/calls"] {
            fs::write(machine.path(file), "").unwrap();
        }
        machine
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.0.path().join(name)
    }

    fn set_up(&self) -> Child {
        let path = std::env::var("PATH").unwrap();
        Command::new("sh")
            .arg(self.path("tools/setup.sh"))
            .arg("wanted")
            .env("PATH", format!("{}:{path}", self.path("bin").display()))
            .env("DPKG_ADMINDIR", self.path("dpkg"))
            .env_remove("CUDA_PATH")
            .stdout(Stdio::null())
            .spawn()
            .unwrap()
    }
}

/// Holds a lock of dpkg's as dpkg does, until it is dropped.
fn lock(file: &Path) -> File {
    let file = File::create(file).unwrap();
    fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive).unwrap();
    file
}

#[test]
fn set_up_waits_for_another_installation() {
    for name in ["lock-frontend", "lock"] {
        let machine = Machine::new();
        let held = lock(&machine.path("dpkg").join(name));
        let mut set_up = machine.set_up();
        let log = machine.path(".setup.log");
        until("dpkg is refused", || {
            let is_refused = fs::read_to_string(&log).is_ok_and(|text| text.contains("lock was locked"));
            (is_refused || !matches!(set_up.try_wait(), Ok(None))).then_some(())
        });
        assert!(matches!(set_up.try_wait(), Ok(None)), "{name}: set-up ended");
        drop(held);
        assert!(set_up.wait().unwrap().success(), "{name}");
        let calls = fs::read_to_string(machine.path("dpkg/calls")).unwrap();
        let calls: Vec<_> = calls.lines().map(|call| call.contains("update")).collect();
        assert_eq!(
            calls,
            [true, true, false],
            "{name}: the update again, then the installation"
        );
        assert!(!log.exists());
    }
}
