//! The package for systems with RPM.

use std::path::Path;

use rpm::{BuildConfig, CompressionType, Dependency, FileOptions, PackageBuilder};

use crate::Result;

use super::product::Product;

/// Writes the package into `dir`.
pub(super) fn write(product: &Product, dir: &Path) -> Result<()> {
    let (name, version, architecture) = (product.name, &product.version, std::env::consts::ARCH);
    let mut package = PackageBuilder::new(name, version, &product.licence, architecture, product.summary);
    // No time: equal contents make equal packages.
    package.using_config(BuildConfig::v4().compression(CompressionType::Gzip).source_date(0));
    package.description(product.description).build_host("loligo").url(&product.homepage);
    for needed in product.needs.of_rpm() {
        package.requires(Dependency::any(needed));
    }
    if let Some(recommended) = product.recommends {
        package.recommends(Dependency::any(recommended));
    }
    for file in &product.files {
        let options = FileOptions::new(format!("/{}", file.path)).permissions(u16::try_from(file.mode)?);
        package.with_file_contents(file.bytes.clone(), options)?;
    }
    Ok(package.build()?.write_file(dir.join(format!("{name}-{version}-1.{architecture}.rpm")))?)
}
