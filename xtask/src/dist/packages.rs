//! The packages that are in the program, or in the libraries: own crates and all that they use, as cargo
//! resolves them.
//!
//! Cargo resolves the whole workspace at once, so that a package which only tests switch on as a feature of
//! another one is listed too: the list may name a package too many, and lacks none.

use std::collections::{BTreeSet, HashMap};

use cargo_metadata::{DependencyKind, Metadata, MetadataCommand, Node, Package, PackageId};

use crate::Result;
use crate::process::workspace;

use super::program;

/// The packages in what is built of one, in the order of names and versions.
pub(super) struct Packages {
    metadata: Metadata,
    root: PackageId,
    used: BTreeSet<PackageId>,
}

impl Packages {
    /// The packages in what the named one of the workspace builds.
    pub(super) fn of(name: &str) -> Result<Self> {
        let target = program::target()?;
        let mut command = MetadataCommand::new();
        command.current_dir(workspace());
        command.other_options(["--locked", "--filter-platform", &target].map(str::to_owned));
        let metadata = command.exec()?;
        let root = metadata.packages.iter().find(|package| package.name.as_str() == name);
        let root = root.ok_or_else(|| format!("the workspace has no package {name}"))?.id.clone();
        let used = reachable(&metadata, &root)?;
        Ok(Self { metadata, root, used })
    }

    /// The package that is built.
    pub(super) fn root(&self) -> Result<&Package> {
        let root = self.iter().find(|package| package.id == self.root);
        root.ok_or_else(|| format!("cargo does not list {}", self.root).into())
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Package> {
        let mut list: Vec<_> = self.metadata.packages.iter().filter(|p| self.used.contains(&p.id)).collect();
        list.sort_by(|a, b| (&a.name, &a.version).cmp(&(&b.name, &b.version)));
        list.into_iter()
    }

    /// What a package uses, in the order of their ids.
    pub(super) fn used_by(&self, package: &PackageId) -> Result<Vec<&PackageId>> {
        let nodes = nodes(&self.metadata)?;
        let node = nodes.get(package).ok_or_else(|| format!("cargo does not resolve {package}"))?;
        let mut used: Vec<_> = linked(node).filter_map(|id| self.used.get(id)).collect();
        used.sort();
        used.dedup();
        Ok(used)
    }
}

/// Everything that a package uses, and what that uses, except for building and for tests.
fn reachable(metadata: &Metadata, root: &PackageId) -> Result<BTreeSet<PackageId>> {
    let nodes = nodes(metadata)?;
    let mut found = BTreeSet::new();
    let mut left = vec![root];
    while let Some(package) = left.pop() {
        if !found.insert(package.clone()) {
            continue;
        }
        let node = nodes.get(package).ok_or_else(|| format!("cargo does not resolve {package}"))?;
        left.extend(linked(node));
    }
    Ok(found)
}

fn nodes(metadata: &Metadata) -> Result<HashMap<&PackageId, &Node>> {
    let resolved = metadata.resolve.as_ref().ok_or("cargo metadata resolved nothing")?;
    Ok(resolved.nodes.iter().map(|node| (&node.id, node)).collect())
}

fn linked(node: &Node) -> impl Iterator<Item = &PackageId> {
    let is_linked = |kind: &cargo_metadata::DepKindInfo| kind.kind == DependencyKind::Normal;
    node.deps.iter().filter(move |used| used.dep_kinds.iter().any(is_linked)).map(|used| &used.pkg)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_has_what_it_links_and_nothing_of_tests() {
        let packages = Packages::of("loligo").expect("cargo metadata works");
        let names: Vec<_> = packages.iter().map(|package| package.name.as_str().to_owned()).collect();
        for wanted in ["loligo", "loligo-osd", "tokio", "aws-lc-sys", "fjall"] {
            assert!(names.iter().any(|name| name == wanted), "{wanted} is missing");
        }
        for stray in ["loom", "xtask", "loligo-capi"] {
            assert!(!names.iter().any(|name| name == stray), "{stray} is no part of the program");
        }
        assert!(names.is_sorted());
        assert_eq!(packages.root().expect("a root").name.as_str(), "loligo");
    }

    #[test]
    fn the_libraries_have_no_server() {
        let packages = Packages::of("loligo-capi").expect("cargo metadata works");
        let has = |name: &str| packages.iter().any(|package| package.name.as_str() == name);
        assert!(has("loligo-rbd") && !has("loligo-osd"));
    }
}
