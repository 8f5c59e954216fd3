//! Parents of clones, and clones of snapshots.

use std::collections::BTreeSet;
use std::ffi::{c_char, c_int, c_void};

use loligo_rados::{IoCtx, PoolId};
use loligo_rbd::{Child, Image, Mode, Name, Parent};
use loligo_wire::Errno;

use super::image::ImageHandle;
use super::list::{fill_array, free_text};
use crate::border::{Fail, calls, plain};
use crate::memory::{allocated_text, fill, fill_text, joined, put};
use crate::runtime::wait;

/// `rbd_linked_image_spec_t`.
#[repr(C)]
pub(super) struct Linked {
    pool: i64,
    pool_name: *mut c_char,
    namespace: *mut c_char,
    id: *mut c_char,
    name: *mut c_char,
    in_trash: bool,
}

/// `rbd_snap_spec_t`.
#[repr(C)]
pub(super) struct SnapSpec {
    id: u64,
    kind: c_int,
    name: *mut c_char,
}

/// `rbd_child_info_t`.
#[repr(C)]
pub(super) struct ChildInfo {
    pool_name: *mut c_char,
    name: *mut c_char,
    id: *mut c_char,
    in_trash: bool,
}

impl ChildInfo {
    /// # Safety
    /// As [`Linked::clean_up`].
    unsafe fn clean_up(&mut self) {
        for text in [&mut self.pool_name, &mut self.name, &mut self.id] {
            // SAFETY: by this function's contract.
            unsafe { free_text(text) };
        }
    }
}

/// The name of a pool; empty if it is gone.
pub(super) fn pool_name(io: &IoCtx, pool: PoolId) -> String {
    crate::rados::name_of(io.rados(), pool).unwrap_or_default()
}

impl Linked {
    fn new(io: &IoCtx, pool: PoolId, [namespace, id, name]: [&[u8]; 3], in_trash: bool) -> Self {
        Self {
            pool: pool.0,
            pool_name: allocated_text(pool_name(io, pool).as_bytes()),
            namespace: allocated_text(namespace),
            id: allocated_text(id),
            name: allocated_text(name),
            in_trash,
        }
    }

    fn of_child(io: &IoCtx, child: &Child) -> Self {
        let texts = [child.namespace.as_bytes(), child.id.as_bytes(), child.name.as_bytes()];
        Self::new(io, child.pool, texts, child.in_trash)
    }

    fn of_parent(io: &IoCtx, parent: &Parent) -> Self {
        let texts = [parent.namespace.as_bytes(), parent.id.as_bytes(), parent.image.as_bytes()];
        Self::new(io, parent.pool, texts, parent.in_trash)
    }

    /// # Safety
    /// The texts were allocated by this library, or are NULL.
    unsafe fn clean_up(&mut self) {
        for text in [&mut self.pool_name, &mut self.namespace, &mut self.id, &mut self.name] {
            // SAFETY: by this function's contract.
            unsafe { free_text(text) };
        }
    }
}

/// The parent of an image.
///
/// # Errors
/// ENOENT if it has none.
///
/// # Safety
/// `image` is a handle.
unsafe fn parent_of<'a>(image: *mut c_void) -> Result<(&'a ImageHandle, Parent), Fail> {
    // SAFETY: by this function's contract.
    let handle = unsafe { ImageHandle::of(image) }?;
    let image = handle.image();
    ImageHandle::run(image.refresh())?;
    let parent = ImageHandle::run(image.parent())?.ok_or(Errno::ENOENT)?;
    Ok((handle, parent))
}

/// The clones of the open snapshot, or of all snapshots.
fn children_of(handle: &ImageHandle) -> Result<Vec<Child>, Fail> {
    let snapshot = handle.snapshot.load_full();
    ImageHandle::run(handle.image().children((*snapshot).as_ref()))
}

/// The clones of an image's snapshots, their clones, and so on.
fn descendants_of(handle: &ImageHandle) -> Result<Vec<Child>, Fail> {
    let mut all = children_of(handle)?;
    // Each is followed once, whatever the cluster says.
    let mut seen: BTreeSet<Child> = all.iter().cloned().collect();
    let mut next = 0;
    while let Some(child) = all.get(next).cloned() {
        next += 1;
        let io = handle.io.rados().ioctx_by_id(child.pool).with_namespace(child.namespace.as_bytes());
        let more = wait(async {
            let image = Image::open_by_id(&io, &child.id, Mode::Header).await?;
            image.children(None).await
        })?;
        all.extend(more.into_iter().filter(|child| seen.insert(child.clone())));
    }
    Ok(all)
}

/// Copies the names of a parent to the caller's memory, where it wants them.
///
/// # Safety
/// Each place has as much room as is said, or is NULL.
unsafe fn give_parent(
    image: *mut c_void,
    pool: (*mut c_char, usize),
    name: (*mut c_char, usize),
    id: (*mut c_char, usize),
    snapshot: (*mut c_char, usize),
) -> Result<c_int, Fail> {
    // SAFETY: by this function's contract.
    unsafe {
        let (handle, parent) = parent_of(image)?;
        let pool_name = pool_name(&handle.io, parent.pool);
        let texts = [
            (pool, pool_name.as_bytes()),
            (name, parent.image.as_bytes()),
            (id, parent.id.as_bytes()),
            (snapshot, parent.snapshot.as_bytes()),
        ];
        for ((place, room), text) in texts {
            if !place.is_null() {
                fill_text(place, room, text)?;
            }
        }
    }
    Ok(0)
}

