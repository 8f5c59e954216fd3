//! What a package says of itself, in whichever form it is written.

use cargo_metadata::Package;

use crate::Result;

use super::contents::Installed;
use super::licences;
use super::shared::Needs;

/// A package before it has the form of Debian or RPM.
pub(super) struct Product {
    pub(super) name: &'static str,
    pub(super) version: String,
    pub(super) homepage: String,
    /// An expression of SPDX.
    pub(super) licence: String,
    /// Debian's section.
    pub(super) section: &'static str,
    pub(super) summary: &'static str,
    pub(super) description: &'static str,
    /// The shared libraries that its files are linked with.
    pub(super) needs: Needs,
    /// A package that makes this one useful.
    pub(super) recommends: Option<&'static str>,
    /// A package for one of its commands.
    pub(super) suggests: Option<&'static str>,
    /// The files, in the order of their paths.
    pub(super) files: Vec<Installed>,
}

impl Product {
    /// The program, which needs no shared library.
    pub(super) fn program(about: &Package, files: Vec<Installed>) -> Result<Self> {
        Ok(Self {
            name: "loligo",
            version: about.version.to_string(),
            homepage: about.repository.clone().unwrap_or_default(),
            licence: licences::expression(about)?,
            section: "admin",
            summary: "Ceph-compatible client and server without coarse locks",
            description: "Objects, striped files, images, block devices and CephFS of any Ceph cluster, and a \
                          server in one process that Ceph's own programs use as a cluster.",
            needs: Needs::default(),
            recommends: None,
            suggests: Some("fuse3"),
            files,
        })
    }

    /// The C libraries, in a folder of their own (packaging/README.md tells why).
    pub(super) fn libraries(about: &Package, needs: Needs, files: Vec<Installed>) -> Result<Self> {
        Ok(Self {
            name: "loligo-libs",
            section: "libs",
            summary: "librados, librbd and libradosstriper of Loligo",
            description: "Libraries in a folder of their own, beside Ceph's, for programs that are started by \
                          'loligo run'; also headers and files for pkg-config.",
            needs,
            // It starts programs on the libraries.
            recommends: Some("loligo"),
            suggests: None,
            ..Self::program(about, files)?
        })
    }
}
