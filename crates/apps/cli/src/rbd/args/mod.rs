//! The command line of `loligo rbd`.

mod bench;
mod group;

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use crate::args::size;
use crate::name::Name;

pub(crate) use bench::{Bench, IoType, Pattern};
pub(crate) use group::{Group, GroupImage, GroupSnap};

const SPEC: &str = "\
Images are named as `rbd` names them: [POOL/[NAMESPACE/]]IMAGE[@SNAPSHOT]. Without a pool, -p says which; else it is what the option rbd_default_pool says ('rbd'). \
As options, in place of words: --image, --snap; --dest, --dest-pool, --dest-namespace, --dest-snap for what is made; --path for files. \
-s is the size of `create` and `resize`, and a snapshot elsewhere.";

/// Commands of `loligo rbd`.
#[derive(Subcommand)]
#[command(after_help = SPEC)]
pub(crate) enum RbdCommand {
    /// List the images of a pool.
    #[command(alias = "list")]
    Ls {
        /// POOL[/NAMESPACE].
        place: Option<Name>,
        /// Sizes, snapshots, parents and locks.
        #[arg(long, short)]
        long: bool,
    },
    /// Make an image.
    Create {
        image: Name,
        #[command(flatten)]
        shape: CloneShape,
        /// Bytes of the image; M if nothing else is said.
        #[arg(long, value_parser = megabytes)]
        size: u64,
        /// Write zeros into all of it, so that it has its room.
        #[arg(long)]
        thick_provision: bool,
        #[command(flatten)]
        quiet: Quiet,
    },
    /// Show what an image is.
    Info {
        image: Name,
        #[command(flatten)]
        by: ById,
    },
    /// Show who has an image open for writing.
    Status { image: Name },
    /// Locks that people take by hand.
    #[command(subcommand)]
    Lock(Lock),
    /// Remove an image.
    #[command(alias = "remove")]
    Rm {
        image: Name,
        #[command(flatten)]
        quiet: Quiet,
    },
    /// Give an image another name.
    #[command(alias = "mv")]
    Rename { image: Name, to: Name },
    /// Make an image larger or smaller.
    Resize {
        image: Name,
        /// Bytes of the image; M if nothing else is said.
        #[arg(long, value_parser = megabytes)]
        size: u64,
        /// It may become smaller.
        #[arg(long)]
        allow_shrink: bool,
        #[command(flatten)]
        quiet: Quiet,
    },
    /// Make an image of a file; of format 2, one like that which was exported, unless something else is said.
    Import(Import),
    /// Write an image, or a snapshot, into a file.
    Export(Export),
    /// Make an image that has the data of an image or a snapshot, and its metadata, but no snapshots and no
    /// parent.
    #[command(alias = "copy")]
    Cp {
        image: Name,
        /// The new image.
        to: Name,
        #[command(flatten)]
        shape: CloneShape,
        /// Blocks of so many bytes that are all zeros take no room.
        #[arg(long, value_parser = block, default_value = "4K")]
        sparse_size: u64,
        #[command(flatten)]
        quiet: Quiet,
    },
    /// Copies with all that was.
    #[command(subcommand)]
    Deep(Deep),
    /// Show what differs between a snapshot, or nothing, and an image or a later snapshot.
    Diff {
        image: Name,
        #[command(flatten)]
        compared: Compared,
    },
    /// Write what differs into a file, for `import-diff`.
    ExportDiff {
        image: Name,
        /// - is standard output.
        file: PathBuf,
        #[command(flatten)]
        compared: Compared,
        #[command(flatten)]
        quiet: Quiet,
    },
    /// Make an image what a file of differences says, and a snapshot of it, if the file names one.
    ImportDiff {
        /// - is standard input.
        file: PathBuf,
        image: Name,
        /// Blocks of so many bytes that are all zeros take no room.
        #[arg(long, value_parser = block, default_value = "4K")]
        sparse_size: u64,
        #[command(flatten)]
        quiet: Quiet,
    },
    /// Make one file of two files of differences; the second begins where the first ends.
    MergeDiff {
        /// - is standard input.
        first: PathBuf,
        second: PathBuf,
        /// - is standard output.
        file: PathBuf,
        #[command(flatten)]
        quiet: Quiet,
    },
    /// Show what images take, by their object maps; without fast-diff by asking for each object.
    #[command(alias = "disk-usage")]
    Du {
        /// By default all of the pool.
        image: Option<Name>,
    },
    /// Make an image that has what a snapshot has until that is overwritten (rbd_default_clone_format says
    /// which version of clones).
    Clone {
        /// IMAGE@SNAPSHOT.
        snapshot: Name,
        image: Name,
        #[command(flatten)]
        shape: CloneShape,
    },
    /// List the clones of an image, or of one of its snapshots.
    Children {
        image: Name,
        /// Those in the trash too.
        #[arg(long, short)]
        all: bool,
        /// Clones of clones too.
        #[arg(long)]
        descendants: bool,
        #[command(flatten)]
        by: ById,
    },
    /// Give a clone all that it has of its parent, and part it from that.
    Flatten {
        image: Name,
        #[command(flatten)]
        quiet: Quiet,
    },
    /// Give the room back that blocks of zeros take.
    Sparsify {
        image: Name,
        /// Bytes of a block, a power of two from 4K to an object's size.
        #[arg(long, value_parser = block, default_value = "4K")]
        sparse_size: u64,
        #[command(flatten)]
        quiet: Quiet,
    },
    /// Measure an image.
    Bench(Bench),
    /// Snapshots of an image.
    #[command(subcommand)]
    Snap(Snap),
    /// Features of an image, switched while it is there.
    #[command(subcommand)]
    Feature(Feature),
    /// Object maps.
    #[command(subcommand)]
    ObjectMap(ObjectMap),
    /// Keys and values that are kept with an image.
    #[command(subcommand)]
    ImageMeta(ImageMeta),
    /// Settings for images.
    #[command(subcommand)]
    Config(Config),
    /// Groups of images whose snapshots are taken together.
    #[command(subcommand)]
    Group(Group),
    /// Pools of images.
    #[command(subcommand)]
    Pool(PoolCommand),
    /// Namespaces of a pool.
    #[command(subcommand)]
    Namespace(Namespace),
    /// Images that were removed and are kept for a while.
    #[command(subcommand)]
    Trash(Trash),
    /// Move an image to another pool, namespace, name or layout while it is used.
    #[command(subcommand)]
    Migration(Migration),
}

