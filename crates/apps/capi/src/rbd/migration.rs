//! Migration: moving an image while it is in use.

use std::ffi::{c_char, c_int, c_void};

use loligo_rbd::migration::{self, End, State};
use loligo_rbd::{Ancestry, Error};
use loligo_wire::Errno;

use super::image::ImageHandle;
use super::list::free_text;
use super::options::Bag;
use super::progress::{Callback, Progress};
use crate::border::{Fail, calls, plain};
use crate::memory::{allocated_text, bytes, ended, fill, put};
use crate::rados::Pool;
use crate::runtime::wait;

/// `rbd_image_migration_status_t`.
#[repr(C)]
pub(super) struct Status {
    source: Place,
    destination: Place,
    state: c_int,
    description: *mut c_char,
}

/// One of the two images of a migration, as the structure has them.
#[repr(C)]
struct Place {
    pool: i64,
    namespace: *mut c_char,
    name: *mut c_char,
    id: *mut c_char,
}

impl Place {
    fn of(end: &End) -> Self {
        Self {
            pool: end.pool.0,
            namespace: allocated_text(end.namespace.as_bytes()),
            name: allocated_text(end.name.as_bytes()),
            id: allocated_text(end.id.as_bytes()),
        }
    }

    /// # Safety
    /// The texts were allocated by this library, or are NULL.
    unsafe fn clean_up(&mut self) {
        for text in [&mut self.namespace, &mut self.name, &mut self.id] {
            // SAFETY: by this function's contract.
            unsafe { free_text(text) };
        }
    }
}

/// `rbd_image_migration_state_t`.
fn code(state: State) -> c_int {
    match state {
        State::Error => 0,
        State::Preparing => 1,
        State::Prepared => 2,
        State::Executing => 3,
        State::Executed => 4,
        State::Aborting => 5,
        State::Unknown => -1,
    }
}

/// A step of a migration.
#[derive(Clone, Copy)]
enum Step {
    Execute,
    Commit,
    Abort,
}

/// Takes a step.
///
/// # Safety
/// The handle and the name are valid.
unsafe fn take(
    step: Step,
    ioctx: *mut c_void,
    name: *const c_char,
    progress: Progress,
) -> Result<c_int, Fail> {
    // SAFETY: by this function's contract.
    let (io, name) = unsafe { (Pool::of(ioctx)?.owned_io(), bytes(name)?.to_vec()) };
    progress.run(|tell| async move {
        match step {
            Step::Execute => migration::execute(&io, name, tell).await,
            Step::Commit => migration::commit(&io, name, tell).await,
            Step::Abort => migration::abort(&io, name, tell).await,
        }
    })?;
    Ok(0)
}

/// No callback.
fn quiet() -> Progress {
    Progress::new(None, std::ptr::null_mut())
}

calls! {
    /// Begins to move an image: from now on the new one is used.
    fn rbd_migration_prepare(
        ioctx: *mut c_void, name: *const c_char, to_ioctx: *mut c_void, to_name: *const c_char,
        bag: *mut c_void,
    ) -> c_int {
        let (io, to) = (Pool::of(ioctx)?.owned_io(), Pool::of(to_ioctx)?.owned_io());
        let bag = if bag.is_null() { Bag::default() } else { Bag::of(bag)?.clone() };
        let new = bag.new_copy(&to, 0)?;
        let ancestry = if bag.flatten() { Ancestry::Flattened } else { Ancestry::Kept };
        wait(migration::prepare(&io, bytes(name)?, &to, bytes(to_name)?, new, ancestry))?;
        Ok(0)
    }

    /// Copies what is still in the old image.
    fn rbd_migration_execute(ioctx: *mut c_void, name: *const c_char) -> c_int {
        take(Step::Execute, ioctx, name, quiet())
    }

    /// Copies what is still in the old image and tells the progress.
    fn rbd_migration_execute_with_progress(
        ioctx: *mut c_void, name: *const c_char, callback: Option<Callback>, arg: *mut c_void,
    ) -> c_int {
        take(Step::Execute, ioctx, name, Progress::new(callback, arg))
    }

    /// Removes the old image.
    fn rbd_migration_commit(ioctx: *mut c_void, name: *const c_char) -> c_int {
        take(Step::Commit, ioctx, name, quiet())
    }

    /// Removes the old image and tells the progress.
    fn rbd_migration_commit_with_progress(
        ioctx: *mut c_void, name: *const c_char, callback: Option<Callback>, arg: *mut c_void,
    ) -> c_int {
        take(Step::Commit, ioctx, name, Progress::new(callback, arg))
    }

    /// Goes back to the old image.
    fn rbd_migration_abort(ioctx: *mut c_void, name: *const c_char) -> c_int {
        take(Step::Abort, ioctx, name, quiet())
    }

    /// Goes back to the old image and tells the progress.
    fn rbd_migration_abort_with_progress(
        ioctx: *mut c_void, name: *const c_char, callback: Option<Callback>, arg: *mut c_void,
    ) -> c_int {
        take(Step::Abort, ioctx, name, Progress::new(callback, arg))
    }

    /// Tells where the data of an image that is being migrated comes from, as JSON; ENOENT of another image.
    fn rbd_get_migration_source_spec(image: *mut c_void, to: *mut c_char, len: *mut usize) -> c_int {
        let image = ImageHandle::of(image)?.image();
        ImageHandle::run(image.refresh())?;
        let view = image.view();
        let source = view.migration.as_ref().ok_or(Errno::ENOENT)?;
        let text = serde_json::json!({
            "type": "native",
            "pool_id": source.pool,
            "pool_namespace": source.nspace.to_string(),
            "image_name": source.name.to_string(),
            "image_id": source.image,
        });
        fill(to, len, &ended(text.to_string().as_bytes()))?;
        Ok(0)
    }

    /// Tells how far a migration is; EINVAL if there is none.
    fn rbd_migration_status(
        ioctx: *mut c_void, name: *const c_char, status: *mut Status, size: usize,
    ) -> c_int {
        if size != size_of::<Status>() {
            return Err(Errno::ERANGE.into());
        }
        let io = Pool::of(ioctx)?.owned_io();
        let found = match wait(migration::status(&io, bytes(name)?)) {
            Ok(Some(found)) => found,
            Ok(None) | Err(Error::NotMigrating) => return Err(Errno::EINVAL.into()),
            Err(why) => return Err(why.into()),
        };
        put(status, Status {
            source: Place::of(&found.source),
            destination: Place::of(&found.destination),
            state: code(found.state),
            description: allocated_text(found.description.as_bytes()),
        });
        Ok(0)
    }
}

plain! {
    /// Frees the texts of a status.
    fn rbd_migration_status_cleanup(status: *mut Status) -> () {
        if let Some(status) = status.as_mut() {
            status.source.clean_up();
            status.destination.clean_up();
            free_text(&mut status.description);
        }
    }
}
