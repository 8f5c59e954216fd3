//! What the kernel must forget.
//!
//! Attributes and names are forgotten at once: the kernel only notes that, and waits for nothing. So the
//! server has its answer only when the kernel asks again for what was taken back.
//!
//! Data is dropped by threads of their own, one for each file at a time, since the kernel waits there for
//! locks of pages (see [`crate::pages`]): a file whose requests wait delays no other. The threads serve no
//! requests and hold no lock.

use std::sync::{Arc, Weak};
use std::time::Duration;

use loligo_fs::{Invalidation, NodeId, Sink, WhenDone};
use loligo_lockstat::{Class, Mutex};
use tokio::runtime::Handle;
use tokio::time::sleep;

use crate::kernel::Kernel;
use crate::nodes::Nodes;
use crate::pages::Pages;

/// Held to note something, and to take the notes; never while the kernel is told.
static NOTES: Class = Class::new("fuse.invalidations");

/// How long bad pages may stay that no read uses: a program that has mapped them gets on meanwhile, and
/// others become bad.
const SOON: Duration = Duration::from_millis(2);

/// Tells the kernel what it must forget.
pub(crate) struct Invalidations {
    notes: Mutex<Notes>,
    nodes: Weak<Nodes>,
    kernel: Kernel,
    runtime: Handle,
}

/// What is to be told of all nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Notes {
    /// A thread is telling the kernel, or about to.
    is_running: bool,
    /// Everything is to be forgotten.
    all: bool,
    /// Files that nobody uses are to be let go.
    trim: bool,
}

impl Notes {
    /// Takes what is noted; `None`, and the thread is free to end, if there is nothing.
    fn take(&mut self) -> Option<Self> {
        let taken = std::mem::take(self);
        self.is_running = taken.all || taken.trim;
        self.is_running.then_some(taken)
    }
}

impl Invalidations {
    pub(crate) fn new(kernel: Kernel, nodes: &Arc<Nodes>, runtime: Handle) -> Arc<Self> {
        let (notes, nodes) = (Mutex::new(&NOTES, Notes::default()), Arc::downgrade(nodes));
        Arc::new(Self { notes, nodes, kernel, runtime })
    }

    /// Has the pages of a file dropped. An answer to a server may wait for it.
    fn drop_pages(self: &Arc<Self>, number: u64, pages: &Arc<Pages>, answer: Option<WhenDone>) {
        let (_, starts) = pages.want_drop(answer);
        if starts {
            self.start(number, pages);
        }
    }

    fn start(self: &Arc<Self>, number: u64, pages: &Arc<Pages>) {
        let (this, pages) = (Arc::clone(self), Arc::clone(pages));
        // A thread that may block, and that the runtime keeps for a while for the next time.
        self.runtime.spawn_blocking(move || pages.run(|| let_pass(this.kernel.forget_data(number))));
    }

    /// The pages of a file have become bad: the kernel asks before it uses them, and drops them soon.
    pub(crate) fn turned_bad(self: &Arc<Self>, number: u64, pages: &Arc<Pages>) {
        let_pass(self.kernel.forget_attributes(number));
        let (this, pages) = (Arc::clone(self), Arc::clone(pages));
        self.runtime.spawn(async move {
            sleep(SOON).await;
            this.drop_pages(number, &pages, None);
        });
    }

    /// Waits until pages of a file are dropped that must not be used.
    pub(crate) async fn settle(self: &Arc<Self>, number: u64, pages: &Arc<Pages>, may_be_kept: bool) {
        let Some((drop, starts)) = pages.want_settled(may_be_kept) else { return };
        if starts {
            self.start(number, pages);
        }
        pages.settled(drop).await;
    }

    /// A server takes the right to keep data of a file back.
    fn take_back(self: &Arc<Self>, id: NodeId, answer: WhenDone) {
        let Some(nodes) = self.nodes.upgrade() else { return };
        let Some(number) = nodes.number(id) else { return };
        let_pass(self.kernel.forget_attributes(number));
        // Otherwise the kernel has nothing, and the server is answered at once.
        if let Some(pages) = nodes.pages(number).filter(|pages| pages.are_there()) {
            pages.spoil();
            self.drop_pages(number, &pages, Some(answer));
        }
    }

    /// Tells the kernel what it forgets without waiting for anything.
    fn tell_at_once(&self, what: &Invalidation) {
        match what {
            Invalidation::Attributes(id) => {
                let number = self.nodes.upgrade().and_then(|nodes| nodes.number(*id));
                if let Some(number) = number {
                    let_pass(self.kernel.forget_attributes(number));
                }
            }
            Invalidation::Names(_) | Invalidation::Name(..) | Invalidation::Everything => {
                let_pass(self.kernel.forget_names());
            }
            Invalidation::Data(..) => {}
        }
    }

    fn note(self: &Arc<Self>, change: impl FnOnce(&mut Notes)) {
        let starts = {
            let mut notes = self.notes.lock();
            change(&mut notes);
            !std::mem::replace(&mut notes.is_running, true)
        };
        if starts {
            let this = Arc::clone(self);
            self.runtime.spawn_blocking(move || this.run());
        }
    }

    /// Tells the kernel until nothing is left.
    fn run(self: &Arc<Self>) {
        loop {
            let Some(notes) = self.notes.lock().take() else { return };
            let Some(nodes) = self.nodes.upgrade() else { return };
            if notes.all {
                self.forget_everything(&nodes);
            }
            if notes.trim {
                self.trim(&nodes);
            }
        }
    }

    fn forget_everything(self: &Arc<Self>, nodes: &Nodes) {
        for number in nodes.all() {
            let_pass(self.kernel.forget_attributes(number));
            if let Some(pages) = nodes.pages(number).filter(|pages| pages.are_there()) {
                pages.spoil();
                self.drop_pages(number, &pages, None);
            }
        }
    }

    /// Has the kernel let go of files that nobody uses. Directories stay: a program may be in one.
    fn trim(&self, nodes: &Nodes) {
        for number in nodes.all() {
            let Some(node) = nodes.get(number).filter(|node| !node.is_dir()) else { continue };
            let Some((dir, name)) = node.found_in() else { continue };
            if let Some(dir) = nodes.number(dir) {
                let_pass(self.kernel.drop_name(dir, &name));
            }
        }
    }
}

/// The kernel refuses a message only if the mount is gone, and with it what it had kept.
fn let_pass(told: std::io::Result<()>) {
    let _ = told;
}

/// What the client tells goes to the kernel.
pub(crate) struct Watch(pub(crate) Arc<Invalidations>);

impl Sink for Watch {
    fn invalidate(&self, what: Invalidation) {
        self.0.tell_at_once(&what);
        match what {
            Invalidation::Data(id, _, answer) => self.0.take_back(id, answer),
            Invalidation::Everything => self.0.note(|notes| notes.all = true),
            Invalidation::Attributes(_) | Invalidation::Names(_) | Invalidation::Name(..) => {}
        }
    }

    fn trim(&self) {
        self.0.note(|notes| notes.trim = true);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_are_taken_once() {
        let mut notes = Notes { is_running: true, ..Notes::default() };
        assert!(notes.take().is_none() && !notes.is_running, "the thread ends");
        notes.all = true;
        assert!(notes.take().is_some_and(|taken| taken.all && !taken.trim));
        assert!(notes.is_running);
        notes.trim = true;
        assert!(notes.take().is_some_and(|taken| taken.trim && !taken.all));
        assert!(notes.take().is_none());
    }
}
