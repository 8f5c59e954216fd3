//! Pools of a cluster.

use std::ffi::{c_char, c_int, c_void};

use az::SaturatingAs as _;
use bytes::Bytes;
use loligo_rados::{PoolId, Rados};
use loligo_wire::Errno;

use super::Client;
use crate::border::{Fail, calls};
use crate::memory::{copy_to, fill_text, put, text};
use crate::runtime::wait;

/// Copies texts, each with its NUL, and one more NUL at the end, as far as they fit; returns the room that
/// all of them need.
///
/// # Safety
/// `room` bytes can be written at `to`.
pub(super) unsafe fn fill_list<'a>(
    to: *mut c_char,
    room: usize,
    texts: impl IntoIterator<Item = &'a str>,
) -> Result<c_int, Fail> {
    if to.is_null() && room > 0 {
        return Err(Errno::EINVAL.into());
    }
    if room > 0 {
        // SAFETY: by this function's contract.
        unsafe { to.write_bytes(0, room) };
    }
    let (mut used, mut needed) = (0, 1);
    let mut fits = true;
    for text in texts {
        let len = text.len() + 1;
        needed += len;
        // The last NUL of the list is the zero that was there before, if there is room for it.
        fits &= used + len <= room;
        if fits {
            // SAFETY: it fits.
            unsafe { copy_to(to.add(used), text.as_bytes()) };
            used += len;
        }
    }
    c_int::try_from(needed).map_err(|_| Errno::ERANGE.into())
}

/// The name of a pool.
pub(crate) fn name_of(rados: &Rados, pool: PoolId) -> Option<String> {
    rados.pools().into_iter().find(|(id, _)| *id == pool).map(|(_, name)| name)
}

/// The name of a pool. If the pool is unknown, the client first waits for the monitors' newest map.
///
/// # Errors
/// ENOENT if there is no such pool.
pub(super) fn wait_for_name(rados: &Rados, pool: PoolId) -> Result<String, Fail> {
    if let Some(name) = name_of(rados, pool) {
        return Ok(name);
    }
    wait(rados.wait_for_latest_osdmap())?;
    name_of(rados, pool).ok_or(Errno::ENOENT.into())
}

/// Creates a pool with a CRUSH rule by its number, or with the default one.
fn create(client: &Client, name: &str, rule: Option<u8>) -> Result<(), Fail> {
    let rados = client.rados()?;
    // The monitors accept a second creation.
    if rados.pools().iter().any(|(_, known)| known == name) {
        return Err(Errno::EEXIST.into());
    }
    let Some(rule) = rule else {
        wait(rados.create_pool(name))?;
        return Ok(());
    };
    wait(async {
        let dump = r#"{"prefix": "osd crush rule dump", "format": "json"}"#;
        let (rules, _) = rados.mon_command(dump, Bytes::new()).await?;
        let rules: serde_json::Value = serde_json::from_slice(&rules).map_err(|_| Errno::EIO)?;
        let is_it = |one: &&serde_json::Value| one["rule_id"].as_u64() == Some(rule.into());
        let found = rules.as_array().and_then(|rules| rules.iter().find(is_it));
        let rule = found.and_then(|one| one["rule_name"].as_str()).ok_or(Errno::ENOENT)?;
        let command = serde_json::json!({
            "prefix": "osd pool create", "pool": name, "rule": rule, "pool_type": "replicated",
        });
        rados.mon_command(&command.to_string(), Bytes::new()).await?;
        rados.wait_for_latest_osdmap().await?;
        Ok(())
    })
}

/// The user id that pools had once: only its default is accepted.
const AUID_DEFAULT: u64 = u64::MAX;

fn refuse_auid(auid: u64) -> Result<(), Fail> {
    if auid == AUID_DEFAULT { Ok(()) } else { Err(Errno::EINVAL.into()) }
}