#[derive(Args)]
pub(crate) struct Import {
    /// A file, a block device or a pipe; - is standard input.
    pub(crate) file: PathBuf,
    /// By default it is called as the file.
    pub(crate) image: Option<Name>,
    /// The content of the file.
    #[arg(long, value_enum, default_value_t = ExportFormat::Bytes)]
    pub(crate) export_format: ExportFormat,
    #[command(flatten)]
    pub(crate) shape: CloneShape,
    /// Blocks of so many bytes that are all zeros take no room.
    #[arg(long, value_parser = block, default_value = "4K")]
    pub(crate) sparse_size: u64,
    #[command(flatten)]
    pub(crate) quiet: Quiet,
}

#[derive(Args)]
pub(crate) struct Export {
    pub(crate) image: Name,
    /// - is standard output; by default it is called as the image.
    pub(crate) file: Option<PathBuf>,
    /// The content to write; in format 2 all of the image, whichever snapshot is named.
    #[arg(long, value_enum, default_value_t = ExportFormat::Bytes)]
    pub(crate) export_format: ExportFormat,
    #[command(flatten)]
    pub(crate) quiet: Quiet,
}

/// The content of an exported file.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExportFormat {
    /// The bytes of an image or a snapshot.
    #[value(name = "1")]
    Bytes,
    /// An image with all its snapshots, its metadata and its shape.
    #[value(name = "2")]
    Whole,
}

/// The states to compare, and how.
#[derive(Args)]
pub(crate) struct Compared {
    /// The snapshot to compare with; by default an image of zeros.
    #[arg(long, value_name = "SNAPSHOT")]
    pub(crate) from_snap: Option<Name>,
    /// An object with any change counts as a whole; with fast-diff that takes no time.
    #[arg(long)]
    pub(crate) whole_object: bool,
}

