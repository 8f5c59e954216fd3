//! Maps of file systems and metadata servers that monitors publish. `loligo-maps` decodes them.

use bytes::Bytes;

use crate::message::{Data, Header, Message};
use crate::{DecodeError, Epoch, Name, Reader, Uuid, Writer};

/// The metadata servers of one file system, for its clients.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MMDSMap {
    /// The cluster.
    pub fsid: Uuid,
    /// The map's epoch.
    pub epoch: Epoch,
    /// The encoded map.
    pub map: Bytes,
    /// Version 2: the name of the file system; always empty, and not used by clients.
    pub fs_name: Option<Name>,
}

impl Message for MMDSMap {
    const NAME: &'static str = "mdsmap";
    const KIND: u16 = 21;
    const VERSION: u16 = 2;
    const COMPAT: u16 = 1;
    const PRIORITY: u16 = Header::PRIORITY_HIGH;

    fn version(&self) -> u16 {
        if self.fs_name.is_some() { 2 } else { 1 }
    }

    fn encode_front(&self, w: &mut Writer) {
        w.put(&self.fsid);
        w.put(&self.epoch);
        w.put(&self.map);
        if let Some(name) = &self.fs_name {
            w.put(name);
        }
    }

    fn front_len_hint(&self) -> usize {
        32 + self.map.len()
    }

    fn decode(header: &Header, r: &mut Reader<'_>, _: &Data) -> Result<Self, DecodeError> {
        let (fsid, epoch, map) = (r.get()?, r.get()?, r.get()?);
        let fs_name = if header.version >= 2 { Some(r.get()?) } else { None };
        Ok(Self { fsid, epoch, map, fs_name })
    }
}

/// Declares a message that consists of an epoch and a map, which reaches to the end.
macro_rules! map_message {
    ($(#[$doc:meta])* $name:ident = $kind:literal $ceph:literal) => {
        $(#[$doc])*
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct $name {
            /// The map's epoch.
            pub epoch: Epoch,
            /// The encoded map.
            pub map: Bytes,
        }

        impl Message for $name {
            const NAME: &'static str = $ceph;
            const KIND: u16 = $kind;
            const VERSION: u16 = 1;
            const COMPAT: u16 = 1;
            const PRIORITY: u16 = Header::PRIORITY_HIGH;

            fn encode_front(&self, w: &mut Writer) {
                w.put(&self.epoch);
                w.raw(&self.map);
            }

            fn front_len_hint(&self) -> usize {
                4 + self.map.len()
            }

            fn decode(_: &Header, r: &mut Reader<'_>, _: &Data) -> Result<Self, DecodeError> {
                Ok(Self { epoch: r.get()?, map: Bytes::copy_from_slice(r.rest()) })
            }
        }
    };
}

map_message! {
    /// All file systems and metadata servers, for daemons and administrators.
    MFSMap = 45 "fsmap"
}

map_message! {
    /// The names and numbers of all file systems, for clients that look for theirs.
    MFSMapUser = 103 "fsmap.user"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Msg;

    #[test]
    fn both_versions_of_mdsmap_are_read_back() {
        for (fs_name, version, len) in [(None, 1, 27), (Some(Name::new()), 2, 31)] {
            let map = Bytes::from_static(b"map");
            let body = MMDSMap { fsid: Uuid([7; 16]), epoch: Epoch(5), map, fs_name };
            let msg = Msg::new(&body);
            assert_eq!((msg.header.version, msg.front.len()), (version, len));
            assert_eq!(&msg.front[16..27], b"\x05\0\0\0\x03\0\0\0map");
            assert_eq!(msg.open(), Ok(body));
        }
    }

    #[test]
    fn maps_reach_to_the_end() {
        let body = MFSMapUser { epoch: Epoch(2), map: Bytes::from_static(b"map") };
        let msg = Msg::new(&body);
        assert_eq!((msg.header.kind, &msg.front[..]), (103, &b"\x02\0\0\0map"[..]));
        assert_eq!(msg.open(), Ok(body));
    }
}
