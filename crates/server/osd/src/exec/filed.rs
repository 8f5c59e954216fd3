//! The collections of a pool's objects.

use loligo_store::Collection;

use super::Context;
use crate::filing::Cut;

/// The collections in which a pool's objects are filed.
pub(super) struct Filed<'a> {
    pub(super) cut: Cut,
    context: &'a Context,
    /// The only collection of a request without a map.
    own: Option<&'a dyn Collection>,
}

impl<'a> Filed<'a> {
    /// `own` is used if the request has no map.
    pub(super) fn of(context: &'a Context, own: &'a dyn Collection) -> Self {
        let filed = context.places.as_ref().and_then(|places| places.filed(context.pool));
        let own = if filed.is_none() { Some(own) } else { None };
        Self { cut: filed.unwrap_or(Cut(context.pg_num)), context, own }
    }

    /// The collection for a hash; `None` if its slot was never opened.
    pub(super) fn collection(&self, hash: u32) -> Option<&'a dyn Collection> {
        let elsewhere = || self.context.places.as_ref()?.collection(self.context.pool, hash);
        self.own.or_else(elsewhere)
    }
}
