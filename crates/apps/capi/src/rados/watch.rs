//! Watching objects, and notifying their watchers.

use std::ffi::{c_char, c_int, c_void};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use loligo_rados::{IoCtx, Notified, WatcherId};
use loligo_wire::{Errno, GlobalId, Reader, Writer};

use super::aio::submit;
use super::watch_info::{ErrorCallback, Listener, NotifyCallback, OldCallback, Tell, WatchEntry};
use super::{Client, Pool};
use crate::border::{Fail, Lent, calls, plain};
use crate::completion::Outcome;
use crate::memory::{allocated, allocated_array, array, bytes, free, give, put, range};
use crate::runtime::wait;

/// Added to the cookies of watches for what the program has: programs take small numbers for none, since
/// librados gives addresses.
const HANDLES_FROM: u64 = 1 << 32;

/// Registers a watch and enters it in the handle's table; returns the program's handle of it.
async fn watch(
    client: Arc<Client>,
    io: IoCtx,
    oid: Vec<u8>,
    timeout_s: u32,
    listener: Listener,
) -> Result<u64, Fail> {
    let watch = io.watch(oid, Duration::from_secs(timeout_s.into())).await?;
    let cookie = watch.cookie() + HANDLES_FROM;
    let strand = Arc::clone(&client.watch_strand);
    // Entered before its first callback, which may acknowledge.
    let mut watches = client.watches.lock();
    watches.insert(cookie, WatchEntry::start(watch, cookie, listener, strand));
    drop(watches);
    Ok(cookie)
}

/// Ends a watch of the handle's table.
async fn unwatch(client: Arc<Client>, cookie: u64) -> Result<(), Fail> {
    let entry = client.watches.lock().remove(&cookie).ok_or(Errno::ENOENT)?;
    Ok(entry.end().await?)
}

/// The listener that the program gave.
fn listener(
    tell: Option<NotifyCallback>,
    error: Option<ErrorCallback>,
    arg: *mut c_void,
) -> Result<Listener, Fail> {
    let tell = Tell::New(tell.ok_or(Errno::EINVAL)?);
    Ok(Listener { arg: Lent(arg), tell, error })
}

/// Watches an object on the caller's thread.
///
/// # Safety
/// As `rados_watch3`.
unsafe fn watch_now(
    ioctx: *mut c_void,
    oid: *const c_char,
    cookie: *mut u64,
    timeout_s: u32,
    listener: Listener,
) -> Result<c_int, Fail> {
    if cookie.is_null() {
        return Err(Errno::EINVAL.into());
    }
    // SAFETY: by this function's contract.
    unsafe {
        let pool = Pool::of(ioctx)?;
        let (client, io) = (Arc::clone(&pool.client), pool.owned_io());
        let found = wait(watch(client, io, bytes(oid)?.to_vec(), timeout_s, listener))?;
        cookie.write(found);
    }
    Ok(0)
}

/// Watches an object asynchronously.
///
/// # Safety
/// As `rados_aio_watch2`.
unsafe fn watch_later(
    ioctx: *mut c_void,
    oid: *const c_char,
    completion: *mut c_void,
    cookie: *mut u64,
    timeout_s: u32,
    listener: Listener,
) -> Result<c_int, Fail> {
    // SAFETY: by this function's contract.
    let (pool, oid) = unsafe { (Pool::of(ioctx)?, bytes(oid)?.to_vec()) };
    let (client, io, place) = (Arc::clone(&pool.client), pool.owned_io(), Lent(cookie));
    let operation = async move {
        let place = place;
        match watch(client, io, oid, timeout_s, listener).await {
            Ok(cookie) => {
                // SAFETY: the program keeps the place until the operation is complete.
                unsafe { put(place.0, cookie) };
                Outcome::default()
            }
            Err(why) => Outcome::failed(why),
        }
    };
    // SAFETY: by this function's contract.
    unsafe { submit(&pool.client, completion, operation) }
}

