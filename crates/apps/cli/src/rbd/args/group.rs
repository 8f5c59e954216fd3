//! The command line of `loligo rbd group`.

use clap::Subcommand;

use super::Quiet;
use crate::name::Name;

#[derive(Subcommand)]
pub(crate) enum Group {
    /// Make a group without images.
    Create {
        /// [POOL/[NAMESPACE/]]GROUP.
        group: Name,
    },
    /// List the groups of a pool.
    #[command(alias = "list")]
    Ls {
        /// POOL[/NAMESPACE].
        place: Option<Name>,
    },
    /// Remove a group with its snapshots; its images stay.
    #[command(alias = "remove")]
    Rm {
        /// [POOL/[NAMESPACE/]]GROUP.
        group: Name,
    },
    /// Give a group another name, in its pool and namespace.
    Rename {
        /// [POOL/[NAMESPACE/]]GROUP.
        group: Name,
        /// [POOL/[NAMESPACE/]]GROUP.
        to: Name,
    },
    /// Images of a group.
    #[command(subcommand)]
    Image(GroupImage),
    /// Snapshots of a group: one of each of its images, all of the same moment.
    #[command(subcommand)]
    Snap(GroupSnap),
}

#[derive(Subcommand)]
pub(crate) enum GroupImage {
    /// Add an image, which may lie in another pool, to a group.
    Add {
        /// [POOL/[NAMESPACE/]]GROUP.
        group: Name,
        image: Name,
    },
    /// Take an image out of a group. It keeps its snapshots of the group until those are removed.
    #[command(alias = "remove")]
    Rm {
        /// [POOL/[NAMESPACE/]]GROUP.
        group: Name,
        #[arg(required_unless_present = "image_id")]
        image: Option<Name>,
        /// [POOL/[NAMESPACE/]]ID, instead of a name.
        #[arg(long, value_name = "ID", conflicts_with = "image")]
        image_id: Option<Name>,
    },
    /// List the images of a group.
    #[command(alias = "list")]
    Ls {
        /// [POOL/[NAMESPACE/]]GROUP.
        group: Name,
    },
}

#[derive(Subcommand)]
pub(crate) enum GroupSnap {
    /// Make a snapshot of each image while nobody writes to any of them, if they have exclusive-lock.
    Create {
        /// [POOL/[NAMESPACE/]]GROUP@SNAPSHOT.
        snapshot: Name,
    },
    /// List the snapshots of a group.
    #[command(alias = "list")]
    Ls {
        /// [POOL/[NAMESPACE/]]GROUP.
        group: Name,
    },
    /// Remove a snapshot of a group.
    #[command(alias = "remove")]
    Rm {
        /// [POOL/[NAMESPACE/]]GROUP@SNAPSHOT.
        snapshot: Name,
    },
    /// Give a snapshot of a group another name.
    Rename {
        /// [POOL/[NAMESPACE/]]GROUP@SNAPSHOT.
        snapshot: Name,
        /// The new name.
        to: Name,
    },
    /// Make the images what they were at a snapshot of the group.
    Rollback {
        /// [POOL/[NAMESPACE/]]GROUP@SNAPSHOT.
        snapshot: Name,
        #[command(flatten)]
        quiet: Quiet,
    },
}