/// Where an image's data lie.
#[derive(Args)]
pub(crate) struct Spread {
    /// Bytes that lie in one object before the next one's turn comes.
    #[arg(long, value_parser = size, requires = "stripe_count")]
    pub(crate) stripe_unit: Option<u64>,
    /// Objects over which a stripe goes.
    #[arg(long, requires = "stripe_unit")]
    pub(crate) stripe_count: Option<u64>,
    /// The pool of the image's data, if it is another one.
    #[arg(long)]
    pub(crate) data_pool: Option<String>,
}

/// How an image is laid out; a copy as its source, if nothing is said, and any other as the options
/// `rbd_default_…` say.
#[derive(Args)]
pub(crate) struct CloneShape {
    /// Bytes of an object, a power of two from 4K to 32M.
    #[arg(long, value_parser = size)]
    pub(crate) object_size: Option<u64>,
    /// The same as a power: an object has 2 to the power of this bytes.
    #[arg(long, conflicts_with = "object_size")]
    pub(crate) order: Option<u8>,
    /// 2; 1 makes an image of the old format, for tests, if RBD_FORCE_ALLOW_V1 is in the environment.
    #[arg(long, value_name = "FORMAT", value_parser = clap::value_parser!(u8).range(1..=2))]
    pub(crate) image_format: Option<u8>,
    /// Features: layering (a clone has it always), exclusive-lock, object-map, fast-diff, deep-flatten.
    #[arg(long, value_delimiter = ',')]
    pub(crate) image_feature: Vec<String>,
    #[command(flatten)]
    pub(crate) spread: Spread,
}

#[derive(Args)]
pub(crate) struct Quiet {
    /// No bar.
    #[arg(long)]
    pub(crate) no_progress: bool,
}

#[derive(Subcommand)]
pub(crate) enum Deep {
    /// Make an image that has the data, snapshots, metadata and parent of an image; of a snapshot, with the
    /// snapshots up to it.
    #[command(alias = "copy")]
    Cp {
        image: Name,
        /// The new image.
        to: Name,
        #[command(flatten)]
        shape: CloneShape,
        /// It has what it needs of the parent itself.
        #[arg(long)]
        flatten: bool,
        #[command(flatten)]
        quiet: Quiet,
    },
}

#[derive(Subcommand)]
pub(crate) enum Snap {
    /// Make a snapshot.
    #[command(alias = "add")]
    Create {
        image: Name,
        #[command(flatten)]
        quiet: Quiet,
    },
    /// List an image's snapshots.
    #[command(alias = "list")]
    Ls {
        image: Name,
        /// Those too that were removed and that clones still need.
        #[arg(long, short)]
        all: bool,
        #[command(flatten)]
        by: ById,
    },
    /// Remove a snapshot. It is kept in a trash as long as it has clones of the second version.
    #[command(alias = "remove")]
    Rm {
        image: Name,
        /// Flatten its clones and unprotect it first.
        #[arg(long)]
        force: bool,
        #[command(flatten)]
        by: ById,
        #[command(flatten)]
        quiet: Quiet,
    },
    /// Remove all snapshots that are not protected.
    Purge {
        image: Name,
        #[command(flatten)]
        by: ById,
        #[command(flatten)]
        quiet: Quiet,
    },
    /// Give a snapshot another name.
    #[command(alias = "mv")]
    Rename { image: Name, to: Name },
    /// Keep a snapshot from being removed, so that it can have clones of the first version.
    Protect {
        image: Name,
        #[command(flatten)]
        by: ById,
    },
    /// Let a snapshot be removed again.
    Unprotect {
        image: Name,
        #[command(flatten)]
        by: ById,
    },
    /// How many snapshots an image may have.
    #[command(subcommand)]
    Limit(Limit),
    /// Make the image what it was at a snapshot.
    #[command(alias = "revert")]
    Rollback {
        image: Name,
        #[command(flatten)]
        quiet: Quiet,
    },
}

