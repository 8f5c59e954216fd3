//! The default pool, namespace and snapshot of names, and the resolution of names.

use loligo_conf::Conf;
use loligo_rados::{Errno, IoCtx, Rados};
use loligo_rbd::{Error, Image, Mode, namespaces};

use super::args::{ById, Group, Namespace, PoolCommand, Trash};
use super::spec::{self, At, GroupName, GroupSnapshotName, ImageName, ImageOrSnapshot, SnapshotName};
use super::{RbdCommand, defaults};
use crate::args::Format;
use crate::client::Client;
use crate::failure::{Context, Failure};
use crate::name::Name;
use crate::words::CalledAs;

/// A cluster, with the default location of images whose names have none.
pub(super) struct Place {
    pub(super) rados: Rados,
    pub(super) pool: String,
    pub(super) namespace: Name,
    pub(super) snap: Option<Name>,
    /// Includes the monitors' settings.
    pub(super) conf: Conf,
    pub(super) format: Format,
    pub(super) called: CalledAs,
}

/// Refuses `-s` and `-N` where the command would ignore them. Commands on images refuse `-s` themselves
/// if they accept no snapshot.
pub(super) fn check_place(client: &Client, command: &RbdCommand) -> Result<(), Failure> {
    let (_, namespace, snap) = client.place();
    if snap.is_some() {
        may_have_snap(command)?;
    }
    if !namespace.as_bytes().is_empty() {
        may_have_namespace(command)?;
    }
    Ok(())
}

fn may_have_snap(command: &RbdCommand) -> Result<(), Failure> {
    match command {
        RbdCommand::Create { .. } | RbdCommand::Resize { .. } => {
            Err(Failure::of(Errno::EINVAL, "--snap", "the command takes no snapshot"))
        }
        RbdCommand::Group(Group::Snap(_)) => Ok(()),
        RbdCommand::Ls { .. }
        | RbdCommand::MergeDiff { .. }
        | RbdCommand::Group(_)
        | RbdCommand::Pool(_)
        | RbdCommand::Namespace(_)
        | RbdCommand::Trash(Trash::Ls { .. } | Trash::Purge { .. })
        | RbdCommand::Du { image: None, .. } => Err(Failure::new("-s", "the command takes no snapshot")),
        _ => Ok(()),
    }
}

fn may_have_namespace(command: &RbdCommand) -> Result<(), Failure> {
    match command {
        RbdCommand::MergeDiff { .. }
        | RbdCommand::Pool(PoolCommand::Init { .. })
        | RbdCommand::Namespace(
            Namespace::Ls { .. } | Namespace::Create { place: Some(_) } | Namespace::Rm { place: Some(_) },
        ) => Err(Failure::new("-N", "the command takes no namespace beside what it names")),
        _ => Ok(()),
    }
}

impl Place {
    pub(super) async fn io(&self, at: &At) -> Result<IoCtx, Failure> {
        self.io_at(self.pool_of(at), self.namespace_of(at)).await
    }

    pub(super) fn pool_of<'a>(&'a self, at: &'a At) -> &'a str {
        at.pool.as_deref().unwrap_or(&self.pool)
    }

    /// Returns the namespace of a location. For another pool it is the default namespace, not the one of
    /// `-N`.
    pub(super) fn namespace_of<'a>(&'a self, at: &'a At) -> &'a [u8] {
        at.namespace.as_deref().unwrap_or(if at.pool.is_some() { b"" } else { &self.namespace })
    }

    /// Opens an existing namespace of a pool.
    pub(super) async fn io_at(&self, pool: &str, namespace: &[u8]) -> Result<IoCtx, Failure> {
        let io = self.pool(pool).await?;
        if namespace.is_empty() {
            return Ok(io);
        }
        let what = || format!("open namespace {pool}/{}", Name::from(namespace));
        let all = namespaces::list(&io).await.context(what)?;
        match all.iter().any(|name| **name == *namespace) {
            true => Ok(io.with_namespace(namespace)),
            false => Err(Error::NoNamespace(namespace.into())).context(what),
        }
    }

    /// Opens the default namespace of a pool.
    pub(super) async fn pool(&self, name: &str) -> Result<IoCtx, Failure> {
        self.rados.ioctx(name).await.context(|| format!("open pool {name}"))
    }

    /// Opens `POOL[/NAMESPACE]`.
    pub(super) async fn named(&self, named: Option<&Name>) -> Result<IoCtx, Failure> {
        let Some(text) = named else { return self.io(&At::default()).await };
        let (pool, namespace) = named_so(text, spec::place(text))?;
        self.io_at(pool, namespace).await
    }

    /// Resolves an image's name to its location and its own name; a snapshot is refused.
    pub(super) async fn image(&self, text: &Name) -> Result<(IoCtx, Name), Failure> {
        let name = named_so(text, ImageName::parse(text, self.snap.as_ref()))?;
        Ok((self.io(&name.at).await?, name.image))
    }

