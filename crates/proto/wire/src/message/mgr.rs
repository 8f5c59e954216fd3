//! Messages between clients and the active manager: commands, and the registration of service daemons.
//!
//! A manager accepts an [`MCommand`], as an OSD does, and passes it to its admin socket
//! (`ceph tell mgr`). Since release 15, commands that the manager runs for the cluster (`ceph pg dump`)
//! are sent as [`MMgrCommand`] (`src/mgr/MgrClient.cc`).

use std::collections::BTreeMap;

use bytes::Bytes;

use super::mon::{MCommand, MCommandReply};
use crate::message::macros::message_body;
use crate::message::{Data, Header, Message};
use crate::{DecodeError, Reader, Writer};

/// A command to the cluster that the active manager executes. Its fields are those of an [`MCommand`];
/// the cluster's id may be left blank.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MMgrCommand(pub MCommand);

/// The reply to an [`MMgrCommand`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MMgrCommandReply(pub MCommandReply);

/// Implements [`Message`] for a struct with one field by delegating to that field, under another name
/// and number.
macro_rules! another_name {
    ($name:ident($inner:ident) = $kind:literal $ceph:literal) => {
        impl Message for $name {
            const NAME: &'static str = $ceph;
            const KIND: u16 = $kind;
            const VERSION: u16 = 1;
            const COMPAT: u16 = 1;

            fn encode_front(&self, w: &mut Writer) {
                self.0.encode_front(w);
            }

            fn data(&self) -> Data {
                self.0.data()
            }

            fn decode(header: &Header, r: &mut Reader<'_>, data: &Data) -> Result<Self, DecodeError> {
                $inner::decode(header, r, data).map(Self)
            }
        }
    };
}

another_name!(MMgrCommand(MCommand) = 0x709 "mgr_command");
another_name!(MMgrCommandReply(MCommandReply) = 0x70a "mgr_command_reply");

/// Registers a daemon. The daemon's configuration, which a manager could display, is written empty and
/// not read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MMgrOpen {
    /// The daemon's name.
    pub daemon: String,
    /// The service that the daemon belongs to, such as `rgw`; empty for Ceph's own daemons.
    pub service: String,
    /// The metadata to display, if the daemon belongs to a service.
    pub metadata: Option<BTreeMap<String, String>>,
}

impl Message for MMgrOpen {
    const NAME: &'static str = "mgropen";
    const KIND: u16 = 0x700;
    const VERSION: u16 = 3;
    const COMPAT: u16 = 1;

    fn encode_front(&self, w: &mut Writer) {
        w.put(&self.daemon);
        w.put(&self.service);
        w.bool(self.metadata.is_some());
        if let Some(metadata) = &self.metadata {
            w.put(metadata);
            w.u32(0); // the status, which reports carry
        }
        w.blob(&[]);
        w.blob(&[]);
    }

    fn decode(header: &Header, r: &mut Reader<'_>, _: &Data) -> Result<Self, DecodeError> {
        let daemon = r.get()?;
        if header.version < 2 {
            return Ok(Self { daemon, ..Self::default() });
        }
        let service = r.get()?;
        let metadata = if r.bool()? { Some(r.get()?) } else { None };
        Ok(Self { daemon, service, metadata })
    }
}

message_body! {
    /// The manager's settings for reports. The fields that follow (queries for OSDs) are not read.
    MMgrConfigure = 0x701 "mgrconfigure", version 1, compat 1, PRIORITY_DEFAULT {
        /// Seconds between reports; 0 disables them.
        stats_period_s: u32,
    }
}

/// A daemon's report. It is written without counters, and reports with counters are rejected.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MMgrReport {
    /// The daemon's name.
    pub daemon: String,
    /// The service that the daemon belongs to.
    pub service: String,
    /// The daemon's status, if it has changed.
    pub status: Option<BTreeMap<String, String>>,
}

/// The values of zero counters: a struct of version 1 without fields.
const NO_COUNTERS: [u8; 6] = [1, 1, 0, 0, 0, 0];

impl Message for MMgrReport {
    const NAME: &'static str = "mgrreport";
    const KIND: u16 = 0x702;
    const VERSION: u16 = 9;
    const COMPAT: u16 = 1;

    fn encode_front(&self, w: &mut Writer) {
        w.put(&self.daemon);
        w.u32(0); // descriptions of counters
        w.blob(&NO_COUNTERS);
        w.u32(0); // counters that no longer exist
        w.put(&self.service);
        w.put(&self.status);
        w.u32(0); // health metrics
        w.blob(&[]); // the configuration
        w.u32(0); // performance of OSDs
        w.bool(false); // tasks
        w.bool(false); // performance of metadata servers
    }

    fn decode(_: &Header, r: &mut Reader<'_>, _: &Data) -> Result<Self, DecodeError> {
        let daemon = r.get()?;
        let described = r.u32()?;
        if described != 0 {
            return Err(DecodeError::Invalid { what: "number of counters", value: described.into() });
        }
        r.get::<Bytes>()?;
        r.get::<Vec<String>>()?;
        Ok(Self { daemon, service: r.get()?, status: r.get()? })
    }
}

message_body! {
    /// Unregisters a daemon. The manager replies with the same message.
    MMgrClose = 0x708 "mgrclose", version 1, compat 1, PRIORITY_DEFAULT {
        /// The daemon's name.
        daemon: String,
        /// The service that the daemon belonged to.
        service: String,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Msg;

    fn pairs() -> BTreeMap<String, String> {
        BTreeMap::from([("a".to_owned(), "b".to_owned())])
    }

    fn again<M: Message>(body: &M) -> M {
        Msg::new(body).open().expect("it opens")
    }

    #[test]
    fn what_is_written_is_read() {
        let open = MMgrOpen { daemon: "d".to_owned(), service: "s".to_owned(), metadata: Some(pairs()) };
        assert_eq!(again(&open), open);
        let open = MMgrOpen { metadata: None, ..open };
        assert_eq!(again(&open), open);
        let report = MMgrReport { daemon: "d".to_owned(), service: "s".to_owned(), status: Some(pairs()) };
        assert_eq!(again(&report), report);
        let command =
            MCommand { cmd: vec!["{}".to_owned()], input: Bytes::from_static(b"in"), ..MCommand::default() };
        assert_eq!(again(&MMgrCommand(command.clone())), MMgrCommand(command));
        let reply = MCommandReply { result: -2, status: "s".to_owned(), output: Bytes::from_static(b"out") };
        assert_eq!(again(&MMgrCommandReply(reply.clone())), MMgrCommandReply(reply));
    }

    /// Goal: a report with counters is rejected instead of misread, because counters have descriptions
    /// with versions of their own.
    #[test]
    fn reports_with_counters_are_refused() {
        let mut msg = Msg::new(&MMgrReport::default());
        let mut front = msg.front.to_vec();
        front[4] = 1;
        msg.front = front.into();
        assert!(msg.open::<MMgrReport>().is_err());
    }
}
