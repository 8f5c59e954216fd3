//! Choosing the copy for a read that need not go to the primary.
//!
//! An OSD that is not the primary serves reads with a flag for it (`CEPH_OSD_FLAG_BALANCE_READS`,
//! `..._LOCALIZE_READS`). It replies EAGAIN if its copy may be outdated; the read is then sent to the
//! primary.

use loligo_cluster::Cluster;
use loligo_maps::OsdMap;
use loligo_maps::crush::CrushMap;
use loligo_wire::OsdId;
use loligo_wire::message::osd::OsdFlags;

/// Flags of reads that any copy may serve.
pub(super) const ANYWHERE: OsdFlags = OsdFlags::BALANCE_READS.union(OsdFlags::LOCALIZE_READS);

/// This client's location: names of CRUSH buckets by their type, such as host and rack.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Location(Vec<(String, String)>);

impl Location {
    /// Returns the location from the client's `crush_location`, or its machine's location by default.
    pub(crate) fn of(cluster: &Cluster) -> Self {
        Self::parse(cluster.conf().text("crush_location").as_deref(), cluster.hostname())
    }

    /// Parses `crush_location`: `host=a rack=b`. The default is the host and the root `default`
    /// (src/crush/CrushLocation.cc).
    fn parse(text: Option<&str>, hostname: &str) -> Self {
        let pairs = |text: &str| {
            let words = text.split([' ', ';', ',', '\t']).filter_map(|word| word.split_once('='));
            words.map(|(kind, name)| (kind.to_owned(), name.to_owned())).collect::<Vec<_>>()
        };
        let short = hostname.split('.').next().unwrap_or_default();
        match text.map(pairs) {
            Some(found) if !found.is_empty() => Self(found),
            _ => Self(pairs(&format!("host={short} root=default"))),
        }
    }

    /// Returns, indexed by OSD id, the type of the narrowest bucket that contains both the OSD and the
    /// client; [`FAR`] if there is none.
    pub(super) fn distances(&self, map: &OsdMap) -> Box<[u16]> {
        let crush = &map.crush;
        let mut distances = vec![FAR; map.max_osd()].into_boxed_slice();
        for bucket in crush.buckets.iter().flatten() {
            let kind = crush.type_names.get(&i32::from(bucket.kind));
            let is_ours = |(of, name): &(String, String)| {
                kind.is_some_and(|kind| *kind == **of)
                    && crush.names.get(&bucket.id).is_some_and(|found| *found == **name)
            };
            if self.0.iter().any(is_ours) {
                below(crush, bucket.id, &mut |device| {
                    if let Some(distance) = usize::try_from(device).ok().and_then(|at| distances.get_mut(at))
                    {
                        *distance = bucket.kind.min(*distance);
                    }
                });
            }
        }
        distances
    }
}

/// Distance of an OSD that shares no bucket with the client.
const FAR: u16 = u16::MAX;

/// Calls `f` with all devices below a bucket.
fn below(crush: &CrushMap, bucket: i32, f: &mut impl FnMut(i32)) {
    let mut waiting = vec![bucket];
    // A map received from the network may contain cycles.
    let mut left = crush.buckets.len() + 1;
    while let Some(next) = waiting.pop() {
        if left == 0 {
            return;
        }
        left -= 1;
        for item in crush.bucket(next).map_or(&[][..], |bucket| &bucket.items) {
            if *item >= 0 { f(*item) } else { waiting.push(*item) }
        }
    }
}

/// Returns the nearest of the given OSDs; the first one of several at the same distance.
pub(super) fn nearest(distances: &[u16], osds: impl Iterator<Item = OsdId>) -> Option<OsdId> {
    let distance =
        |osd: &OsdId| usize::try_from(osd.0).ok().and_then(|at| distances.get(at)).copied().unwrap_or(FAR);
    osds.min_by_key(distance)
}

#[cfg(test)]
mod tests {
    use loligo_maps::crush::CrushMap;

    use super::*;

    #[test]
    fn the_nearest_copy_is_on_this_host_or_in_this_rack() {
        let mut crush = CrushMap::with_root();
        let kinds = ["host", "rack"].map(|kind| crush.type_by_name(kind).expect("usual types") as u16);
        let root = crush.item_by_name("default").expect("there is one");
        for rack in 0..2 {
            let rack_id = crush.add_bucket(&format!("rack{rack}"), kinds[1]).expect("room");
            crush.insert_item(rack_id, 0, root).expect("room");
            for host in 0..2 {
                let host_id = crush.add_bucket(&format!("host{rack}{host}"), kinds[0]).expect("room");
                crush.insert_item(host_id, 0, rack_id).expect("room");
                let osd = rack * 2 + host;
                crush.add_device(osd, &format!("osd.{osd}")).expect("a new one");
                crush.insert_item(osd, 0x10000, host_id).expect("room");
            }
        }
        let mut map = OsdMap::default();
        map.crush = crush.into();
        map.set_max_osd(4);
        let near = |text: &str, osds: &[i32]| {
            let distances = Location::parse(Some(text), "elsewhere.example").distances(&map);
            nearest(&distances, osds.iter().map(|osd| OsdId(*osd))).map(|osd| osd.0)
        };
        assert_eq!(near("host=host11 rack=rack1", &[0, 2, 3]), Some(3));
        assert_eq!(near("host=host11 rack=rack1", &[0, 2]), Some(2));
        assert_eq!(near("rack=rack1,root=default", &[0, 1, 2, 3]), Some(2));
        assert_eq!(near("root=default", &[1, 0]), Some(1), "the first, as all are as near");
        assert_eq!(near("host=unknown", &[1, 9]), Some(1));
        assert_eq!(near("root=default", &[]), None);
        let default = Location::parse(None, "host10.example");
        assert_eq!(nearest(&default.distances(&map), [OsdId(0), OsdId(2)].into_iter()), Some(OsdId(2)));
    }
}