calls! {
    /// Tells about the image and the snapshot that this image is a clone of.
    fn rbd_get_parent(image: *mut c_void, parent: *mut Linked, snapshot: *mut SnapSpec) -> c_int {
        let (handle, found) = parent_of(image)?;
        let view = handle.image().view();
        put(parent, Linked::of_parent(&handle.io, &found));
        put(snapshot, SnapSpec {
            id: view.parent.as_ref().map_or(0, |spec| spec.snap.0),
            kind: 0,
            name: allocated_text(found.snapshot.as_bytes()),
        });
        Ok(0)
    }

    /// Copies the names of the parent.
    fn rbd_get_parent_info(
        image: *mut c_void, pool: *mut c_char, pool_room: usize, name: *mut c_char, name_room: usize,
        snapshot: *mut c_char, snapshot_room: usize,
    ) -> c_int {
        let none = (std::ptr::null_mut(), 0);
        give_parent(image, (pool, pool_room), (name, name_room), none, (snapshot, snapshot_room))
    }

    /// Copies the names and the id of the parent.
    fn rbd_get_parent_info2(
        image: *mut c_void, pool: *mut c_char, pool_room: usize, name: *mut c_char, name_room: usize,
        id: *mut c_char, id_room: usize, snapshot: *mut c_char, snapshot_room: usize,
    ) -> c_int {
        let snapshot = (snapshot, snapshot_room);
        give_parent(image, (pool, pool_room), (name, name_room), (id, id_room), snapshot)
    }

    /// Lists the clones' pools and names, each with a NUL; returns their number.
    fn rbd_list_children(
        image: *mut c_void, pools: *mut c_char, pools_len: *mut usize, names: *mut c_char,
        names_len: *mut usize,
    ) -> isize {
        let handle = ImageHandle::of(image)?;
        let mut children = children_of(handle)?;
        children.retain(|child| !child.in_trash);
        let pool_names: Vec<Name> =
            children.iter().map(|child| Name::from(pool_name(&handle.io, child.pool))).collect();
        let filled = fill(pools, pools_len, &joined(&pool_names));
        fill(names, names_len, &joined(children.iter().map(|child| &child.name)))?;
        filled?;
        isize::try_from(children.len()).map_err(|_| Errno::ERANGE.into())
    }

    /// Lists the clones; returns their number.
    fn rbd_list_children2(image: *mut c_void, to: *mut ChildInfo, room: *mut c_int) -> c_int {
        let handle = ImageHandle::of(image)?;
        let children = children_of(handle)?;
        let count = c_int::try_from(children.len()).map_err(|_| Errno::ERANGE)?;
        // One more entry ends the list.
        if room.read() < count + 1 {
            room.write(count + 1);
            return Err(Errno::ERANGE.into());
        }
        for (at, child) in children.iter().enumerate() {
            to.add(at).write(ChildInfo {
                pool_name: allocated_text(pool_name(&handle.io, child.pool).as_bytes()),
                name: allocated_text(child.name.as_bytes()),
                id: allocated_text(child.id.as_bytes()),
                in_trash: child.in_trash,
            });
        }
        let none = std::ptr::null_mut();
        to.add(children.len()).write(ChildInfo { pool_name: none, name: none, id: none, in_trash: false });
        Ok(count)
    }

    /// Lists the clones.
    fn rbd_list_children3(image: *mut c_void, to: *mut Linked, count: *mut usize) -> c_int {
        let handle = ImageHandle::of(image)?;
        let children = children_of(handle)?;
        give_linked(handle, &children, to, count)
    }

    /// Lists the clones, their clones, and so on.
    fn rbd_list_descendants(image: *mut c_void, to: *mut Linked, count: *mut usize) -> c_int {
        let handle = ImageHandle::of(image)?;
        let children = descendants_of(handle)?;
        give_linked(handle, &children, to, count)
    }
}

/// Stores clones in the caller's array.
///
/// # Safety
/// As [`fill_array`].
unsafe fn give_linked(
    handle: &ImageHandle,
    children: &[Child],
    to: *mut Linked,
    count: *mut usize,
) -> Result<c_int, Fail> {
    // SAFETY: by this function's contract.
    unsafe { fill_array(to, count, children.iter().map(|child| Linked::of_child(&handle.io, child)))? };
    Ok(0)
}

plain! {
    /// Frees what names a linked image.
    fn rbd_linked_image_spec_cleanup(spec: *mut Linked) -> () {
        if let Some(spec) = spec.as_mut() {
            spec.clean_up();
        }
    }

    /// Frees what names linked images; the array is the program's.
    fn rbd_linked_image_spec_list_cleanup(specs: *mut Linked, count: usize) -> () {
        for at in 0..count {
            (*specs.add(at)).clean_up();
        }
    }

    /// Frees the name of a snapshot.
    fn rbd_snap_spec_cleanup(spec: *mut SnapSpec) -> () {
        if let Some(spec) = spec.as_mut() {
            free_text(&mut spec.name);
        }
    }

    /// Frees what names a clone.
    fn rbd_list_child_cleanup(child: *mut ChildInfo) -> () {
        if let Some(child) = child.as_mut() {
            child.clean_up();
        }
    }

    /// Frees what names clones; the array is the program's.
    fn rbd_list_children_cleanup(children: *mut ChildInfo, count: usize) -> () {
        for at in 0..count {
            (*children.add(at)).clean_up();
        }
    }
}
