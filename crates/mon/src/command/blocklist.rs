//! `osd blocklist …`: clients that OSDs shall not serve any more.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use loligo_wire::{AddrKind, EntityAddr};

use super::{Call, Failure, Outcome, Reply};
use crate::output::json::{Node, object};
use crate::output::units::stamp;
use crate::view::bare;

/// How long an entry holds if nothing is said (`mon_osd_blocklist_default_expire`).
const EXPIRE_DEFAULT_S: f64 = 3600.0;
/// The longest time an entry may be given: a hundred years.
const EXPIRE_MAX_S: f64 = 100.0 * 365.0 * 86_400.0;

pub(super) fn change(call: &mut Call<'_>) -> Outcome {
    let addr = addr(call)?;
    match call.args.required("blocklistop") {
        "add" => add(call, addr),
        _ => rm(call, addr),
    }
}

fn add(call: &mut Call<'_>, addr: EntityAddr) -> Outcome {
    let expire_s = call.args.float("expire").unwrap_or(EXPIRE_DEFAULT_S).clamp(0.0, EXPIRE_MAX_S);
    let until = call.now + Duration::from_secs_f64(expire_s);
    call.state.change_osdmap(call.now, |_, inc| {
        inc.new_blocklist.insert(addr, until);
    })?;
    Ok(Reply::status(format!("blocklisting {} until {} ({expire_s} sec)", bare(&addr), stamp(until))))
}

fn rm(call: &mut Call<'_>, addr: EntityAddr) -> Outcome {
    if !call.state.osdmap().blocklist.addrs.contains_key(&addr) {
        return Ok(Reply::status(format!("{} isn't blocklisted", bare(&addr))));
    }
    call.state.change_osdmap(call.now, |_, inc| inc.old_blocklist.push(addr))?;
    Ok(Reply::status(format!("un-blocklisting {}", bare(&addr))))
}

pub(super) fn ls(call: &mut Call<'_>) -> Outcome {
    let addrs = &call.state.osdmap().blocklist.addrs;
    let entry = |(addr, until): (&EntityAddr, &loligo_wire::UTime)| {
        object! { "addr": bare(addr), "until": stamp(*until) }
    };
    let line =
        |(addr, until): (&EntityAddr, &loligo_wire::UTime)| format!("{} {}\n", bare(addr), stamp(*until));
    let reply = call.print(|_| Node::array(addrs.iter().map(entry)), |_| addrs.iter().map(line).collect());
    Ok(reply.with_status(format!("listed {} entries", addrs.len())))
}

pub(super) fn clear(call: &mut Call<'_>) -> Outcome {
    if !call.state.osdmap().blocklist.addrs.is_empty() {
        call.state
            .change_osdmap(call.now, |map, inc| inc.old_blocklist.extend(map.blocklist.addrs.keys()))?;
    }
    Ok(Reply::status(" removed all blocklist entries"))
}

/// `IP`, `IP:PORT` or `IP:PORT/NONCE`, IPv6 addresses in brackets if a port follows. What is left out is 0.
fn addr(call: &Call<'_>) -> Result<EntityAddr, Failure> {
    let text = call.args.required("addr");
    let (host, nonce) = text.split_once('/').unwrap_or((text, "0"));
    let alone = || host.parse::<IpAddr>().map(|ip| SocketAddr::new(ip, 0));
    let sock = host.parse::<SocketAddr>().or_else(|_| alone()).ok();
    match (sock, nonce.parse()) {
        (Some(sock), Ok(nonce)) => Ok(EntityAddr { kind: AddrKind::Any, nonce, sock: Some(sock) }),
        _ => Err(Failure::invalid(format!("unable to parse address {text}"))),
    }
}
