//! The licences of what is in a package: each text once, with the packages that come under it.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;

use cargo_metadata::Package;

use crate::Result;

use super::packages::Packages;

/// How the names of files with licences, or with what licences ask for, begin.
const NAMES: [&str; 5] = ["LICENSE", "LICENCE", "COPYING", "COPYRIGHT", "NOTICE"];

/// The licence of a package, as an expression of SPDX.
pub(super) fn expression(package: &Package) -> Result<String> {
    let named = package.license.as_deref();
    let named = named.ok_or_else(|| format!("{} {} names no licence", package.name, package.version))?;
    // Old packages separate the licences to choose from with a slash.
    Ok(named.replace('/', " OR "))
}

/// One text: the packages and their licences, then each text with the packages that have it.
pub(super) fn text(packages: &Packages) -> Result<String> {
    let mut list = String::from("What is in this package, and the licence of each part:\n\n");
    let mut texts: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for package in packages.iter() {
        let name = format!("{} {}", package.name, package.version);
        writeln!(list, "{name}: {}", expression(package)?)?;
        for text in texts_of(package)? {
            texts.entry(text).or_default().push(name.clone());
        }
    }
    for (text, names) in texts {
        write!(list, "\n{}\n{}\n\n{}\n", "=".repeat(80), names.join(", "), text.trim_end())?;
    }
    Ok(list)
}

/// The texts in the folder of a package.
fn texts_of(package: &Package) -> Result<Vec<String>> {
    let folder = package.manifest_path.parent().ok_or("a manifest lies in a folder")?;
    let mut texts = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().to_uppercase();
        if NAMES.iter().any(|start| name.starts_with(start)) && entry.file_type()?.is_file() {
            texts.push(String::from_utf8_lossy(&fs::read(entry.path())?).into_owned());
        }
    }
    texts.sort();
    Ok(texts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_package_is_named_and_texts_are_there_once() {
        let packages = Packages::of("loligo").expect("cargo metadata works");
        let text = text(&packages).expect("a text");
        for package in packages.iter() {
            assert!(text.contains(&format!("{} {}: ", package.name, package.version)), "{}", package.name);
        }
        let separators = text.matches(&"=".repeat(80)).count();
        assert!(separators > 20, "many packages bring a text of their own; there are {separators}");
    }
}