calls! {
    /// Watches an object; the library acknowledges notifications.
    fn rados_watch(
        ioctx: *mut c_void, oid: *const c_char, _version: u64, cookie: *mut u64,
        callback: Option<OldCallback>, arg: *mut c_void,
    ) -> c_int {
        let tell = Tell::Old(callback.ok_or(Errno::EINVAL)?);
        watch_now(ioctx, oid, cookie, 0, Listener { arg: Lent(arg), tell, error: None })
    }

    /// Watches an object.
    fn rados_watch2(
        ioctx: *mut c_void, oid: *const c_char, cookie: *mut u64, callback: Option<NotifyCallback>,
        error: Option<ErrorCallback>, arg: *mut c_void,
    ) -> c_int {
        watch_now(ioctx, oid, cookie, 0, listener(callback, error, arg)?)
    }

    /// Watches an object, which the OSD forgets after so many seconds of silence.
    fn rados_watch3(
        ioctx: *mut c_void, oid: *const c_char, cookie: *mut u64, callback: Option<NotifyCallback>,
        error: Option<ErrorCallback>, timeout_s: u32, arg: *mut c_void,
    ) -> c_int {
        watch_now(ioctx, oid, cookie, timeout_s, listener(callback, error, arg)?)
    }

    /// Watches an object asynchronously.
    fn rados_aio_watch(
        ioctx: *mut c_void, oid: *const c_char, completion: *mut c_void, cookie: *mut u64,
        callback: Option<NotifyCallback>, error: Option<ErrorCallback>, arg: *mut c_void,
    ) -> c_int {
        watch_later(ioctx, oid, completion, cookie, 0, listener(callback, error, arg)?)
    }

    /// Watches an object asynchronously, with a timeout.
    fn rados_aio_watch2(
        ioctx: *mut c_void, oid: *const c_char, completion: *mut c_void, cookie: *mut u64,
        callback: Option<NotifyCallback>, error: Option<ErrorCallback>, timeout_s: u32, arg: *mut c_void,
    ) -> c_int {
        watch_later(ioctx, oid, completion, cookie, timeout_s, listener(callback, error, arg)?)
    }

    /// Milliseconds since the watch was confirmed, or why it is broken.
    fn rados_watch_check(ioctx: *mut c_void, cookie: u64) -> c_int {
        let entry = Pool::of(ioctx)?.client.watches.lock().get(&cookie).cloned();
        entry.ok_or(Errno::ENOTCONN)?.check()
    }

    /// Ends a watch.
    fn rados_unwatch(ioctx: *mut c_void, _oid: *const c_char, cookie: u64) -> c_int {
        wait(unwatch(Arc::clone(&Pool::of(ioctx)?.client), cookie))?;
        Ok(0)
    }

    /// Ends a watch.
    fn rados_unwatch2(ioctx: *mut c_void, cookie: u64) -> c_int {
        wait(unwatch(Arc::clone(&Pool::of(ioctx)?.client), cookie))?;
        Ok(0)
    }

    /// Ends a watch asynchronously.
    fn rados_aio_unwatch(ioctx: *mut c_void, cookie: u64, completion: *mut c_void) -> c_int {
        let client = Arc::clone(&Pool::of(ioctx)?.client);
        let ending = unwatch(Arc::clone(&client), cookie);
        submit(&client, completion, async move {
            ending.await.map_or_else(Outcome::failed, |()| Outcome::default())
        })
    }

    /// Notifies watchers and waits for their answers.
    fn rados_notify(
        ioctx: *mut c_void, oid: *const c_char, _version: u64, data: *const c_char, len: c_int,
    ) -> c_int {
        let pool = Pool::of(ioctx)?;
        let data = Bytes::copy_from_slice(range(data, usize::try_from(len).unwrap_or(0)));
        pool.run(pool.owned_io().notify(bytes(oid)?, data, Duration::ZERO))?;
        Ok(0)
    }

    /// Notifies watchers, waits for their answers and gives them, allocated.
    fn rados_notify2(
        ioctx: *mut c_void, oid: *const c_char, data: *const c_char, len: c_int, timeout_ms: u64,
        reply: *mut *mut c_char, reply_len: *mut usize,
    ) -> c_int {
        let pool = Pool::of(ioctx)?;
        let data = Bytes::copy_from_slice(range(data, usize::try_from(len).unwrap_or(0)));
        let notified = notify(pool.owned_io(), bytes(oid)?.to_vec(), data, timeout_ms);
        let (result, answers) = wait(notified);
        give(&answers, reply, reply_len);
        result?;
        Ok(0)
    }

    /// Notifies watchers asynchronously.
    fn rados_aio_notify(
        ioctx: *mut c_void, oid: *const c_char, completion: *mut c_void, data: *const c_char, len: c_int,
        timeout_ms: u64, reply: *mut *mut c_char, reply_len: *mut usize,
    ) -> c_int {
        let pool = Pool::of(ioctx)?;
        let data = Bytes::copy_from_slice(range(data, usize::try_from(len).unwrap_or(0)));
        let notified = notify(pool.owned_io(), bytes(oid)?.to_vec(), data, timeout_ms);
        let places = (Lent(reply), Lent(reply_len));
        submit(&pool.client, completion, async move {
            let places = places;
            let (result, answers) = notified.await;
            // SAFETY: the program keeps the places until the operation is complete.
            unsafe { give(&answers, places.0.0, places.1.0) };
            result.map_or_else(Outcome::failed, |()| Outcome::default())
        })
    }

    /// Takes the answers to a notification apart.
    fn rados_decode_notify_response(
        reply: *mut c_char, len: usize, acks: *mut *mut Ack, acks_len: *mut usize,
        timeouts: *mut *mut Timeout, timeouts_len: *mut usize,
    ) -> c_int {
        let mut r = Reader::new(range(reply, len));
        let answers: Vec<((u64, u64), Bytes)> = r.get()?;
        let missing: Vec<(u64, u64)> = r.get()?;
        put(acks_len, answers.len());
        put(timeouts_len, missing.len());
        let ack = |((notifier, cookie), payload): ((u64, u64), Bytes)| Ack {
            notifier,
            cookie,
            payload: allocated(&payload),
            len: payload.len() as u64,
        };
        put(acks, allocated_array(answers.into_iter().map(ack).collect()));
        let timeout = |(notifier, cookie)| Timeout { notifier, cookie };
        put(timeouts, allocated_array(missing.into_iter().map(timeout).collect()));
        Ok(0)
    }

    /// Acknowledges a notification.
    fn rados_notify_ack(
        ioctx: *mut c_void, _oid: *const c_char, notify: u64, cookie: u64, data: *const c_char, len: c_int,
    ) -> c_int {
        let entry = Pool::of(ioctx)?.client.watches.lock().get(&cookie).cloned();
        if let Some(entry) = entry {
            let data = range(data, usize::try_from(len).unwrap_or(0));
            entry.acknowledge(notify, Bytes::copy_from_slice(data));
        }
        Ok(0)
    }

    /// Waits until the callbacks of notifications that came before have returned.
    fn rados_watch_flush(cluster: *mut c_void) -> c_int {
        Client::of(cluster)?.watch_strand.flush();
        Ok(0)
    }

    /// Completes when the callbacks of notifications that came before have returned.
    fn rados_aio_watch_flush(cluster: *mut c_void, completion: *mut c_void) -> c_int {
        let client = Client::shared(cluster)?;
        let reached = client.watch_strand.push_and_wait(|| {});
        submit(&client, completion, async move {
            reached.await;
            Outcome::default()
        })
    }
}

