//! Creates a migration's destination: its header, snapshots and parent, without data.

use std::collections::BTreeMap;

use loligo_rados::SnapId;
use loligo_wire::Encode as _;
use loligo_wire::Name;
use loligo_wire::rbd::{Migration, ParentSpec, SnapKind, op_feature};

use super::pair::{Pair, Place, known};
use crate::Error;
use crate::call::tell;
use crate::copy::NewCopy;
use crate::header::Snapshot;
use crate::image::{Image, Inner, Mode, metadata};
use crate::pool::create::{NewImage, make_as};

/// A state of the source: a user's snapshot, or its head.
struct State {
    snapshot: Option<Snapshot>,
    size: u64,
    overlap: Option<u64>,
}

fn states(source: &Image) -> Vec<State> {
    let view = source.view();
    let of_users = view.snapshots.iter().filter(|snap| snap.info.kind == SnapKind::User).cloned();
    let state = |snap: Snapshot| State { size: snap.info.size, overlap: snap.overlap, snapshot: Some(snap) };
    let mut states: Vec<State> = of_users.map(state).collect();
    states.push(State { snapshot: None, size: view.size, overlap: view.overlap });
    states
}

/// The properties of the destination.
pub(super) struct Plan {
    shape: NewImage,
    /// The parent, and whether the link to it is of version 2.
    parent: Option<(ParentSpec, bool)>,
}

impl Plan {
    pub(super) fn of(source: &Image, new: &NewCopy, flatten: bool) -> Self {
        let view = source.view();
        // If one state has no parent, the others' data of the parent has to be copied.
        let is_clone = !flatten && states(source).iter().all(|state| state.overlap.is_some());
        let is_second = new.is_second(view.op_features & op_feature::CLONE_CHILD != 0);
        let parent = view.parent.clone().filter(|_| is_clone).map(|spec| (spec, is_second));
        Self { shape: source.like(new), parent }
    }

    /// Whether the destination is not a clone.
    pub(super) fn is_flat(&self) -> bool {
        self.parent.is_none()
    }

    pub(super) fn features(&self) -> u64 {
        self.shape.features
    }
}

/// Creates the destination. It cannot be used yet.
pub(super) async fn make(pair: &Pair, source: &Image, plan: &Plan) -> Result<(), Error> {
    let Place { io, name, id } = &pair.destination;
    let states = states(source);
    let size = states.first().map_or(0, |state| state.size);
    make_as(io, name, id, NewImage { size, ..plan.shape.clone() }).await?;
    let made = Image::open_apart(io, known(name, id), Mode::ReadWrite).await?;
    let filled = fill(&made, pair, source, plan, &states).await;
    let closed = made.close().await;
    filled.and(closed)
}

async fn fill(made: &Image, pair: &Pair, source: &Image, plan: &Plan, states: &[State]) -> Result<(), Error> {
    let inner = &made.inner;
    made.acquire_lock().await?;
    if let Some((spec, is_second)) = &plan.parent {
        let overlap = states.first().and_then(|state| state.overlap).unwrap_or(0);
        // A clone that needs no data of its parent is created without a parent.
        if overlap > 0 {
            inner.become_child_of(spec, overlap, *is_second).await?;
        }
    }
    let mut snap_seqs = BTreeMap::new();
    for state in states {
        inner.become_empty_state(state).await?;
        if let Some(snap) = &state.snapshot {
            let id = inner.mark_snapshot(&snap.info.name).await?;
            if snap.protected {
                made.protect_snapshot(&snap.info.name).await?;
            }
            snap_seqs.insert(snap.info.id.0, id.0);
        }
    }
    let pairs = metadata::load_for_copy(&source.inner.io, &source.inner.header).await?;
    if !pairs.is_empty() {
        tell(&inner.io, &inner.header, "metadata_set", |w| w.raw(&pairs.to_bytes())).await?;
    }
    let spec = Migration {
        snap_seqs,
        overlap: source.view().size,
        ..pair.spec(Migration::DESTINATION, plan.is_flat() && source.view().parent.is_some())
    };
    tell(&inner.io, &inner.header, "migration_set", |w| w.put(&spec)).await?;
    inner.header_changed().await
}

impl Inner {
    /// Gives an image without data a state's size, and reduces the overlap to the state's.
    async fn become_empty_state(&self, state: &State) -> Result<(), Error> {
        let _all = self.enter_alone().await?;
        self.refresh().await?;
        let layout = self.fixed.layout;
        let view = self.view.load_full();
        let shrunk = state.overlap.filter(|overlap| view.overlap.is_some_and(|before| *overlap < before));
        for size in shrunk.into_iter().chain([state.size]) {
            self.map.resize(layout.object_count(size)).await?;
            self.set_size(size).await?;
        }
        self.refresh().await
    }

    async fn mark_snapshot(&self, name: &Name) -> Result<SnapId, Error> {
        let _all = self.enter_alone().await?;
        self.take_snapshot(name, &SnapKind::User).await
    }
}
