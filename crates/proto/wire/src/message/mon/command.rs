//! Commands. The input is JSON; the output is a code, a line of text and bytes. Commands to OSDs and
//! managers have the same form without the Paxos header.

use bytes::Bytes;

use super::PaxosHeader;
use crate::message::{Data, Header, Message, concat};
use crate::{DecodeError, Reader, Uuid, Writer};

/// A command to the monitors.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MMonCommand {
    /// Unused: no version applies.
    pub paxos: PaxosHeader,
    /// The cluster.
    pub fsid: Uuid,
    /// The command in JSON, such as `{"prefix": "status"}`. The list always holds one string.
    pub cmd: Vec<Bytes>,
    /// The command's input.
    pub input: Bytes,
}

impl Message for MMonCommand {
    const NAME: &'static str = "mon_command";
    const KIND: u16 = 50;
    const VERSION: u16 = 1;
    const COMPAT: u16 = 1;

    fn encode_front(&self, w: &mut Writer) {
        w.put(&self.paxos);
        w.put(&self.fsid);
        w.put(&self.cmd);
    }

    fn data(&self) -> Data {
        bulk(&self.input)
    }

    fn decode(_: &Header, r: &mut Reader<'_>, data: &Data) -> Result<Self, DecodeError> {
        Ok(Self { paxos: r.get()?, fsid: r.get()?, cmd: r.get()?, input: concat(data) })
    }
}

/// The reply to an [`MMonCommand`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MMonCommandAck {
    /// The version of the service's state after the command.
    pub paxos: PaxosHeader,
    /// 0 or more, or a negative errno.
    pub result: i32,
    /// A text for people.
    pub status: Bytes,
    /// The command.
    pub cmd: Vec<Bytes>,
    /// The output.
    pub output: Bytes,
}

impl Message for MMonCommandAck {
    const NAME: &'static str = "mon_command_ack";
    const KIND: u16 = 51;
    const VERSION: u16 = 1;
    const COMPAT: u16 = 1;
    const PRIORITY: u16 = Header::PRIORITY_HIGH;

    fn encode_front(&self, w: &mut Writer) {
        w.put(&self.paxos);
        w.i32(self.result);
        w.put(&self.status);
        w.put(&self.cmd);
    }

    fn data(&self) -> Data {
        bulk(&self.output)
    }

    fn decode(_: &Header, r: &mut Reader<'_>, data: &Data) -> Result<Self, DecodeError> {
        Ok(Self { paxos: r.get()?, result: r.i32()?, status: r.get()?, cmd: r.get()?, output: concat(data) })
    }
}

/// A command to an OSD or a manager (`ceph tell`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MCommand {
    /// The cluster.
    pub fsid: Uuid,
    /// The command in JSON.
    pub cmd: Vec<String>,
    /// The command's input.
    pub input: Bytes,
}

impl Message for MCommand {
    const NAME: &'static str = "command";
    const KIND: u16 = 97;
    const VERSION: u16 = 1;
    const COMPAT: u16 = 1;

    fn encode_front(&self, w: &mut Writer) {
        w.put(&self.fsid);
        w.put(&self.cmd);
    }

    fn data(&self) -> Data {
        bulk(&self.input)
    }

    fn decode(_: &Header, r: &mut Reader<'_>, data: &Data) -> Result<Self, DecodeError> {
        Ok(Self { fsid: r.get()?, cmd: r.get()?, input: concat(data) })
    }
}

/// The reply to an [`MCommand`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MCommandReply {
    /// 0 or more, or a negative errno.
    pub result: i32,
    /// A text for people.
    pub status: String,
    /// The output.
    pub output: Bytes,
}

impl Message for MCommandReply {
    const NAME: &'static str = "command_reply";
    const KIND: u16 = 98;
    const VERSION: u16 = 1;
    const COMPAT: u16 = 1;

    fn encode_front(&self, w: &mut Writer) {
        w.i32(self.result);
        w.put(&self.status);
    }

    fn data(&self) -> Data {
        bulk(&self.output)
    }

    fn decode(_: &Header, r: &mut Reader<'_>, data: &Data) -> Result<Self, DecodeError> {
        Ok(Self { result: r.i32()?, status: r.get()?, output: concat(data) })
    }
}

fn bulk(bytes: &Bytes) -> Data {
    [bytes].into_iter().filter(|bytes| !bytes.is_empty()).cloned().collect()
}
