//! Listing directories.

use std::sync::Arc;

use loligo_fs::{Errno, Error, FileType, Node};

use super::Server;
use crate::dirs::{AFTER_PARENT, AFTER_SELF, Listing, OpenDir};
use crate::kernel::{Answer, DirPage, Head, Op};

impl Server {
    pub(super) async fn directories(&self, head: &Head, op: Op) -> Result<Answer, Error> {
        match op {
            Op::OpenDir => {
                let node = self.seen(head).await?;
                if !node.is_dir() {
                    return Err(Errno::ENOTDIR.into());
                }
                let fh = self.dirs.add(Arc::new(OpenDir::new(node))).ok_or(Errno::ENFILE)?;
                Ok(Answer::opened(fh, 0))
            }
            Op::ReadDir { fh, offset, size, with_stats } => {
                let dir = self.dirs.get(fh).ok_or(Errno::EBADF)?;
                let page = Page { server: self, dir: &dir.node, page: DirPage::new(size), with_stats };
                page.fill(&dir, offset).await
            }
            Op::ReleaseDir { fh } => {
                drop(self.dirs.remove(fh));
                Ok(Answer::Done)
            }
            _ => Err(Errno::ENOSYS.into()),
        }
    }

    /// Returns the number that `..` shows.
    fn number_of_parent(&self, dir: &Node) -> u64 {
        let parent = dir.found_in().map(|(parent, _)| parent);
        self.nodes.shown(parent.filter(|_| dir.id() != self.nodes.root().id()).unwrap_or(dir.id()))
    }
}

/// An answer that is being filled.
struct Page<'s> {
    server: &'s Server,
    dir: &'s Node,
    page: DirPage,
    with_stats: bool,
}

impl Page<'_> {
    async fn fill(mut self, opened: &OpenDir, offset: u64) -> Result<Answer, Error> {
        if offset < AFTER_SELF && !self.add_dots(b".", AFTER_SELF) {
            return Ok(self.page.finish());
        }
        if offset < AFTER_PARENT && !self.add_dots(b"..", AFTER_PARENT) {
            return Ok(self.page.finish());
        }
        let from = offset.max(AFTER_PARENT);
        let mut listing = opened.listing(self.dir, from)?;
        match self.add_entries(&mut listing).await {
            Ok(()) => opened.keep(listing),
            // The page's nodes are counted as known to the kernel: it gets the page, and the error next time.
            Err(_) if listing.at() != from => {}
            Err(e) => return Err(e),
        }
        Ok(self.page.finish())
    }

    fn add_dots(&mut self, name: &[u8], next: u64) -> bool {
        let number = match name {
            b"." => self.server.nodes.shown(self.dir.id()),
            _ => self.server.number_of_parent(self.dir),
        };
        match self.with_stats {
            true => self.page.add_without_node(name, number, FileType::Directory, next),
            false => self.page.add(name, number, FileType::Directory, next),
        }
    }

    async fn add_entries(&mut self, listing: &mut Listing) -> Result<(), Error> {
        while let Some(entry) = listing.next().await? {
            let (number, kind) = (self.server.nodes.shown(entry.node.id()), entry.metadata.file_type());
            let fits = match self.with_stats {
                true => self.page.add_entry(
                    (&entry.name, entry.next),
                    self.server.policy.shown,
                    (number, kind),
                    || self.server.tell(self.dir, &entry.name, &entry.node, &entry.metadata),
                ),
                false => self.page.add(&entry.name, number, kind, entry.next),
            };
            if !fits {
                listing.hold(entry);
                return Ok(());
            }
            listing.gave(entry.next);
        }
        Ok(())
    }
}
