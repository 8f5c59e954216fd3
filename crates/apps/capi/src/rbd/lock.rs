//! The exclusive lock of an image, and the locks that users take.

use std::ffi::{c_char, c_int, c_void};

use loligo_rados::LockMode;
use loligo_rbd::{Evicted, Name};
use loligo_wire::Errno;

use super::image::ImageHandle;
use crate::border::{calls, plain};
use crate::memory::{allocated_text, bytes, optional_text, put, text};
use crate::rados::{client_of, give_holders};

const EXCLUSIVE: c_int = 0;

calls! {
    /// Whether this client has the exclusive lock. One that thinks so asks the OSD: the lock may have been
    /// taken away.
    fn rbd_is_exclusive_lock_owner(image: *mut c_void, is_owner: *mut c_int) -> c_int {
        let handle = ImageHandle::of(image)?;
        let image = handle.image();
        let mut owns = image.is_lock_owner();
        if owns {
            let own = i64::try_from(handle.io.rados().instance_id().0).map_err(|_| Errno::ERANGE)?;
            let info = ImageHandle::run(image.lock_info())?;
            owns = info.holders.iter().any(|holder| holder.client.num == own);
        }
        put(is_owner, owns.into());
        Ok(0)
    }

    /// Takes the exclusive lock, and keeps it until it is given back: other clients that want it are refused.
    fn rbd_lock_acquire(image: *mut c_void, mode: c_int) -> c_int {
        if mode != EXCLUSIVE {
            return Err(Errno::EOPNOTSUPP.into());
        }
        let image = ImageHandle::of(image)?.image();
        ImageHandle::run(image.keep_lock())?;
        Ok(0)
    }

    /// Gives the exclusive lock back; EINVAL without it.
    fn rbd_lock_release(image: *mut c_void) -> c_int {
        let image = ImageHandle::of(image)?.image();
        if !image.is_lock_owner() {
            return Err(Errno::EINVAL.into());
        }
        ImageHandle::run(image.release_lock())?;
        Ok(0)
    }

    /// The owners of the exclusive lock, by address: there is one.
    fn rbd_lock_get_owners(
        image: *mut c_void, mode: *mut c_int, owners: *mut *mut c_char, count: *mut usize,
    ) -> c_int {
        let image = ImageHandle::of(image)?.image();
        let info = ImageHandle::run(image.lock_info())?;
        let holder = info.holders.first().ok_or(Errno::ENOENT)?;
        if count.read() < 1 {
            count.write(1);
            return Err(Errno::ERANGE.into());
        }
        put(mode, EXCLUSIVE);
        owners.write(allocated_text(holder.addr.to_string().as_bytes()));
        count.write(1);
        Ok(0)
    }

    /// Takes the exclusive lock away from its owner, and puts the owner on the blocklist.
    fn rbd_lock_break(image: *mut c_void, mode: c_int, owner: *const c_char) -> c_int {
        if mode != EXCLUSIVE {
            return Err(Errno::EOPNOTSUPP.into());
        }
        let (image, owner) = (ImageHandle::of(image)?.image(), text(owner)?);
        let info = ImageHandle::run(image.lock_info())?;
        let holder = info.holders.into_iter().find(|holder| holder.addr.to_string() == owner);
        let holder = holder.ok_or(Errno::EBUSY)?;
        ImageHandle::run(image.break_lock(holder.client, holder.cookie, Evicted::Yes))?;
        Ok(0)
    }

    /// Lists the clients that have locked the image.
    fn rbd_list_lockers(
        image: *mut c_void, exclusive: *mut c_int, tag: *mut c_char, tag_len: *mut usize,
        clients: *mut c_char, clients_len: *mut usize, cookies: *mut c_char, cookies_len: *mut usize,
        addrs: *mut c_char, addrs_len: *mut usize,
    ) -> isize {
        let image = ImageHandle::of(image)?.image();
        let info = ImageHandle::run(image.lock_info())?;
        put(exclusive, (info.mode == Some(LockMode::Exclusive)).into());
        let lists = [(clients, clients_len), (cookies, cookies_len), (addrs, addrs_len)];
        give_holders(&info.holders, &info.tag.to_string(), (tag, tag_len), lists)
    }

    /// Locks the image for this client alone, until it is unlocked.
    fn rbd_lock_exclusive(image: *mut c_void, cookie: *const c_char) -> c_int {
        let image = ImageHandle::of(image)?.image();
        ImageHandle::run(image.lock_by_hand(bytes(cookie)?, None))?;
        Ok(0)
    }

    /// Locks the image together with others that give the same tag.
    fn rbd_lock_shared(image: *mut c_void, cookie: *const c_char, tag: *const c_char) -> c_int {
        let image = ImageHandle::of(image)?.image();
        let tag = Name::from(optional_text(tag)?.unwrap_or(""));
        ImageHandle::run(image.lock_by_hand(bytes(cookie)?, Some(&tag)))?;
        Ok(0)
    }

    /// Unlocks the image.
    fn rbd_unlock(image: *mut c_void, cookie: *const c_char) -> c_int {
        let image = ImageHandle::of(image)?.image();
        ImageHandle::run(image.unlock_by_hand(bytes(cookie)?))?;
        Ok(0)
    }

    /// Takes a lock away from another client.
    fn rbd_break_lock(image: *mut c_void, client: *const c_char, cookie: *const c_char) -> c_int {
        let image = ImageHandle::of(image)?.image();
        let client = client_of(text(client)?)?;
        ImageHandle::run(image.break_lock(client, bytes(cookie)?, Evicted::Yes))?;
        Ok(0)
    }
}

plain! {
    /// Frees the addresses of owners; the array is the program's.
    fn rbd_lock_get_owners_cleanup(owners: *mut *mut c_char, count: usize) -> () {
        for at in 0..count {
            super::list::free_text(&mut *owners.add(at));
        }
    }
}
