//! Checksums of the files that are handed out, as `sha256sum -c SHA256SUMS` reads them.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use sha2::{Digest, Sha256};

use crate::Result;

const SUMS: &str = "SHA256SUMS";

/// A line for each file in the folder and in the folders in it.
pub(super) fn of_files(dir: &Path) -> Result<String> {
    let mut sums = String::new();
    for name in files(dir)? {
        writeln!(sums, "{}  {name}", sha256(&fs::read(dir.join(&name))?))?;
    }
    Ok(sums)
}

/// The names of all files but the sums', in the order of their bytes.
pub(super) fn files(dir: &Path) -> Result<Vec<String>> {
    let mut names = Vec::new();
    collect(dir, "", &mut names)?;
    names.retain(|name| name != SUMS);
    names.sort();
    Ok(names)
}

fn collect(dir: &Path, within: &str, names: &mut Vec<String>) -> Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let name = format!("{within}{}", entry.file_name().to_string_lossy());
        if entry.file_type()?.is_dir() {
            collect(&entry.path(), &format!("{name}/"), names)?;
        } else {
            names.push(name);
        }
    }
    Ok(())
}

pub(super) fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}
