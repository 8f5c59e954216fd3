//! Commands to the manager. They are answered from the monitor's state, in a stock manager's words.

use loligo_wire::message::Msg;
use loligo_wire::message::mgr::{MMgrCommand, MMgrCommandReply};
use loligo_wire::message::mon::{MCommand, MCommandReply};
use loligo_wire::{Tid, UTime};

use serde_json::Value;

use super::run::DESCRIPTIONS;
use super::{Monitor, SessionId};
use crate::command::{self, Args, Errno, Failure, Outcome, Reply, descriptions};
use crate::text::without_lone_surrogates;

/// The reply to a client without a manager capability.
const DENIED: &str = "access denied: does your client key have mgr caps? See \
    http://docs.ceph.com/en/latest/mgr/administrator/#client-authentication";

impl Monitor {
    pub(super) fn mgr_command(&mut self, id: SessionId, tid: Tid, message: MMgrCommand, now: UTime) {
        let outcome = self.run_for_manager(id, &message.0, now);
        self.settle(); // a new map is sent before the reply
        let (result, status, output) = match outcome {
            Ok(Reply { output, status }) => (0, status, output),
            Err(Failure { errno, status }) => (errno.to_result(), status, Vec::new()),
        };
        let reply = MMgrCommandReply(MCommandReply { result, status, output: output.into() });
        self.out.push((id, Msg::new(&reply).with_tid(tid)));
    }

    fn run_for_manager(&mut self, id: SessionId, message: &MCommand, now: UTime) -> Outcome {
        if !self.state.is_meant_by(message.fsid) {
            return Err(Failure::new(Errno::EPERM, "wrong fsid"));
        }
        if !self.sessions.get(&id).is_some_and(|session| session.has_caps()) {
            return Err(Failure::new(Errno::EACCES, DENIED));
        }
        let args = arguments(&message.cmd.concat())?;
        let prefix = args.text("prefix").unwrap_or_default();
        if prefix == DESCRIPTIONS {
            return Ok(Reply::output(descriptions(command::all().filter(|c| c.is_managers())).to_string()));
        }
        let command = command::find_for(prefix, &args).filter(|command| command.is_managers());
        let unknown = || Failure::invalid(format!("No handler found for '{prefix}'"));
        self.carry_out(id, command.ok_or_else(unknown)?, &args, &message.input, now)
    }
}

/// Parses a command; other texts get a stock manager's error. Text after the JSON object is ignored:
/// stock `rbd perf image iostat` sends a quotation mark there.
fn arguments(text: &str) -> Result<Args, Failure> {
    let clean = without_lone_surrogates(text.to_owned());
    let value = serde_json::Deserializer::from_str(&clean).into_iter::<Value>().next();
    match value {
        Some(Ok(Value::Object(fields))) => match fields.get("prefix") {
            None | Some(Value::String(_)) => Args::parse(&Value::Object(fields).to_string()),
            Some(_) => Err(Failure::invalid("bad or missing field 'prefix'")),
        },
        Some(Ok(_)) => Err(Failure::invalid(format!("not JSON object {text}"))),
        Some(Err(_)) | None => Err(Failure::invalid(format!("unparseable JSON {text}"))),
    }
}