#[derive(Subcommand)]
pub(crate) enum Limit {
    /// Have the cluster refuse more snapshots of an image than so many.
    Set {
        image: Name,
        /// Snapshots.
        #[arg(long)]
        limit: u64,
    },
    /// Have as many snapshots as can be.
    Clear { image: Name },
}

#[derive(Subcommand)]
pub(crate) enum Lock {
    /// List who holds the lock of an image: people, or the client that writes to it.
    #[command(alias = "list")]
    Ls { image: Name },
    /// Take the lock; it is held until it is removed.
    Add {
        image: Name,
        /// The name of this holding.
        id: Name,
        /// Together with all who name the same tag.
        #[arg(long, value_name = "TAG")]
        shared: Option<Name>,
    },
    /// Take the lock away from a client, which is kept out of the cluster from then on.
    #[command(alias = "remove")]
    Rm {
        image: Name,
        /// As `lock ls` shows it.
        id: Name,
        /// client.NUMBER, as `lock ls` shows it.
        locker: String,
    },
}

#[derive(Subcommand)]
pub(crate) enum Feature {
    /// Switch features on. A new object map says nothing until `object-map rebuild` has made it.
    Enable {
        image: Name,
        /// exclusive-lock, object-map, fast-diff; object-map and fast-diff go together, and need
        /// exclusive-lock.
        #[arg(required = true, value_delimiter = ',')]
        features: Vec<String>,
    },
    /// Switch features off.
    Disable {
        image: Name,
        /// exclusive-lock, object-map, fast-diff, deep-flatten; object-map and fast-diff go together.
        #[arg(required = true, value_delimiter = ',')]
        features: Vec<String>,
    },
}

#[derive(Subcommand)]
pub(crate) enum ObjectMap {
    /// Look whether the map misses objects, of an image or of a snapshot.
    Check {
        /// IMAGE, or IMAGE@SNAPSHOT.
        image: Name,
        #[command(flatten)]
        quiet: Quiet,
    },
    /// Make the maps of an image and its snapshots anew, or that of one snapshot.
    Rebuild {
        /// IMAGE, or IMAGE@SNAPSHOT.
        image: Name,
        #[command(flatten)]
        quiet: Quiet,
    },
}

#[derive(Subcommand)]
pub(crate) enum ImageMeta {
    /// Show all pairs.
    #[command(alias = "ls")]
    List { image: Name },
    /// Show the value of a key.
    Get { image: Name, key: Name },
    /// Set the value of a key.
    Set { image: Name, key: Name, value: Name },
    /// Remove a key.
    #[command(alias = "rm")]
    Remove { image: Name, key: Name },
}

#[derive(Subcommand)]
pub(crate) enum Config {
    /// Of the cluster: for `global`, `client` or `client.ID`.
    #[command(subcommand)]
    Global(Setting),
    /// Of a pool.
    #[command(subcommand)]
    Pool(Setting),
    /// Of an image.
    #[command(subcommand)]
    Image(Setting),
}

#[derive(Subcommand)]
pub(crate) enum Setting {
    /// Show the value of an option that is set here.
    Get {
        /// The entity, pool or image that the setting is for.
        of: Name,
        key: String,
    },
    /// Set an option.
    Set {
        /// The entity, pool or image that the setting is for.
        of: Name,
        key: String,
        value: String,
    },
    /// List the options that count here, and what has set them.
    #[command(alias = "ls")]
    List {
        /// The entity, pool or image that the settings are for.
        of: Name,
    },
    /// Have an option no longer set here.
    #[command(alias = "rm")]
    Remove {
        /// The entity, pool or image that the setting is for.
        of: Name,
        key: String,
    },
}

impl Setting {
    /// Returns the entity, pool or image that the setting is for.
    pub(crate) fn of(&self) -> &Name {
        let (Self::Get { of, .. } | Self::Set { of, .. } | Self::List { of } | Self::Remove { of, .. }) =
            self;
        of
    }
}

/// Whether an image is named by its id.
#[derive(Args)]
pub(crate) struct ById {
    /// The image is named by its id, be it in the trash.
    #[arg(long = "image-id")]
    pub(crate) by_id: bool,
}

