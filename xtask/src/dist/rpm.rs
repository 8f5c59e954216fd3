//! The package for systems with RPM.

use std::path::Path;

use cargo_metadata::Package;
use rpm::{BuildConfig, CompressionType, FileOptions, PackageBuilder};

use crate::Result;

use super::contents::Installed;
use super::deb::{DESCRIPTION, SUMMARY};
use super::licences;

/// Writes the package into `dir`.
pub(super) fn write(about: &Package, contents: &[Installed], dir: &Path) -> Result<()> {
    let (version, architecture) = (about.version.to_string(), std::env::consts::ARCH);
    let mut package =
        PackageBuilder::new("loligo", &version, &licences::expression(about)?, architecture, SUMMARY);
    // No time: equal contents make equal packages.
    package.using_config(BuildConfig::v4().compression(CompressionType::Gzip).source_date(0));
    package.description(DESCRIPTION).build_host("loligo");
    if let Some(url) = &about.repository {
        package.url(url);
    }
    for file in contents {
        let options = FileOptions::new(format!("/{}", file.path)).permissions(u16::try_from(file.mode)?);
        package.with_file_contents(file.bytes.clone(), options)?;
    }
    Ok(package.build()?.write_file(dir.join(format!("loligo-{version}-1.{architecture}.rpm")))?)
}
