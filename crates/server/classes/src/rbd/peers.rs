//! Peers that a pool is mirrored to or from (`rbd_mirroring`), and mirroring's records in an image's
//! snapshots.

use bytes::Bytes;
use loligo_wire::rbd::SnapKind;
use loligo_wire::{Encode, Errno, Reader, SnapId};

use super::mirror::{MODE_DISABLED, MODE_KEY, PEER_PREFIX, uuid};
use super::types::{MirrorPeer, MirrorSnap, Snap};
use super::{Answer, snap_key};
use crate::handle::Handle;
use crate::typed::decoded;

fn key(uuid: &str) -> String {
    format!("{PEER_PREFIX}{uuid}")
}

fn all(object: &mut Handle<'_>) -> Result<Vec<MirrorPeer>, Errno> {
    let mut peers = Vec::new();
    object.each(PEER_PREFIX.as_bytes(), PEER_PREFIX.as_bytes(), |_, peer| {
        peers.push(decoded(peer)?);
        Ok(())
    })?;
    Ok(peers)
}

fn write(object: &mut Handle<'_>, peer: &MirrorPeer) -> Answer {
    object.set(key(&peer.uuid), peer)?;
    Ok(Bytes::new())
}

/// `EINVAL` unless the pool is mirrored.
fn must_be_mirrored(object: &mut Handle<'_>) -> Result<(), Errno> {
    match object.find::<u32>(MODE_KEY)? {
        None | Some(MODE_DISABLED) => Err(Errno::EINVAL),
        Some(_) => Ok(()),
    }
}

pub(super) fn list(object: &mut Handle<'_>, _input: &[u8]) -> Answer {
    object.must_exist()?;
    Ok(all(object)?.to_bytes())
}

pub(super) fn add(object: &mut Handle<'_>, input: &[u8]) -> Answer {
    let peer: MirrorPeer = Reader::new(input).get()?;
    must_be_mirrored(object)?;
    let own = uuid(object)?;
    if !peer.is_valid() || peer.uuid.as_bytes() == &own[..] || peer.direction == MirrorPeer::TX {
        return Err(Errno::EINVAL);
    }
    for other in all(object)? {
        if other.uuid == peer.uuid {
            return Err(Errno::ESTALE);
        }
        let same_mirror = !peer.mirror_uuid.is_empty() && other.mirror_uuid == peer.mirror_uuid;
        if other.site == peer.site || same_mirror {
            return Err(Errno::EEXIST);
        }
    }
    write(object, &peer)
}

pub(super) fn remove(object: &mut Handle<'_>, input: &[u8]) -> Answer {
    let uuid: String = Reader::new(input).get()?;
    match object.unset(key(&uuid)) {
        Ok(()) | Err(Errno::ENOENT) => Ok(Bytes::new()),
        Err(errno) => Err(errno),
    }
}

pub(super) fn set_client(object: &mut Handle<'_>, input: &[u8]) -> Answer {
    let (uuid, client): (String, String) = Reader::new(input).get()?;
    let peer = object.get(key(&uuid))?;
    write(object, &MirrorPeer { client, ..peer })
}

pub(super) fn set_site(object: &mut Handle<'_>, input: &[u8]) -> Answer {
    let (uuid, site): (String, String) = Reader::new(input).get()?;
    let peer = object.get(key(&uuid))?;
    write(object, &MirrorPeer { site, ..peer })
}

pub(super) fn set_direction(object: &mut Handle<'_>, input: &[u8]) -> Answer {
    let (uuid, direction): (String, u8) = Reader::new(input).get()?;
    let peer = object.get(key(&uuid))?;
    write(object, &MirrorPeer { direction, ..peer })
}

/// Records a sign of life of a peer. An unknown peer is added as a receiver.
pub(super) fn ping(object: &mut Handle<'_>, input: &[u8]) -> Answer {
    let mut r = Reader::new(input);
    let (site, mirror_uuid, direction): (String, String, u8) = (r.get()?, r.get()?, r.u8()?);
    if direction != MirrorPeer::TX {
        return Err(Errno::EINVAL);
    }
    must_be_mirrored(object)?;
    if site.is_empty() || mirror_uuid.is_empty() {
        return Err(Errno::EINVAL);
    }
    let mut peers = all(object)?;
    let by_site = peers.iter().position(|peer| peer.site == site);
    let is_it =
        by_site.is_some_and(|at| peers[at].mirror_uuid.is_empty() || peers[at].mirror_uuid == mirror_uuid);
    let by_uuid = (!is_it).then(|| peers.iter().position(|peer| peer.mirror_uuid == mirror_uuid)).flatten();
    let mut peer = match by_uuid.or(by_site) {
        Some(at) => peers.swap_remove(at),
        None => MirrorPeer::receiving(object.random_uuid(), site.clone(), mirror_uuid.clone()),
    };
    match (by_site, by_uuid) {
        // Two peers match: the one with this uuid keeps its site name.
        (Some(_), Some(_)) | (None, None) => {}
        (None, Some(_)) => peer.site = site,
        (Some(_), None) => peer.mirror_uuid = mirror_uuid,
    }
    if peer.direction == MirrorPeer::RX {
        peer.direction = MirrorPeer::RX_TX;
    }
    peer.last_seen = object.now();
    if !peer.is_valid() {
        return Err(Errno::EINVAL);
    }
    write(object, &peer)
}

/// Changes the mirroring record of a snapshot; `EINVAL` if it is not a mirroring snapshot.
fn change_snap(
    object: &mut Handle<'_>,
    id: SnapId,
    change: impl FnOnce(&mut MirrorSnap) -> Result<(), Errno>,
) -> Answer {
    let mut snap: Snap = object.get(snap_key(id))?;
    let SnapKind::Mirror(noted) = &snap.kind else { return Err(Errno::EINVAL) };
    let mut noted: MirrorSnap = decoded(noted)?;
    change(&mut noted)?;
    snap.kind = SnapKind::Mirror(noted.to_bytes().to_vec());
    object.set(snap_key(id), &snap)?;
    Ok(Bytes::new())
}

/// Removes a peer from those that need a snapshot.
pub(super) fn unlink_snap(object: &mut Handle<'_>, input: &[u8]) -> Answer {
    let mut r = Reader::new(input);
    let (id, peer) = (SnapId(r.u64()?), r.get::<String>()?);
    change_snap(object, id, |noted| if noted.peers.remove(&peer) { Ok(()) } else { Err(Errno::ENOENT) })
}

/// Records how far a snapshot is copied.
pub(super) fn set_copy_progress(object: &mut Handle<'_>, input: &[u8]) -> Answer {
    let mut r = Reader::new(input);
    let (id, complete, last_copied) = (SnapId(r.u64()?), r.bool()?, r.u64()?);
    change_snap(object, id, |noted| {
        noted.complete = complete;
        if noted.is_of_copy() {
            noted.last_copied = last_copied;
        }
        Ok(())
    })
}