plain! {
    /// Frees what `rados_decode_notify_response` gave.
    fn rados_free_notify_response(acks: *mut Ack, count: usize, timeouts: *mut Timeout) -> () {
        for ack in array(acks.cast_const(), count) {
            free(ack.payload);
        }
        free(acks);
        free(timeouts);
    }
}

/// `struct notify_ack_t`.
#[repr(C)]
pub(super) struct Ack {
    notifier: u64,
    cookie: u64,
    payload: *mut c_char,
    len: u64,
}

/// `struct notify_timeout_t`.
#[repr(C)]
pub(super) struct Timeout {
    notifier: u64,
    cookie: u64,
}

/// Notifies watchers; returns the result and the answers as the OSD encodes them, which there are also if
/// some watchers did not answer.
async fn notify(io: IoCtx, oid: Vec<u8>, data: Bytes, timeout_ms: u64) -> (Result<(), Fail>, Bytes) {
    let own = io.rados().instance_id();
    // The OSD counts whole seconds; less than one is its default.
    match io.notify(oid, data, Duration::from_secs(timeout_ms / 1000)).await {
        Ok(notified) => {
            let result = if notified.missing.is_empty() { Ok(()) } else { Err(Errno::ETIMEDOUT.into()) };
            (result, encoded(&notified, own))
        }
        Err(why) => (Err(why.into()), Bytes::new()),
    }
}

/// The answers, in which the watches of this client have the cookies that the program knows.
fn encoded(notified: &Notified, own: GlobalId) -> Bytes {
    let id = |watcher: &WatcherId| {
        let GlobalId(client) = watcher.client;
        (client, watcher.cookie + if watcher.client == own { HANDLES_FROM } else { 0 })
    };
    let answers: Vec<((u64, u64), Bytes)> =
        notified.answers.iter().map(|(watcher, answer)| (id(watcher), answer.clone())).collect();
    let missing: Vec<(u64, u64)> = notified.missing.iter().map(id).collect();
    let mut w = Writer::new();
    w.put(&answers);
    w.put(&missing);
    w.into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_taken_apart_as_they_were_put_together() {
        let watcher = |client, cookie| WatcherId { client: GlobalId(client), cookie };
        let notified = Notified {
            answers: [(watcher(4, 7), Bytes::from_static(b"yes")), (watcher(5, 8), Bytes::new())].into(),
            missing: vec![watcher(6, 9)],
        };
        let reply = encoded(&notified, GlobalId(5));
        let (mut acks, mut timeouts) = (std::ptr::null_mut(), std::ptr::null_mut());
        let (mut acks_len, mut timeouts_len) = (0, 0);
        // SAFETY: the reply has as many bytes as is said, and the places are this test's.
        unsafe {
            let reply_start = reply.as_ptr().cast_mut().cast();
            let result = rados_decode_notify_response(
                reply_start,
                reply.len(),
                &mut acks,
                &mut acks_len,
                &mut timeouts,
                &mut timeouts_len,
            );
            assert_eq!((result, acks_len, timeouts_len), (0, 2, 1));
            let first = &*acks;
            assert_eq!((first.notifier, first.cookie, first.len), (4, 7, 3));
            assert_eq!(range(first.payload, 3), b"yes");
            assert!((*acks.add(1)).payload.is_null());
            assert_eq!((*acks.add(1)).cookie, 8 + HANDLES_FROM, "this client's own watch");
            assert_eq!(((*timeouts).notifier, (*timeouts).cookie), (6, 9));
            rados_free_notify_response(acks, acks_len, timeouts);
        }
    }
}
