//! `osd blocklist …`: clients that OSDs must not serve.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use loligo_maps::Blocklist;
use loligo_wire::{AddrKind, EntityAddr, UTime};

use super::{Call, Failure, Outcome, Reply};
use crate::output::json::{Node, object};
use crate::output::units::stamp;
use crate::view::bare;

/// Default duration of an entry (`mon_osd_blocklist_default_expire`).
const EXPIRE_DEFAULT_S: f64 = 3600.0;
/// Maximum duration of an entry: a hundred years.
const EXPIRE_MAX_S: f64 = 100.0 * 365.0 * 86_400.0;

pub(super) fn change(call: &mut Call<'_>) -> Outcome {
    let addr = match call.args.text("range") {
        None => addr(call)?,
        Some("range") => network(addr(call)?)?,
        Some(_) => return Err(Failure::invalid("Did you mean to specify \"osd blocklist range\"?")),
    };
    // The argument's name before release 16.
    let what = call.args.text("blocklistop").unwrap_or_else(|| call.args.required("blacklistop"));
    if what == "add" { add(call, addr) } else { rm(call, addr) }
}

/// Converts an address to a network. The nonce holds the prefix length.
fn network(addr: EntityAddr) -> Result<EntityAddr, Failure> {
    let most = if addr.sock.is_some_and(|sock| sock.is_ipv4()) { 32 } else { 128 };
    match addr.nonce {
        0 => Err(Failure::invalid(format!(
            "You specified a range command, but v2:{} does not parse as a CIDR range",
            bare(&addr)
        ))),
        bits if bits > most => Err(Failure::invalid("Too many bits in range for that protocol!")),
        _ => Ok(EntityAddr { kind: AddrKind::Cidr, ..addr }),
    }
}

/// The address as printed for people.
pub(super) fn shown(addr: &EntityAddr) -> String {
    if addr.kind == AddrKind::Cidr { format!("cidr:{}", bare(addr)) } else { bare(addr) }
}

fn add(call: &mut Call<'_>, addr: EntityAddr) -> Outcome {
    let expire_s = call.args.float("expire").unwrap_or(EXPIRE_DEFAULT_S).clamp(0.0, EXPIRE_MAX_S);
    let until = call.now + Duration::from_secs_f64(expire_s);
    call.state.fence(addr, &call.caller.name, call.caller.is_unbounded)?;
    call.state.change_osdmap(call.now, |_, inc| {
        let listed =
            if addr.kind == AddrKind::Cidr { &mut inc.new_range_blocklist } else { &mut inc.new_blocklist };
        listed.insert(addr, until);
    })?;
    Ok(Reply::status(format!("blocklisting {} until {} ({expire_s} sec)", shown(&addr), stamp(until))))
}

fn rm(call: &mut Call<'_>, addr: EntityAddr) -> Outcome {
    let Blocklist { addrs, ranges } = &call.state.osdmap().blocklist;
    if !addrs.contains_key(&addr) && !ranges.contains_key(&addr) {
        return Ok(Reply::status(format!("{} isn't blocklisted", shown(&addr))));
    }
    call.state.change_osdmap(call.now, |_, inc| match addr.kind {
        AddrKind::Cidr => inc.old_range_blocklist.push(addr),
        _ => inc.old_blocklist.push(addr),
    })?;
    Ok(Reply::status(format!("un-blocklisting {}", shown(&addr))))
}

/// Lists networks after single clients, in one array. A stock monitor writes two arrays one after the
/// other, which is not valid JSON.
pub(super) fn ls(call: &mut Call<'_>) -> Outcome {
    let Blocklist { addrs, ranges } = &call.state.osdmap().blocklist;
    let all: Vec<(&EntityAddr, &UTime)> = addrs.iter().chain(ranges.iter()).collect();
    let entry = |(addr, until): &(&EntityAddr, &UTime)| match addr.kind {
        AddrKind::Cidr => object! { "range": bare(addr), "until": stamp(**until) },
        _ => object! { "addr": bare(addr), "until": stamp(**until) },
    };
    let line = |(addr, until): &(&EntityAddr, &UTime)| format!("{} {}\n", shown(addr), stamp(**until));
    let reply = call.print(|_| Node::array(all.iter().map(entry)), |_| all.iter().map(line).collect());
    Ok(reply.with_status(format!("listed {} entries", all.len())))
}

pub(super) fn clear(call: &mut Call<'_>) -> Outcome {
    if !call.state.osdmap().blocklist.is_empty() {
        call.state.change_osdmap(call.now, |map, inc| {
            inc.old_blocklist.extend(map.blocklist.addrs.keys());
            inc.old_range_blocklist.extend(map.blocklist.ranges.keys());
        })?;
    }
    Ok(Reply::status(" removed all blocklist entries"))
}

/// Parses `IP`, `IP:PORT` or `IP:PORT/NONCE`. An IPv6 address is in brackets if a port follows. Omitted
/// parts are 0.
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