calls! {
    /// Lists the names; returns the room that they need.
    fn rados_pool_list(cluster: *mut c_void, to: *mut c_char, room: usize) -> c_int {
        let pools = Client::of(cluster)?.rados()?.pools();
        fill_list(to, room, pools.iter().map(|(_, name)| name.as_str()))
    }

    /// Lists the placement groups of a pool that scrubs found inconsistent.
    fn rados_inconsistent_pg_list(
        cluster: *mut c_void, pool: i64, to: *mut c_char, room: usize,
    ) -> c_int {
        let rados = Client::of(cluster)?.rados()?;
        let command = serde_json::json!({
            "prefix": "pg ls", "pool": pool, "states": ["inconsistent"], "format": "json",
        });
        let (answer, _) = wait(rados.mgr_command(&command.to_string(), Bytes::new()))?;
        let groups = placement_groups(&answer);
        fill_list(to, room, groups.iter().map(String::as_str))
    }

    /// Returns the id of a pool.
    fn rados_pool_lookup(cluster: *mut c_void, name: *const c_char) -> i64 {
        Ok(wait(Client::of(cluster)?.rados()?.pool_id(text(name)?))?.0)
    }

    /// Copies a pool's name.
    fn rados_pool_reverse_lookup(
        cluster: *mut c_void, id: i64, to: *mut c_char, room: usize,
    ) -> c_int {
        let rados = Client::of(cluster)?.rados()?;
        let name = wait_for_name(&rados, PoolId(id))?;
        Ok(fill_text(to, room, name.as_bytes())?.saturating_as::<c_int>())
    }

    /// Creates a pool.
    fn rados_pool_create(cluster: *mut c_void, name: *const c_char) -> c_int {
        create(Client::of(cluster)?, text(name)?, None)?;
        Ok(0)
    }

    /// Creates a pool; `auid` must be the default.
    fn rados_pool_create_with_auid(cluster: *mut c_void, name: *const c_char, auid: u64) -> c_int {
        refuse_auid(auid)?;
        create(Client::of(cluster)?, text(name)?, None)?;
        Ok(0)
    }

    /// Creates a pool with a CRUSH rule.
    fn rados_pool_create_with_crush_rule(
        cluster: *mut c_void, name: *const c_char, rule: u8,
    ) -> c_int {
        create(Client::of(cluster)?, text(name)?, Some(rule))?;
        Ok(0)
    }

    /// Creates a pool with a CRUSH rule; `auid` must be the default.
    fn rados_pool_create_with_all(
        cluster: *mut c_void, name: *const c_char, auid: u64, rule: u8,
    ) -> c_int {
        refuse_auid(auid)?;
        create(Client::of(cluster)?, text(name)?, Some(rule))?;
        Ok(0)
    }

    /// Removes a pool.
    fn rados_pool_delete(cluster: *mut c_void, name: *const c_char) -> c_int {
        wait(Client::of(cluster)?.rados()?.delete_pool(text(name)?))?;
        Ok(0)
    }

    /// Returns the pool that a cache pool is before; the pool itself without one.
    fn rados_pool_get_base_tier(cluster: *mut c_void, pool: i64, base: *mut i64) -> c_int {
        let rados = Client::of(cluster)?.rados()?;
        wait(rados.wait_for_latest_osdmap())?;
        let tier = rados.base_tier(PoolId(pool)).ok_or(Errno::ENOENT)?;
        put(base, tier.0);
        Ok(0)
    }
}

/// The ids in the answer of `pg ls`, whose form differs between releases.
fn placement_groups(answer: &[u8]) -> Vec<String> {
    let Ok(answer) = serde_json::from_slice::<serde_json::Value>(answer) else { return Vec::new() };
    let groups = if answer.is_array() { answer.as_array() } else { answer["pg_stats"].as_array() };
    let id = |group: &serde_json::Value| group["pgid"].as_str().map(str::to_owned);
    groups.map(|groups| groups.iter().filter_map(id).collect()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_tell_the_room_that_they_need() {
        let mut room = [7 as c_char; 12];
        let pools = ["one", "two", "three"];
        // SAFETY: `room` has as many bytes as is said.
        let needed = unsafe { fill_list(room.as_mut_ptr(), 12, pools) };
        assert_eq!(needed, Ok(15));
        let shown: Vec<u8> = room.iter().map(|byte| byte.cast_unsigned()).collect();
        assert_eq!(shown, b"one\0two\0\0\0\0\0");
        // SAFETY: nothing is written to no room.
        assert_eq!(unsafe { fill_list(std::ptr::null_mut(), 0, pools) }, Ok(15));
    }

    #[test]
    fn both_forms_of_group_lists_are_read() {
        for answer in [r#"[{"pgid": "1.0"}]"#, r#"{"pg_stats": [{"pgid": "1.0"}]}"#] {
            assert_eq!(placement_groups(answer.as_bytes()), ["1.0"]);
        }
    }
}
