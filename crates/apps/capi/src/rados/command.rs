//! Commands to monitors, managers and OSDs.

use std::ffi::{c_char, c_int, c_void};

use bytes::Bytes;
use loligo_rados::{CommandReply, OsdId, PgId, Rados};
use loligo_wire::Errno;

use super::Client;
use crate::border::{Fail, calls};
use crate::memory::{array, bytes, give, optional_text, put, range, text};
use crate::runtime::wait;

/// Where the answer to a command goes: the output and the status text, each with its length.
struct Places {
    output: (*mut *mut c_char, *mut usize),
    status: (*mut *mut c_char, *mut usize),
}

/// The words of a command, usually one of JSON.
///
/// # Safety
/// `words` has `count` C strings.
unsafe fn words(words: *const *const c_char, count: usize) -> Result<Vec<Bytes>, Fail> {
    // SAFETY: by this function's contract.
    let words = unsafe { array(words, count) };
    // SAFETY: as above.
    words.iter().map(|word| Ok(Bytes::copy_from_slice(unsafe { bytes(*word) }?))).collect()
}

/// Gives the program the answer; returns the command's result.
///
/// # Safety
/// The places can be written or are NULL.
unsafe fn answer(reply: Result<CommandReply, loligo_rados::Error>, places: &Places) -> Result<c_int, Fail> {
    let reply = match reply {
        Ok(reply) => reply,
        Err(why) => {
            let status = why.to_string();
            // SAFETY: by this function's contract.
            unsafe { give_both(b"", status.as_bytes(), places) };
            return Err(why.into());
        }
    };
    // SAFETY: by this function's contract.
    unsafe { give_both(&reply.output, reply.status.as_bytes(), places) };
    if reply.result < 0 { Err(Fail(reply.result)) } else { Ok(reply.result) }
}

/// # Safety
/// The places can be written or are NULL.
unsafe fn give_both(output: &[u8], status: &[u8], places: &Places) {
    // SAFETY: by this function's contract.
    unsafe {
        put(places.output.1, 0);
        put(places.status.1, 0);
        give(output, places.output.0, places.output.1);
        give(status, places.status.0, places.status.1);
    }
}

/// Sends a command and gives the program the answer.
///
/// # Safety
/// `command` has as many C strings, and `input` as many bytes, as is said; the places can be written or are
/// NULL.
unsafe fn send<F>(
    (command, count): (*const *const c_char, usize),
    (input, input_len): (*const c_char, usize),
    places: &Places,
    ask: impl FnOnce(Vec<Bytes>, Bytes) -> F,
) -> Result<c_int, Fail>
where
    F: Future<Output = Result<CommandReply, loligo_rados::Error>>,
{
    // SAFETY: by this function's contract.
    unsafe {
        let input = Bytes::copy_from_slice(range(input, input_len));
        let reply = wait(ask(words(command, count)?, input));
        answer(reply, places)
    }
}

