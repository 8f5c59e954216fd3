//! Internal requests of the OSD: they have no operations and no client.

use std::sync::Arc;

use loligo_store::{
    Change, Collection, Commit, Info, ObjectChanges, ObjectName, ObjectRef, ObjectView, Transaction,
};
use loligo_wire::message::osd::MOSDOp;
use loligo_wire::{Errno, Eversion, SnapId, SnapSet};
use smallvec::{SmallVec, smallvec};

use super::clones::Clones;
use super::execution::CHANGE_COST;
use super::execution::Execution;
use super::state::PgState;
use super::write::OBJECT;
use super::{Answered, Context, Known, Waiting, answer, oid_of, watches};
use crate::errno;
use crate::watch;

/// Names that the walk of [`trim`](crate::trim) examines in one step, and clones of one object that one
/// request removes.
pub(crate) const TRIM_PAGE: usize = 256;

/// The task to do on an object.
pub(crate) enum Task {
    /// Ends a watch whose client is silent or on the blocklist.
    EndWatch(watch::WatchKey),
    /// Removes these snapshots from its clones.
    Trim(Arc<SnapSet>),
}

pub(super) fn run(
    context: &Context,
    op: &mut MOSDOp,
    collection: &dyn Collection,
    state: &mut PgState,
    known: &mut Known,
) -> Answered {
    context.fetches.forget(OBJECT);
    let oid = oid_of(op);
    let found = context.fetches.now(|| collection.object(oid));
    let done = found.and_then(|view| match (&context.task, view) {
        (Some(Task::EndWatch(key)), Some(view)) => {
            end_watch(context, *key, collection, state, oid, &view, known)
        }
        (Some(Task::Trim(removed)), Some(view)) => trim(context, removed, collection, state, oid, &view),
        (_, None) | (None, _) => Ok(()),
    });
    if context.fetches.waiting() {
        return Err(Waiting);
    }
    let result = done.map_or_else(Errno::to_result, |()| 0);
    Ok(Some(answer(context, op, result, super::execution::Outputs::new())))
}

fn end_watch(
    context: &Context,
    key: watch::WatchKey,
    collection: &dyn Collection,
    state: &mut PgState,
    oid: ObjectRef<'_>,
    view: &Arc<dyn ObjectView>,
    known: &mut Known,
) -> Result<(), Errno> {
    watches::load(context, &smallvec![], &mut state.watches, oid, &**view)?;
    let mut execution = Execution::new(context, collection, oid, Some(Arc::clone(view)));
    execution.watchers = state.watches.of(oid);
    if !execution.watchers.is_some_and(|watchers| watchers.contains_key(&key)) {
        return Ok(());
    }
    execution.unwatch(key, true)?;
    let (info, effects, changes) = execution.into_parts();
    known.effects = effects;
    let version = next(context, state);
    let objects = smallvec![ObjectChanges { oid, info: Info { version, ..info }, changes }];
    let commit =
        collection.submit(Transaction { version, objects, record: None }).map_err(errno::of_store)?;
    done(state, version, commit);
    Ok(())
}

/// Removes deleted snapshots from an object's clones. A clone that represents no snapshot any more is
/// removed, and so is a whiteout without clones.
///
/// The oldest clones are processed first, and at most one page of the walk is removed. The walk visits
/// an object with more clones once for each page of their names.
fn trim(
    context: &Context,
    removed: &SnapSet,
    collection: &dyn Collection,
    state: &mut PgState,
    oid: ObjectRef<'_>,
    view: &Arc<dyn ObjectView>,
) -> Result<(), Errno> {
    let mut snaps = Clones::of(context, &**view)?;
    let before = snaps.clone();
    let mut objects: SmallVec<[ObjectChanges<'_>; 1]> = SmallVec::new();
    let version = next(context, state);
    let mut index = 0;
    while let Some(clone) = snaps.clones.get_mut(index) {
        clone.snaps.retain(|snap| !removed.contains(*snap));
        if !clone.snaps.is_empty() {
            index += 1;
            continue;
        }
        if objects.len() == TRIM_PAGE {
            break;
        }
        context.works(CHANGE_COST)?;
        let gone = ObjectRef { snap: snaps.remove(index).id, ..oid };
        // The store must have the clone in memory when it removes it, so that it need not read the disk
        // then.
        context.fetches.now(|| collection.object(gone))?;
        objects.push(ObjectChanges { oid: gone, info: Info::default(), changes: smallvec![Change::Remove] });
    }
    let info = view.info();
    let useless = info.whiteout && snaps.clones.is_empty();
    if snaps == before && !useless {
        return Ok(());
    }
    let change = if useless { Change::Remove } else { snaps.keep() };
    let info = Info { version, ..info };
    objects.push(ObjectChanges { oid, info, changes: smallvec![change] });
    let commit =
        collection.submit(Transaction { version, objects, record: None }).map_err(errno::of_store)?;
    done(state, version, commit);
    Ok(())
}

fn next(context: &Context, state: &PgState) -> Eversion {
    Eversion { epoch: context.epoch.max(state.version.epoch), version: state.version.version + 1 }
}

fn done(state: &mut PgState, version: Eversion, commit: Commit) {
    state.version = version;
    if commit == Commit::Pending {
        state.submitted = version;
    }
}

/// The heads of the clones in a list of names, in order.
pub(crate) fn heads_with_clones(names: &[ObjectName]) -> Vec<ObjectName> {
    let mut heads = Vec::new();
    for name in names.iter().filter(|name| name.as_ref().snap != SnapId::HEAD) {
        let head = ObjectRef { snap: SnapId::HEAD, ..name.as_ref() };
        if let Ok(head) = ObjectName::new(head)
            && heads.last() != Some(&head)
        {
            heads.push(head);
        }
    }
    heads
}
