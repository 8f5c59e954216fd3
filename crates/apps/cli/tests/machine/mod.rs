//! A machine in qemu, without disk and network, that boots a kernel of Debian's. Its init is a script.

mod kernel;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

pub(crate) use kernel::Linux;

/// The program that was built with the tests. LOLIGO_BIN names another one, for example an optimised one.
const LOLIGO: &str = env!("CARGO_BIN_EXE_loligo");

/// What runs the machine, on the PATH.
const QEMU: &str = "qemu-system-x86_64";

/// What scripts begin with. Each step prints its command first, so that the last line names the failed one.
const BEGINNING: &str = r#"#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin
mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t devtmpfs dev /dev
fail() { echo "FAILED: $*"; dmesg | tail -n 40; poweroff -f; }
try() { echo "try: $*"; "$@" || fail "$*"; }
refused() { said=$(loligo "$@" 2>&1) && fail "was not refused: $*"; echo "refused: $said"; }
forget() { sync; echo 3 > /proc/sys/vm/drop_caches; }
ip link set lo up
"#;

/// What scripts end with.
const END: &str = "echo \"all is well\"\npoweroff -f\n";

/// A machine that does not run yet.
pub(crate) struct Machine {
    dir: PathBuf,
    root: PathBuf,
    kernel: PathBuf,
}

impl Machine {
    /// A machine whose init is this script, with `busybox` and `loligo`. `name` is unique among tests. If
    /// something that it needs is missing here, says so and returns nothing.
    pub(crate) fn new(name: &str, linux: Linux, script: &str) -> Option<Self> {
        let needed = [QEMU, "busybox", "strip", "ldd"];
        if let Some(missing) = needed.into_iter().find(|program| found_on_path(program).is_none()) {
            skipped(&format!("{missing} is not installed, for tests with a kernel of their own"));
            return None;
        }
        let kernel = match linux.folder() {
            Ok(folder) => folder,
            Err(why) => {
                skipped(&format!("no kernel for tests with one of their own: {why}"));
                return None;
            }
        };
        let dir = env::temp_dir().join(format!("loligo-{name}.{}", std::process::id()));
        let root = dir.join("root");
        for folder in ["bin", "dev", "proc", "sys", "tmp"] {
            fs::create_dir_all(root.join(folder)).expect("room");
        }
        let machine = Self { dir, root, kernel };
        machine.add("init", format!("{BEGINNING}{script}{END}"));
        done(Command::new("chmod").arg("755").arg(machine.root.join("init")));
        let loligo = env::var_os("LOLIGO_BIN").unwrap_or_else(|| LOLIGO.into());
        done(Command::new("strip").arg("-o").arg(machine.root.join("bin/loligo")).arg(loligo));
        machine.add_libraries("loligo");
        machine.add_program("busybox");
        Some(machine)
    }

    /// Adds a file at the top.
    pub(crate) fn add(&self, name: &str, content: impl AsRef<[u8]>) {
        fs::write(self.root.join(name), content).expect("room");
    }

    /// Adds a program that is installed here, and its libraries.
    pub(crate) fn add_program(&self, name: &str) {
        let path = found_on_path(name).unwrap_or_else(|| panic!("{name} is installed"));
        fs::copy(path, self.root.join("bin").join(name)).expect("room");
        self.add_libraries(name);
    }

    /// Adds a script that is called as a program.
    #[allow(dead_code, reason = "not each test needs one")]
    pub(crate) fn add_script(&self, name: &str, text: &str) {
        let program = self.root.join("bin").join(name);
        fs::write(&program, text).expect("room");
        done(Command::new("chmod").arg("755").arg(program));
    }

    /// Adds modules of the kernel at the top, as `NAME.ko`, and the list `modules` of their names. What the
    /// kernel has built in is left out.
    pub(crate) fn add_modules(&self, names: &[&str]) {
        let mut added = Vec::new();
        for name in names {
            let Some(path) = kernel::found(&self.kernel, &format!("{name}.ko")) else { continue };
            let to = self.root.join(format!("{name}.ko"));
            if path.extension().is_some_and(|end| end == "xz") {
                let unpack = "busybox xzcat \"$0\" > \"$1\"";
                done(Command::new("sh").args(["-c", unpack]).arg(path).arg(to));
            } else {
                fs::copy(path, to).expect("it is part of the package");
            }
            added.push(*name);
        }
        self.add("modules", added.join(" "));
    }

    /// Adds the shared libraries of a program of the machine, and the loader.
    fn add_libraries(&self, program: &str) {
        for library in libraries(&self.root.join("bin").join(program)) {
            let inside = self.root.join(library.strip_prefix("/").expect("it is absolute"));
            fs::create_dir_all(inside.parent().expect("it lies in a folder")).expect("room");
            fs::copy(&library, inside).expect("it was found");
        }
    }

    /// Runs the machine, and returns what it said; it must have come to the end of its script. It is
    /// emulated, so that it is the same everywhere.
    pub(crate) fn run(self, seconds_max: u32) -> String {
        let pack = "find . | busybox cpio -o -H newc > ../initramfs 2>/dev/null";
        done(Command::new("sh").args(["-c", pack]).current_dir(&self.root));
        let kernel = kernel::found(&self.kernel, "vmlinuz-").expect("it is part of the package");
        let mut machine = Command::new("timeout");
        machine.arg(seconds_max.to_string());
        machine.args([QEMU, "-machine", "q35,accel=tcg", "-cpu", "max", "-m", "1500M", "-smp", "2"]);
        machine.args(["-nographic", "-no-reboot", "-nodefaults", "-serial", "stdio"]);
        machine.arg("-kernel").arg(kernel).arg("-initrd").arg(self.dir.join("initramfs"));
        machine.args(["-append", "console=ttyS0 quiet panic=-1 no_timer_check"]);
        let output = machine.output().expect("it is installed");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        fs::remove_dir_all(&self.dir).expect("it is ours");
        assert!(said.contains("all is well") && !said.contains("FAILED"), "{said}");
        said
    }
}

/// Prints why a test was skipped. It does not use `eprintln!`, whose output is hidden for tests that
/// pass: `cargo xtask test` counts such lines.
pub(crate) fn skipped(why: &str) {
    let _ = std::io::Write::write_all(&mut std::io::stderr(), format!("skipped: {why}\n").as_bytes());
}

pub(crate) fn found_on_path(program: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).map(|dir| dir.join(program)).find(|path| path.is_file())
}

/// Returns the shared libraries of a program, and the loader.
fn libraries(program: &Path) -> BTreeSet<PathBuf> {
    // `ldd` fails for a statically linked program, which needs no library.
    let output = Command::new("ldd").arg(program).output().expect("it is part of the C library");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    said.split_whitespace().filter(|word| word.starts_with('/')).map(PathBuf::from).collect()
}

fn done(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}
