//! The migration in an image's header, and what it means for the image's use.

use loligo_rados::{Errno, IoCtx, PoolId};
use loligo_wire::Name;
use loligo_wire::rbd::Migration;

use crate::Error;
use crate::call::{ask, tell};

/// How opening an image treats a migration of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moving {
    /// As for every client: the source is read-only, and the destination reads data not yet copied from
    /// the source.
    Followed,
    /// Ignored: the image has only its own data. For the client that carries the migration out.
    Ignored,
}

/// The state of a migration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// A step has failed.
    Error,
    /// The destination is being created.
    Preparing,
    /// The destination can be used.
    Prepared,
    /// Remaining data is being copied to the destination.
    Executing,
    /// The destination has all data.
    Executed,
    /// The destination is being removed.
    Aborting,
    /// A state that this crate does not know.
    Unknown,
}

impl State {
    /// The state's name in `rbd status`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Preparing => "preparing",
            Self::Prepared => "prepared",
            Self::Executing => "executing",
            Self::Executed => "executed",
            Self::Aborting => "aborting",
            Self::Unknown => "unknown",
        }
    }

    pub(crate) fn of(code: u8) -> Self {
        match code {
            Migration::ERROR => Self::Error,
            Migration::PREPARING => Self::Preparing,
            Migration::PREPARED => Self::Prepared,
            Migration::EXECUTING => Self::Executing,
            Migration::EXECUTED => Self::Executed,
            Migration::ABORTING => Self::Aborting,
            _ => Self::Unknown,
        }
    }
}

/// Reads an image's migration from its header; `None` if there is none.
pub(crate) async fn spec_of(io: &IoCtx, header: &Name) -> Result<Option<Migration>, Error> {
    match ask(io, header, "migration_get", |_| {}).await {
        Err(e) if e.is_not_found() || e.errno() == Errno::EINVAL => Ok(None),
        spec => Ok(Some(spec?)),
    }
}

/// The pool and namespace of the other image of a migration.
pub(crate) fn place_of(io: &IoCtx, spec: &Migration) -> IoCtx {
    io.rados().ioctx_by_id(PoolId(spec.pool)).with_namespace(spec.nspace.clone())
}

/// Stores the state in a header. Returns an error if the header does not exist or has no migration.
pub(crate) async fn tell_state(io: &IoCtx, header: &Name, state: u8, description: &str) -> Result<(), Error> {
    tell(io, header, "migration_set_state", |w| {
        w.u8(state);
        w.put(description);
    })
    .await
}

/// Returns an error for a destination that has no data yet, or is being removed.
pub(crate) fn check_readable(spec: Option<&Migration>, moving: Moving) -> Result<(), Error> {
    let Some(spec) = spec.filter(|spec| moving == Moving::Followed && spec.header == Migration::DESTINATION)
    else {
        return Ok(());
    };
    match State::of(spec.state) {
        State::Prepared | State::Executing | State::Executed => Ok(()),
        State::Preparing => {
            Err(Error::Migrating("it is being prepared; if nobody does that any more: rbd migration abort"))
        }
        _ => {
            Err(Error::Migrating("that is being aborted; if nobody does that any more: rbd migration abort"))
        }
    }
}

/// Returns an error for the source of a migration.
pub(crate) fn check_writable(spec: Option<&Migration>, moving: Moving) -> Result<(), Error> {
    match spec {
        Some(spec) if moving == Moving::Followed && spec.header == Migration::SOURCE => {
            Err(Error::MigratingAway(spec.name.clone()))
        }
        _ => Ok(()),
    }
}
