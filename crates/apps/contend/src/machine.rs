//! Facts about the machine on which the figures were measured.

use std::fmt;
use std::fs;
use std::thread;

/// The machine and build on which figures were measured.
#[derive(Clone, Debug)]
pub struct Machine {
    /// Processors that this process may use.
    pub cores: usize,
    /// The processor's name, if the system reports it.
    pub cpu: String,
    /// The kernel's release.
    pub kernel: String,
    /// This program's version.
    pub version: &'static str,
    /// A debug build, with checks of locks and overflows: its figures do not show speed.
    pub is_debug: bool,
}

impl Machine {
    /// Describes the machine of this process.
    pub fn this() -> Self {
        let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let model = cpuinfo.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
        let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        Self {
            cores: thread::available_parallelism().map_or(1, usize::from),
            cpu: model.map_or("unknown processor", |(_, name)| name.trim()).to_owned(),
            kernel: kernel.trim().to_owned(),
            version: env!("CARGO_PKG_VERSION"),
            is_debug: cfg!(debug_assertions),
        }
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { cores, cpu, kernel, version, is_debug } = self;
        let plural = if *cores == 1 { "" } else { "s" };
        write!(f, "{cores} core{plural}, {cpu}, Linux {kernel}, loligo {version}")?;
        if *is_debug {
            f.write_str(" (debug build: the figures say nothing about speed)")?;
        }
        Ok(())
    }
}
