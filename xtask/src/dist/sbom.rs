//! The list of what is in the program, or in the libraries, in the form CycloneDX 1.5.

use cargo_metadata::{Package, PackageId};
use cyclonedx_bom::external_models::spdx::SpdxExpression;
use cyclonedx_bom::models::component::{Classification, Component, Components};
use cyclonedx_bom::models::dependency::{Dependencies, Dependency};
use cyclonedx_bom::models::license::{LicenseChoice, Licenses};
use cyclonedx_bom::models::metadata::Metadata;
use cyclonedx_bom::prelude::{Bom, Purl, SpecVersion, Validate};

use crate::Result;

use super::licences;
use super::packages::Packages;

/// The list as JSON. It has no time and no random number in it: equal programs have equal lists.
pub(super) fn json(packages: &Packages) -> Result<Vec<u8>> {
    let root = packages.root()?;
    let others = packages.iter().filter(|package| package.id != root.id);
    let kind =
        if root.name.as_str() == "loligo" { Classification::Application } else { Classification::Library };
    let bom = Bom {
        // The default is a random number.
        serial_number: None,
        metadata: Some(Metadata { component: Some(component(kind, root)?), ..Metadata::default() }),
        components: Some(Components(
            others.map(|package| component(Classification::Library, package)).collect::<Result<_>>()?,
        )),
        dependencies: Some(Dependencies(
            packages.iter().map(|package| dependency(packages, package)).collect::<Result<_>>()?,
        )),
        ..Bom::default()
    };
    let valid = bom.validate_version(SpecVersion::V1_5);
    if !valid.passed() {
        return Err(format!("the list of what is in {} is not valid: {valid:?}", root.name).into());
    }
    let mut json = Vec::new();
    bom.output_as_json_v1_5(&mut json)?;
    json.push(b'\n');
    Ok(json)
}

fn component(kind: Classification, package: &Package) -> Result<Component> {
    let (name, version) = (package.name.as_str(), package.version.to_string());
    let mut component = Component::new(kind, name, &version, Some(reference(package)));
    component.purl = Some(Purl::new("cargo", name, &version)?);
    let licence = SpdxExpression::try_from(licences::expression(package)?)?;
    component.licenses = Some(Licenses(vec![LicenseChoice::Expression(licence)]));
    Ok(component)
}

fn dependency(packages: &Packages, package: &Package) -> Result<Dependency> {
    let named = |id: &PackageId| packages.iter().find(|package| package.id == *id).map(reference);
    Ok(Dependency {
        dependency_ref: reference(package),
        dependencies: packages.used_by(&package.id)?.into_iter().filter_map(named).collect(),
    })
}

/// What the list calls a package. The ids of cargo have folders of this machine in them.
fn reference(package: &Package) -> String {
    format!("{}@{}", package.name, package.version)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use serde_json::Value;

    use super::*;

    #[test]
    fn the_list_is_the_same_twice_and_names_no_folder() {
        let packages = Packages::of("loligo").expect("cargo metadata works");
        let list = json(&packages).expect("a list");
        assert!(list == json(&packages).expect("a list"), "two runs make one list");
        let text = String::from_utf8(list).expect("JSON");
        assert!(!text.contains(env!("CARGO_MANIFEST_DIR")), "it names a folder of this machine");
        let parsed: Value = serde_json::from_str(&text).expect("JSON");
        let components = parsed["components"].as_array().expect("components");
        let names: HashSet<_> = components.iter().map(|component| &component["bom-ref"]).collect();
        assert_eq!(names.len(), components.len(), "each package is there once");
        assert!(components.iter().all(|component| component["licenses"][0]["expression"].is_string()));
    }
}
