//! Where a pool's objects are.

use loligo_store::Collection;

use super::Context;
use crate::filing::Cut;

/// The collections that a pool's objects are filed in.
pub(super) struct Filed<'a> {
    pub(super) cut: Cut,
    context: &'a Context,
    /// The one collection of a request that knows no others.
    own: Option<&'a dyn Collection>,
}

impl<'a> Filed<'a> {
    /// `own` is the one collection of a request that knows no others.
    pub(super) fn of(context: &'a Context, own: &'a dyn Collection) -> Self {
        let filed = context.places.as_ref().and_then(|places| places.filed(context.pool));
        let own = if filed.is_none() { Some(own) } else { None };
        Self { cut: filed.unwrap_or(Cut(context.pg_num)), context, own }
    }

    /// None where there never were objects.
    pub(super) fn collection(&self, hash: u32) -> Option<&'a dyn Collection> {
        let elsewhere = || self.context.places.as_ref()?.collection(self.context.pool, hash);
        self.own.or_else(elsewhere)
    }
}