/// Checks that there is a monitor with a name, such as `a`, or with a rank.
///
/// # Errors
/// ENOENT if there is none.
fn expect_monitor(rados: &Rados, name: &str) -> Result<(), Fail> {
    let dump = wait(rados.mon_command(r#"{"prefix": "mon dump", "format": "json"}"#, Bytes::new()))?.0;
    let dump: serde_json::Value = serde_json::from_slice(&dump).map_err(|_| Errno::EIO)?;
    let monitors = dump["mons"].as_array().ok_or(Errno::EIO)?;
    let rank: Option<u64> = name.parse().ok();
    let is_it = |mon: &serde_json::Value| {
        mon["name"].as_str() == Some(name) || (rank.is_some() && mon["rank"].as_u64() == rank)
    };
    if monitors.iter().any(is_it) { Ok(()) } else { Err(Errno::ENOENT.into()) }
}

calls! {
    /// Sends the monitors a command.
    fn rados_mon_command(
        cluster: *mut c_void, command: *const *const c_char, count: usize, input: *const c_char,
        input_len: usize, output: *mut *mut c_char, output_len: *mut usize, status: *mut *mut c_char,
        status_len: *mut usize,
    ) -> c_int {
        let rados = Client::of(cluster)?.rados()?;
        let places = Places { output: (output, output_len), status: (status, status_len) };
        send((command, count), (input, input_len), &places, |words, input| {
            rados.ask_monitors(words, input)
        })
    }

    /// Sends one monitor a command. The monitor of the client's session answers for it.
    fn rados_mon_command_target(
        cluster: *mut c_void, name: *const c_char, command: *const *const c_char, count: usize,
        input: *const c_char, input_len: usize, output: *mut *mut c_char, output_len: *mut usize,
        status: *mut *mut c_char, status_len: *mut usize,
    ) -> c_int {
        let rados = Client::of(cluster)?.rados()?;
        expect_monitor(&rados, text(name)?)?;
        let places = Places { output: (output, output_len), status: (status, status_len) };
        send((command, count), (input, input_len), &places, |words, input| {
            rados.ask_monitor_itself(words, input)
        })
    }

    /// Asks a monitor whether it lives; the answer is its state as JSON.
    fn rados_ping_monitor(
        cluster: *mut c_void, name: *const c_char, output: *mut *mut c_char, len: *mut usize,
    ) -> c_int {
        let rados = Client::of(cluster)?.rados()?;
        let name = text(name)?;
        expect_monitor(&rados, name.strip_prefix("mon.").unwrap_or(name))?;
        let command = Bytes::from_static(br#"{"prefix": "status", "format": "json"}"#);
        let reply = wait(rados.ask_monitors(vec![command], Bytes::new()));
        let nowhere = (std::ptr::null_mut(), std::ptr::null_mut());
        answer(reply, &Places { output: (output, len), status: nowhere })
    }

    /// Sends the active manager a command for the cluster.
    fn rados_mgr_command(
        cluster: *mut c_void, command: *const *const c_char, count: usize, input: *const c_char,
        input_len: usize, output: *mut *mut c_char, output_len: *mut usize, status: *mut *mut c_char,
        status_len: *mut usize,
    ) -> c_int {
        let rados = Client::of(cluster)?.rados()?;
        let places = Places { output: (output, output_len), status: (status, status_len) };
        send((command, count), (input, input_len), &places, |words, input| {
            rados.ask_manager(words, input)
        })
    }

    /// Sends a manager itself a command.
    fn rados_mgr_command_target(
        cluster: *mut c_void, name: *const c_char, command: *const *const c_char, count: usize,
        input: *const c_char, input_len: usize, output: *mut *mut c_char, output_len: *mut usize,
        status: *mut *mut c_char, status_len: *mut usize,
    ) -> c_int {
        let rados = Client::of(cluster)?.rados()?;
        let name = optional_text(name)?.filter(|name| !name.is_empty());
        let places = Places { output: (output, output_len), status: (status, status_len) };
        send((command, count), (input, input_len), &places, |words, input| {
            rados.ask_manager_itself(name, words, input)
        })
    }

    /// Sends an OSD a command.
    fn rados_osd_command(
        cluster: *mut c_void, osd: c_int, command: *const *const c_char, count: usize,
        input: *const c_char, input_len: usize, output: *mut *mut c_char, output_len: *mut usize,
        status: *mut *mut c_char, status_len: *mut usize,
    ) -> c_int {
        if osd < 0 {
            return Err(Errno::EINVAL.into());
        }
        let rados = Client::of(cluster)?.rados()?;
        let places = Places { output: (output, output_len), status: (status, status_len) };
        send((command, count), (input, input_len), &places, |words, input| {
            rados.ask_osd(OsdId(osd), words, input)
        })
    }

    /// Sends the primary of a placement group a command.
    fn rados_pg_command(
        cluster: *mut c_void, pg: *const c_char, command: *const *const c_char, count: usize,
        input: *const c_char, input_len: usize, output: *mut *mut c_char, output_len: *mut usize,
        status: *mut *mut c_char, status_len: *mut usize,
    ) -> c_int {
        let rados = Client::of(cluster)?.rados()?;
        let pg: PgId = text(pg)?.parse().map_err(|_| Errno::EINVAL)?;
        let places = Places { output: (output, output_len), status: (status, status_len) };
        send((command, count), (input, input_len), &places, |words, input| {
            rados.ask_pg(pg, words, input)
        })
    }
}