#[derive(Subcommand)]
pub(crate) enum PoolCommand {
    /// Say that a pool is for images, and look whether it can have some.
    Init {
        /// POOL.
        place: Option<Name>,
        /// Though it is for something else already.
        #[arg(long)]
        force: bool,
    },
    /// Show how many images and snapshots there are, and their size.
    Stats {
        /// POOL[/NAMESPACE].
        place: Option<Name>,
    },
}

#[derive(Subcommand)]
pub(crate) enum Namespace {
    /// Make a namespace.
    Create {
        /// POOL/NAMESPACE; or -p and -N say it.
        place: Option<Name>,
    },
    /// List the namespaces of a pool.
    #[command(alias = "list")]
    Ls {
        /// POOL.
        pool: Option<String>,
    },
    /// Remove a namespace without images.
    #[command(alias = "remove")]
    Rm {
        /// POOL/NAMESPACE; or -p and -N say it.
        place: Option<Name>,
    },
}

#[derive(Subcommand)]
pub(crate) enum Trash {
    /// Put an image into the trash.
    #[command(alias = "move")]
    Mv {
        image: Name,
        /// Until when it is to be kept, in words that date(1) understands.
        #[arg(long, default_value = "now", value_name = "DATE")]
        expires_at: String,
    },
    /// List the images in the trash.
    #[command(alias = "list")]
    Ls {
        /// POOL[/NAMESPACE].
        place: Option<Name>,
        /// Also images that no user put there.
        #[arg(long, short)]
        all: bool,
        /// When it was put there, how long it is kept, and its parents.
        #[arg(long, short)]
        long: bool,
    },
    /// Remove an image in the trash for good.
    #[command(alias = "remove")]
    Rm {
        /// [POOL/[NAMESPACE/]]ID.
        id: Name,
        /// Also if it is to be kept for longer.
        #[arg(long)]
        force: bool,
        #[command(flatten)]
        quiet: Quiet,
    },
    /// Take an image out of the trash.
    Restore {
        /// [POOL/[NAMESPACE/]]ID.
        id: Name,
        /// Its new name; by default the old one.
        #[arg(long)]
        image: Option<Name>,
    },
    /// Remove all that need not be kept any longer.
    Purge {
        /// POOL[/NAMESPACE].
        place: Option<Name>,
        /// Only what need not be kept any longer at this time, in words that date(1) understands.
        #[arg(long, default_value = "now", value_name = "DATE")]
        expired_before: String,
        #[command(flatten)]
        quiet: Quiet,
    },
}

#[derive(Subcommand)]
pub(crate) enum Migration {
    /// Make the new image, with the snapshots of the old one, and put that into the trash. From then on the
    /// new one is used.
    Prepare {
        image: Name,
        /// The new image; by default it has the same name, and it stays in its pool if none is named.
        to: Option<Name>,
        #[command(flatten)]
        shape: CloneShape,
        /// Of a clone: it will have what it needs of the parent itself.
        #[arg(long)]
        flatten: bool,
    },
    /// Copy to the new image all that it reads from the old one yet. It may be used meanwhile.
    Execute {
        /// The new image, or the old one.
        image: Name,
        #[command(flatten)]
        quiet: Quiet,
    },
    /// Remove the old image, once the migration is executed.
    Commit {
        /// The new image, or the old one.
        image: Name,
        #[command(flatten)]
        quiet: Quiet,
    },
    /// Go back: give the old image what was written meanwhile, and remove the new one.
    Abort {
        /// The new image, or the old one.
        image: Name,
        #[command(flatten)]
        quiet: Quiet,
    },
}

/// Parses a number of bytes, at least one.
fn block(text: &str) -> Result<u64, String> {
    size(text).and_then(|bytes| if bytes == 0 { Err("is nothing".to_owned()) } else { Ok(bytes) })
}

/// Parses a size whose unit is M if it has none, as in `rbd`.
fn megabytes(text: &str) -> Result<u64, String> {
    match text.parse::<u64>() {
        Ok(n) => n.checked_mul(1 << 20).ok_or_else(|| format!("'{text}' M are too many")),
        Err(_) => size(text),
    }
}
