//! `auth …`: keys and capabilities.

use loligo_cephx::key::{CryptoKey, KeyType};
use loligo_cephx::keyring::{Entry, Keyring};
use loligo_wire::EntityName;

use super::{Call, Failure, Outcome, Reply};
use crate::output::json::{Node, object};
use crate::state::users::{Caps, check_caps};

pub(super) fn ls(call: &mut Call<'_>) -> Outcome {
    let keys = &call.state.keys();
    let node = |_: &Call<'_>| object! { "auth_dump": Node::array(keys.iter().map(describe)) };
    let reply = call.print(node, |_| keys.iter().map(text).collect());
    Ok(if reply.output.first() == Some(&b'{') {
        reply
    } else {
        reply.with_status("installed auth entries:\n")
    })
}

pub(super) fn get(call: &mut Call<'_>) -> Outcome {
    let name = entity(call)?;
    let missing = || Failure::missing(format!("failed to find {name} in keyring"));
    let entry = call.state.keys().entry(&name).ok_or_else(missing)?;
    Ok(print_one(call, &name, entry).with_status(format!("exported keyring for {name}")))
}

pub(super) fn export(call: &mut Call<'_>) -> Outcome {
    if call.args.text("entity").is_none() {
        let keys = call.state.keys();
        let node = |_: &Call<'_>| Node::array(keys.iter().map(describe));
        return Ok(call.print(node, |_| keys.format().to_string()).with_status("exported master keyring"));
    }
    let name = entity(call)?;
    let entry =
        call.state.keys().entry(&name).ok_or_else(|| Failure::missing(format!("no key for {name}")))?;
    Ok(print_one(call, &name, entry).with_status(format!("export {name}")))
}

pub(super) fn get_key(call: &mut Call<'_>) -> Outcome {
    let name = entity(call)?;
    let entry =
        call.state.keys().entry(&name).ok_or_else(|| Failure::missing(format!("don't have {name}")))?;
    Ok(print_key(call, &entry.key))
}

pub(super) fn import(call: &mut Call<'_>) -> Outcome {
    if call.input.is_empty() {
        return Err(Failure::invalid("auth import: no data supplied"));
    }
    let given = input_keyring(call)?;
    for (name, entry) in given.iter() {
        check_caps(&entry.caps)?;
        call.state.set_key(name.clone(), entry.clone());
    }
    Ok(Reply::status("imported keyring"))
}

pub(super) fn add(call: &mut Call<'_>) -> Outcome {
    let name = entity(call)?;
    let caps = given_caps(call)?;
    let entry = given_entry(call, &name, caps)?;
    if let Some(old) = call.state.keys().entry(&name) {
        let same_key = call.input.is_empty() || old.key == entry.key;
        if !same_key {
            return Err(Failure::invalid(format!("entity {name} exists but key does not match")));
        }
        let services = old.caps.keys().chain(entry.caps.keys());
        return match services.into_iter().find(|s| old.caps.get(*s) != entry.caps.get(*s)) {
            Some(service) => {
                Err(Failure::invalid(format!("entity {name} exists but cap {service} does not match")))
            }
            None => Ok(Reply::default()),
        };
    }
    call.state.set_key(name.clone(), entry);
    Ok(Reply::status(format!("added key for {name}")))
}

pub(super) fn get_or_create(call: &mut Call<'_>) -> Outcome {
    let (name, entry) = find_or_create(call)?;
    let node = |_: &Call<'_>| Node::array([describe((&name, &entry))]);
    Ok(call.print(node, |_| format!("[{name}]\n\tkey = {}\n", entry.key.to_base64().as_str())))
}

pub(super) fn get_or_create_key(call: &mut Call<'_>) -> Outcome {
    let (_, entry) = find_or_create(call)?;
    let mut reply = print_key(call, &entry.key);
    if reply.output.last() != Some(&b'\n') {
        reply.output.push(b'\n'); // `get-key` omits it, so that its output is exactly the key
    }
    Ok(reply)
}

pub(super) fn caps(call: &mut Call<'_>) -> Outcome {
    let name = entity(call)?;
    let caps = given_caps(call)?;
    let missing = || Failure::missing(format!("couldn't find entry {name}"));
    let key = call.state.keys().key(&name).ok_or_else(missing)?.clone();
    call.state.set_key(name.clone(), Entry { key, caps });
    Ok(Reply::status(format!("updated caps for {name}")))
}

/// Replaces a key. Its capabilities stay.
pub(super) fn rotate(call: &mut Call<'_>) -> Outcome {
    let name = entity(call)?;
    let missing = || Failure::missing(format!("entity {name} does not exist"));
    let caps = call.state.keys().entry(&name).ok_or_else(missing)?.caps.clone();
    let entry = Entry { key: CryptoKey::generate_of(key_type(call)?, call.now), caps };
    call.state.set_key(name.clone(), entry.clone());
    Ok(print_one(call, &name, &entry))
}