    /// Does the same for an image to be created from another one: `-s` names a snapshot of the other.
    pub(super) async fn new_image(&self, text: &Name) -> Result<(IoCtx, Name), Failure> {
        let name = named_so(text, ImageName::parse(text, None))?;
        if self.called == CalledAs::Rbd && name.at.pool.is_none() {
            // As with stock `rbd`, `-p` names the pool of the source.
            let namespace = name.at.namespace.as_deref().unwrap_or_default();
            return Ok((self.io_at(&defaults::pool(&self.conf), namespace).await?, name.image));
        }
        Ok((self.io(&name.at).await?, name.image))
    }

    /// Opens an image by its name or its id.
    pub(super) async fn open_by(&self, text: &Name, by: &ById, mode: Mode) -> Result<Image, Failure> {
        let (io, name) = self.image(text).await?;
        open_named(&io, &name, by, mode).await.context(|| format!("open {text}"))
    }

    pub(super) async fn snapshot(&self, text: &Name) -> Result<(IoCtx, Name, Name), Failure> {
        let name = named_so(text, SnapshotName::parse(text, self.snap.as_ref()))?;
        Ok((self.io(&name.of.at).await?, name.of.image, name.snap))
    }

    pub(super) async fn image_or_snapshot(
        &self,
        text: &Name,
    ) -> Result<(IoCtx, Name, Option<Name>), Failure> {
        let name = named_so(text, ImageOrSnapshot::parse(text, self.snap.as_ref()))?;
        Ok((self.io(&name.of.at).await?, name.of.image, name.snap))
    }

    pub(super) async fn group(&self, text: &Name) -> Result<(IoCtx, Name), Failure> {
        let name = named_so(text, GroupName::parse(text))?;
        Ok((self.io(&name.at).await?, name.group))
    }

    pub(super) async fn group_snapshot(&self, text: &Name) -> Result<(IoCtx, Name, Name), Failure> {
        let name = named_so(text, GroupSnapshotName::parse(text, self.snap.as_ref()))?;
        Ok((self.io(&name.of.at).await?, name.of.group, name.snap))
    }

    /// Checks that two names mean the same pool and namespace, for commands that cannot move anything
    /// between them.
    pub(super) fn same_place(&self, what: &str, from: &At, to: &At) -> Result<(), Failure> {
        let place = |at| (self.pool_of(at), self.namespace_of(at));
        let ((pool, namespace), (to_pool, to_namespace)) = (place(from), place(to));
        if (pool, namespace) == (to_pool, to_namespace) {
            return Ok(());
        }
        let [from, to] = [(pool, namespace), (to_pool, to_namespace)]
            .map(|(pool, namespace)| format!("{pool}/{}", Name::from(namespace)));
        let why = format!("goes from {from} to {to}, and must stay in its pool and namespace");
        Err(Failure::of(Errno::EINVAL, what, why))
    }

    pub(super) async fn open(&self, text: &Name, mode: Mode) -> Result<Image, Failure> {
        let (io, name) = self.image(text).await?;
        Image::open(&io, &name, mode).await.context(|| format!("open {text}"))
    }

    /// Opens an image, or the named snapshot, for reading.
    pub(super) async fn open_to_read(&self, text: &Name) -> Result<(Image, Option<Name>), Failure> {
        let (io, name, snap) = self.image_or_snapshot(text).await?;
        let image = match &snap {
            None => Image::open(&io, &name, Mode::ReadOnly).await,
            Some(snap) => Image::open_snapshot(&io, &name, snap).await,
        };
        Ok((image.context(|| format!("open {text}"))?, snap))
    }
}

pub(super) async fn open_named(io: &IoCtx, name: &Name, by: &ById, mode: Mode) -> Result<Image, Error> {
    if by.by_id { Image::open_by_id(io, id(name)?, mode).await } else { Image::open(io, name, mode).await }
}

/// Returns a word as an image's id; ids are UTF-8.
pub(super) fn id(word: &Name) -> Result<&str, Error> {
    word.as_text().ok_or_else(|| Error::NoImage(word.clone()))
}

/// Returns the parsed name, or an error that quotes the text.
pub(super) fn named_so<T>(text: &Name, parsed: Result<T, &'static str>) -> Result<T, Failure> {
    parsed.map_err(|why| Failure::of(Errno::EINVAL, format!("'{text}'"), why))
}

/// Parses a pool's name without a namespace.
pub(super) fn only_pool(text: &[u8]) -> Result<&str, Failure> {
    let pool = str::from_utf8(text).ok().filter(|pool| !pool.contains('/'));
    pool.ok_or_else(|| Failure::of(Errno::EINVAL, format!("'{}'", Name::from(text)), "is no name of a pool"))
}
