//! The shared libraries that a file is linked with, and the packages that have them.

use std::path::Path;
use std::process::Command;

use crate::Result;
use crate::process::output_of;

/// What must be installed for a file to be loaded.
#[derive(Default, Debug, PartialEq, Eq)]
pub(super) struct Needs {
    /// The newest version of the C library whose functions are used.
    glibc: Option<Version>,
    /// Whether the compiler's library is needed, which unwinds the stack.
    gcc: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Version {
    major: u32,
    minor: u32,
}

/// The parts of the C library, each a file of its own.
const OF_GLIBC: [&str; 4] = ["libc.so.6", "libm.so.6", "libpthread.so.0", "libdl.so.2"];

impl Needs {
    /// What a shared library or a program needs.
    pub(super) fn of(file: &Path) -> Result<Self> {
        let mut readelf = Command::new("readelf");
        let text = output_of(readelf.args(["-W", "--dynamic", "--version-info"]).arg(file))?;
        Self::read(&text).map_err(|why| format!("{}: {why}", file.display()).into())
    }

    fn read(readelf: &str) -> Result<Self> {
        let mut needs = Self::default();
        for line in readelf.lines() {
            if let Some(name) = line.split_once("Shared library: [").map(|(_, rest)| rest) {
                match name.trim_end_matches(']') {
                    "libgcc_s.so.1" => needs.gcc = true,
                    name if OF_GLIBC.contains(&name) || name.starts_with("ld-linux") => {}
                    other => return Err(format!("no package is known here that has {other}").into()),
                }
            }
            needs.glibc = needs.glibc.max(version(line));
        }
        Ok(needs)
    }

    /// Debian's packages, for the field `Depends`.
    pub(super) fn of_debian(&self) -> Vec<String> {
        let glibc = self.glibc.map(|version| format!("libc6 (>= {}.{})", version.major, version.minor));
        glibc.into_iter().chain(self.gcc.then(|| "libgcc-s1".to_owned())).collect()
    }

    /// What packages of RPM provide under these names, on every distribution.
    pub(super) fn of_rpm(&self) -> Vec<String> {
        let libc = |version: Version| format!("libc.so.6(GLIBC_{}.{})(64bit)", version.major, version.minor);
        let gcc = self.gcc.then(|| "libgcc_s.so.1()(64bit)".to_owned());
        self.glibc.map(libc).into_iter().chain(gcc).collect()
    }
}

/// The version that a line of the section `.gnu.version_r` names: `… Name: GLIBC_2.34  Flags: …`.
fn version(line: &str) -> Option<Version> {
    let (_, name) = line.split_once("Name: GLIBC_")?;
    let mut numbers = name.split_whitespace().next()?.split('.').map(str::parse);
    Some(Version { major: numbers.next()?.ok()?, minor: numbers.next()?.ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
 0x0000000000000001 (NEEDED)             Shared library: [libgcc_s.so.1]
 0x0000000000000001 (NEEDED)             Shared library: [libc.so.6]
  0x0010:   Name: GCC_3.0  Flags: none  Version: 13
  0x0150:   Name: GLIBC_2.9  Flags: none  Version: 9
  0x0160:   Name: GLIBC_2.34  Flags: none  Version: 3
  0x0170:   Name: GLIBC_2.2.5  Flags: none  Version: 2
";

    #[test]
    fn the_newest_version_counts() {
        let needs = Needs::read(TEXT).expect("known libraries");
        assert_eq!(needs.of_debian(), ["libc6 (>= 2.34)", "libgcc-s1"]);
        assert_eq!(needs.of_rpm(), ["libc.so.6(GLIBC_2.34)(64bit)", "libgcc_s.so.1()(64bit)"]);
    }

    #[test]
    fn a_static_program_needs_nothing() {
        let needs = Needs::read("There is no dynamic section in this file.\n").expect("nothing");
        assert_eq!(needs, Needs::default());
        assert!(needs.of_debian().is_empty() && needs.of_rpm().is_empty());
    }

    #[test]
    fn an_unknown_library_is_refused_by_name() {
        let why =
            Needs::read(" (NEEDED)  Shared library: [libboost.so.1]\n").expect_err("unknown").to_string();
        assert!(why.contains("libboost.so.1"), "{why}");
    }
}