pub(super) fn rm(call: &mut Call<'_>) -> Outcome {
    let name = entity(call)?;
    match call.state.remove_key(&name) {
        true => Ok(Reply::status("updated")),
        false => Ok(Reply::status(format!("entity {name} does not exist"))),
    }
}

fn find_or_create(call: &mut Call<'_>) -> Result<(EntityName, Entry), Failure> {
    let name = entity(call)?;
    let caps = given_caps(call)?;
    // Only callers that may read keys get an existing key with further capabilities. A stock monitor gives it
    // to any caller that may create keys of that name.
    let has_others = call.state.keys().entry(&name).is_some_and(|old| caps != old.caps);
    if has_others && !call.caller.reads_keys {
        return Err(Failure::invalid(format!("key for {name} exists with other caps")));
    }
    if let Some(old) = call.state.user_with(&name, &caps)? {
        return Ok((name, old.clone()));
    }
    let entry = given_entry(call, &name, caps)?;
    call.state.set_key(name.clone(), entry.clone());
    Ok((name, entry))
}

fn entity(call: &Call<'_>) -> Result<EntityName, Failure> {
    call.args.required("entity").parse().map_err(|_| Failure::invalid("bad entity name"))
}

/// The capabilities in the command: pairs of a service and its capability.
fn given_caps(call: &Call<'_>) -> Result<Caps, Failure> {
    let words = call.args.texts("caps");
    let (pairs, rest) = words.as_chunks::<2>();
    if !rest.is_empty() {
        return Err(Failure::invalid("bad capabilities request; odd number of arguments"));
    }
    let caps: Caps = pairs.iter().map(|[service, cap]| ((*service).to_owned(), (*cap).to_owned())).collect();
    if caps.len() < pairs.len() {
        return Err(Failure::invalid("bad capabilities request; a service is named twice"));
    }
    check_caps(&caps)?;
    Ok(caps)
}

/// The key from the command's input, with the input's capabilities if the command names none. Without
/// input, a new key.
fn given_entry(call: &Call<'_>, name: &EntityName, caps: Caps) -> Result<Entry, Failure> {
    if call.input.is_empty() {
        return Ok(Entry { key: CryptoKey::generate_of(key_type(call)?, call.now), caps });
    }
    let given = input_keyring(call)?;
    let missing = || Failure::invalid(format!("key for {name} not found in provided keyring"));
    let entry = given.entry(name).ok_or_else(missing)?;
    check_caps(&entry.caps)?;
    Ok(Entry { key: entry.key.clone(), caps: if caps.is_empty() { entry.caps.clone() } else { caps } })
}

/// The type of a new key.
fn key_type(call: &Call<'_>) -> Result<KeyType, Failure> {
    let said = call.args.text("key_type").map(str::parse::<KeyType>).transpose();
    said.map(|kind| kind.unwrap_or(call.state.auth_cipher())).map_err(|e| Failure::invalid(e.to_string()))
}

fn input_keyring(call: &Call<'_>) -> Result<Keyring, Failure> {
    let text = std::str::from_utf8(call.input).map_err(|e| e.to_string());
    text.and_then(|text| Keyring::parse(text).map_err(|e| e.to_string()))
        .map_err(|why| Failure::invalid(format!("error decoding keyring {why}")))
}

fn print_one(call: &Call<'_>, name: &EntityName, entry: &Entry) -> Reply {
    let plain = |_: &Call<'_>| {
        let mut ring = Keyring::new();
        ring.insert(name.clone(), entry.clone());
        ring.format().to_string()
    };
    call.print(|_| Node::array([describe((name, entry))]), plain)
}

fn print_key(call: &Call<'_>, key: &CryptoKey) -> Reply {
    let key = key.to_base64();
    call.print(|_| object! { "key": key.as_str() }, |_| key.to_string())
}

fn describe((name, entry): (&EntityName, &Entry)) -> Node {
    object! {
        "entity": name.to_string(),
        "key": entry.key.to_base64().as_str(),
        "caps": Node::map(entry.caps.iter().map(|(service, cap)| (service, cap.as_str()))),
    }
}

fn text((name, entry): (&EntityName, &Entry)) -> String {
    let caps = entry.caps.iter().map(|(service, cap)| format!("\tcaps: [{service}] {cap}\n"));
    format!("{name}\n\tkey: {}\n{}", entry.key.to_base64().as_str(), caps.collect::<String>())
}
