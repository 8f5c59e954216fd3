//! Runs commands.

use loligo_wire::message::Msg;
use loligo_wire::message::mon::{MMonCommand, MMonCommandAck, MPing};
use loligo_wire::{EntityAddr, EntityName, EntityType, Tid, UTime, Writer};

use super::{Monitor, SessionId};
use crate::command::{self, Args, Call, Caller, Command, Errno, Failure, Outcome, Reply, descriptions};
use crate::output::Format;
use crate::state::MON_ID;
use crate::state::log::Severity;
use crate::text;

/// The command that every session may send: it lists the commands.
pub(super) const DESCRIPTIONS: &str = "get_command_descriptions";

/// Maximum bytes of a command, or of a client's line, that the log keeps.
const SHOWN_MAX_BYTES: usize = 4096;

impl Monitor {
    pub(super) fn command(&mut self, id: SessionId, tid: Tid, message: MMonCommand, now: UTime) {
        let outcome = self.run(id, &message, now);
        self.settle(); // a new map is sent before the reply
        let (result, status, output) = match outcome {
            Ok(Reply { output, status }) => (0, status, output),
            Err(Failure { errno, status }) => (errno.to_result(), status, Vec::new()),
        };
        let status = text::to_bytes(&status).into();
        let ack =
            MMonCommandAck { paxos: self.epoch(), result, status, cmd: message.cmd, output: output.into() };
        self.out.push((id, Msg::new(&ack).with_tid(tid)));
    }

    fn run(&mut self, id: SessionId, message: &MMonCommand, now: UTime) -> Outcome {
        if !self.state.is_meant_by(message.fsid) {
            return Err(Failure::new(Errno::EPERM, "wrong fsid"));
        }
        let args = Args::parse(&text::from_bytes(&message.cmd.concat()))?;
        let prefix = args.prefix()?;
        if prefix == DESCRIPTIONS {
            return Ok(Reply::output(descriptions(command::all()).to_string()));
        }
        let command =
            command::find_for(prefix, &args).ok_or_else(|| Failure::invalid("command not known"))?;
        self.carry_out(id, command, &args, &message.input, now)
    }

    /// Runs a command if the client's capabilities allow it.
    pub(super) fn carry_out(
        &mut self,
        id: SessionId,
        command: &'static Command,
        args: &Args,
        input: &[u8],
        now: UTime,
    ) -> Outcome {
        if command.is_absent {
            // Refused to every client, whatever the arguments.
            return Err(command::refused(command.prefix));
        }
        let session = self.sessions.get(&id);
        let session = session.filter(|session| session.may_run(command, args));
        let Some(session) = session else {
            self.audit(id, args, "access denied", now);
            return Err(Failure::new(Errno::EACCES, "access denied"));
        };
        let caller = session.caller();
        args.check(command)?;
        let format = args.text("format");
        let format = Format::parse(format).ok_or_else(|| {
            let format = format.unwrap_or_default();
            Failure::invalid(format!(
                "format '{format}' is not supported: plain, json, json-pretty, xml and xml-pretty are"
            ))
        })?;
        if command.needs().contains(loligo_cephx::caps::Perms::W) {
            self.audit(id, args, "dispatch", now);
        }
        let (usage, sessions) = (self.usage.usage(), self.peers());
        let mut call = Call {
            state: &mut self.state,
            usage: &usage,
            pgs: &*self.usage,
            args,
            format,
            bare: command.bare,
            input,
            caller: &caller,
            sessions: &sessions,
            now,
        };
        (command.run)(&mut call)
    }

    /// Replies to a ping with the health and the monitor's status.
    pub(super) fn ping(&mut self, id: SessionId, now: UTime) {
        let Some(caller) = self.sessions.get(&id).map(crate::session::Session::caller) else { return };
        let pong = self.with_call(&caller, now, |call| command::pong(call).to_string());
        let mut front = Writer::new();
        front.blob(pong.as_bytes());
        self.out.push((id, Msg { front: front.into_bytes(), ..Msg::new(&MPing {}) }));
    }

    /// Ends the mutes of alerts that have expired or got worse.
    pub(super) fn end_mutes(&mut self, now: UTime) {
        let name = EntityName { kind: EntityType::MON, id: MON_ID.to_owned() };
        let me = Caller { name, addr: EntityAddr::default(), reads_keys: false, is_unbounded: true };
        self.with_call(&me, now, command::end_mutes);
    }

    /// Calls `act` as a command without arguments.
    fn with_call<R>(&mut self, caller: &Caller, now: UTime, act: impl FnOnce(&mut Call<'_>) -> R) -> R {
        let (usage, sessions) = (self.usage.usage(), self.peers());
        act(&mut Call {
            state: &mut self.state,
            usage: &usage,
            pgs: &*self.usage,
            args: &Args::none(),
            format: Format::Json,
            bare: true,
            input: &[],
            caller,
            sessions: &sessions,
            now,
        })
    }

    /// Writes the client, its command and the decision to the audit log. Values of config keys are
    /// omitted.
    fn audit(&mut self, id: SessionId, args: &Args, what: &str, now: UTime) {
        let Some(session) = self.sessions.get(&id) else { return };
        let caller = session.caller();
        let shown = match args.prefix() {
            Ok(prefix @ ("config-key set" | "config-key put")) => {
                serde_json::json!({ "prefix": prefix, "key": args.required("key") }).to_string()
            }
            _ => args.to_string(),
        };
        let shown = shortened(shown);
        let line = format!("from='{}' entity='{}' cmd={shown}: {what}", caller.addr, caller.name);
        self.state.log_mut().say(now, Severity::Info, "audit", line);
    }
}

/// Shortens a text for the log, so that a single one cannot displace all earlier lines.
pub(super) fn shortened(mut text: String) -> String {
    let bytes = text.len();
    if bytes > SHOWN_MAX_BYTES {
        let cut = (0..=SHOWN_MAX_BYTES).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        text.truncate(cut);
        text.push_str(&format!("… ({bytes} bytes)"));
    }
    text
}
