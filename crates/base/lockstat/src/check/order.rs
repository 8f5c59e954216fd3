//! The order of classes, learnt while the program runs.
//!
//! When a thread that holds a lock of class A is about to acquire one of class B, the edge A → B is
//! recorded with both call sites. If a path B → … → A is known already, two threads could deadlock; this
//! is an error even if they did not this time.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::panic::Location;
use std::sync::{LazyLock, Mutex, PoisonError};

use super::Acquisition;
use crate::Class;

/// "`to` was acquired while `from` was held", as first seen.
#[derive(Clone, Copy)]
struct Edge {
    from: &'static Class,
    from_site: &'static Location<'static>,
    to: &'static Class,
    to_site: &'static Location<'static>,
}

/// An order of acquisition that contradicts an earlier one.
pub(super) struct Cycle {
    held: Acquisition,
    new: Acquisition,
    /// The path from the new class to the held one.
    earlier: Vec<Edge>,
}

/// The edges that leave each class, by the class's number.
type Graph = HashMap<u32, Vec<Edge>>;

static GRAPH: LazyLock<Mutex<Graph>> = LazyLock::new(Mutex::default);

thread_local! {
    /// Edges already accepted for this thread, which need no look-up in the graph.
    static ACCEPTED: RefCell<HashSet<(u32, u32)>> = RefCell::default();
}

/// Adds the edges from each held lock to the new one, unless one of them closes a cycle.
pub(super) fn learn(held: &[Acquisition], new: Acquisition) -> Result<(), Cycle> {
    for &held in held {
        let edge = (held.class.id(), new.class.id());
        if edge.0 == edge.1 || is_accepted(edge) {
            continue;
        }
        insert(held, new)?;
        let _ = ACCEPTED.try_with(|accepted| accepted.borrow_mut().insert(edge));
    }
    Ok(())
}

fn is_accepted(edge: (u32, u32)) -> bool {
    ACCEPTED.try_with(|accepted| accepted.borrow().contains(&edge)).unwrap_or(true)
}

fn insert(held: Acquisition, new: Acquisition) -> Result<(), Cycle> {
    let mut graph = GRAPH.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(earlier) = path(&graph, new.class, held.class) {
        return Err(Cycle { held, new, earlier });
    }
    let edges = graph.entry(held.class.id()).or_default();
    if !edges.iter().any(|e| std::ptr::eq(e.to, new.class)) {
        edges.push(Edge { from: held.class, from_site: held.site, to: new.class, to_site: new.site });
    }
    Ok(())
}

/// Returns the edges of a path from one class to another, if there is one. Depth first; visits each
/// class once.
fn path(graph: &Graph, from: &'static Class, to: &'static Class) -> Option<Vec<Edge>> {
    let mut visited = HashSet::from([from.id()]);
    let mut trail: Vec<Edge> = Vec::new();
    let mut pending = vec![graph.get(&from.id())?.iter()];
    while let Some(edges) = pending.last_mut() {
        let Some(edge) = edges.next() else {
            pending.pop();
            trail.pop();
            continue;
        };
        if !visited.insert(edge.to.id()) {
            continue;
        }
        trail.push(*edge);
        if std::ptr::eq(edge.to, to) {
            return Some(trail);
        }
        pending.push(graph.get(&edge.to.id()).map_or([].iter(), |edges| edges.iter()));
    }
    None
}

impl fmt::Display for Cycle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (held, new) = (self.held, self.new);
        writeln!(
            f,
            "lock order: `{}` is acquired while `{}` is held, but",
            new.class.name(),
            held.class.name()
        )?;
        writeln!(
            f,
            "  now:     `{}` ({}) -> `{}` ({})",
            held.class.name(),
            held.site,
            new.class.name(),
            new.site
        )?;
        for edge in &self.earlier {
            let Edge { from, from_site, to, to_site } = edge;
            writeln!(f, "  earlier: `{}` ({from_site}) -> `{}` ({to_site})", from.name(), to.name())?;
        }
        write!(f, "two threads doing both at once would wait for each other for ever")
    }
}
