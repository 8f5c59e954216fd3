//! The namespaces of a pool for images.

use loligo_rados::{Errno, IoCtx};
use loligo_wire::{Decode, DecodeError, Name, Reader};

use crate::call::{ask, listed, tell};
use crate::{Error, names};

/// Images may be created.
const READY: u8 = 0;
/// Images may not be created.
const ADD_DISABLED: u8 = 1;

/// Lists the pool's namespaces, by name.
///
/// # Errors
/// They cannot be read.
pub async fn list(io: &IoCtx) -> Result<Vec<Name>, Error> {
    listed(&io.with_namespace(""), names::NAMESPACES, "namespace_list", Name::as_bytes).await
}

/// Creates a namespace.
///
/// # Errors
/// [`Error::NamespaceExists`]; EINVAL if the name is not valid.
pub async fn create(io: &IoCtx, name: impl Into<Name>) -> Result<(), Error> {
    let name = &name.into();
    names::checked(name)?;
    let all = io.with_namespace("");
    match tell(&all, names::NAMESPACES, "namespace_add", |w| w.put(name)).await {
        Err(e) if e.errno() == Errno::EEXIST => return Err(Error::NamespaceExists(name.to_owned())),
        done => done?,
    }
    let ready = set_state(&io.with_namespace(name), READY).await;
    if ready.is_err() {
        // The first failure is returned.
        let _ = tell(&all, names::NAMESPACES, "namespace_remove", |w| w.put(name)).await;
    }
    ready
}

/// Removes a namespace without images, also in its trash.
///
/// # Errors
/// [`Error::NoNamespace`]; [`Error::NamespaceBusy`]. After a failure the call can be repeated.
pub async fn remove(io: &IoCtx, name: impl Into<Name>) -> Result<(), Error> {
    let name = &name.into();
    if name.is_empty() {
        // The default namespace.
        return Err(Errno::EINVAL.into());
    }
    let inner = io.with_namespace(name);
    // From now on no image can be created.
    match set_state(&inner, ADD_DISABLED).await {
        Err(e) if e.errno() == Errno::EBUSY => return Err(Error::NamespaceBusy(name.to_owned())),
        Err(e) if e.is_not_found() => {}
        done => done?,
    }
    if has_trash(&inner).await? {
        set_state(&inner, READY).await?;
        return Err(Error::NamespaceBusy(name.to_owned()));
    }
    for oid in [names::TRASH, names::GROUPS, names::DIRECTORY] {
        match inner.remove(oid).await {
            Err(e) if e.errno() != Errno::ENOENT => return Err(e.into()),
            _ => {}
        }
    }
    match tell(&io.with_namespace(""), names::NAMESPACES, "namespace_remove", |w| w.put(name)).await {
        Err(e) if e.is_not_found() => Err(Error::NoNamespace(name.to_owned())),
        done => done,
    }
}

async fn set_state(io: &IoCtx, state: u8) -> Result<(), Error> {
    tell(io, names::DIRECTORY, "dir_state_set", |w| w.u8(state)).await
}

async fn has_trash(io: &IoCtx) -> Result<bool, Error> {
    let first: Result<Count, Error> = ask(io, names::TRASH, "trash_list", |w| {
        w.put("");
        w.u64(1);
    })
    .await;
    match first {
        Ok(Count(count)) => Ok(count > 0),
        Err(e) if e.is_not_found() => Ok(false),
        Err(e) => Err(e),
    }
}

/// The number of items of a list, which are not decoded.
struct Count(u32);

impl Decode for Count {
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self(r.u32()?))
    }
}
