//! Commands received as messages: a client that has `allow *` for a daemon can run the commands of its
//! table.

use std::sync::Arc;

use loligo_admin::{Admin, Failure, Refusal};
use loligo_cephx::caps::{MonCaps, OsdCaps};
use loligo_msgr::Connection;
use loligo_wire::message::mon::{MCommand, MCommandReply};
use loligo_wire::message::{Message, Msg};
use loligo_wire::{Errno, Tid};
use serde_json::{Map, Value};
use tokio::sync::Semaphore;

/// The most commands that run at a time, over all clients. Each occupies a thread; further commands are
/// refused.
const RUNNING_MAX: usize = 16;

/// Executes commands received as messages.
pub(crate) struct Teller {
    admin: Admin,
    running: Arc<Semaphore>,
    /// The daemon's reply to a client without permission.
    denied: &'static str,
    /// The daemon's reply to a malformed command.
    malformed: fn(&str, Malformed) -> String,
    allowed: fn(&Connection) -> bool,
}

impl Teller {
    pub(crate) fn of_osd(admin: Admin) -> Self {
        let running = Arc::new(Semaphore::new(RUNNING_MAX));
        Self { admin, running, denied: "access denied", malformed: said_by_osd, allowed: may_do_everything }
    }

    pub(crate) fn of_mon(admin: Admin) -> Self {
        let running = Arc::new(Semaphore::new(RUNNING_MAX));
        let (malformed, allowed) = (said_by_mon, may_do_everything_to_mon);
        Self { admin, running, denied: "insufficient caps", malformed, allowed }
    }

    /// Removes the commands from `msgs` and executes them.
    pub(crate) fn take(&self, conn: &Arc<Connection>, msgs: &mut Vec<Msg>) {
        if msgs.iter().any(|msg| msg.header.kind == MCommand::KIND) {
            let commands = msgs.extract_if(.., |msg| msg.header.kind == MCommand::KIND);
            commands.for_each(|msg| self.command(conn, &msg));
        }
    }

    fn command(&self, conn: &Arc<Connection>, msg: &Msg) {
        let command: MCommand = match msg.open() {
            Ok(command) => command,
            Err(e) => return conn.refuse(msg.header.kind, e),
        };
        let tid = msg.header.tid;
        if !(self.allowed)(conn) {
            return answer(conn, tid, (Errno::EACCES.to_result(), self.denied.to_owned(), String::new()));
        }
        let text = command.cmd.concat();
        let request = match request_of(&text) {
            Ok(request) => request,
            Err(why) => {
                return answer(
                    conn,
                    tid,
                    (Errno::EINVAL.to_result(), (self.malformed)(&text, why), String::new()),
                );
            }
        };
        let Ok(permit) = Arc::clone(&self.running).try_acquire_owned() else {
            return answer(
                conn,
                tid,
                (Errno::EBUSY.to_result(), "too many commands at a time".to_owned(), String::new()),
            );
        };
        let (admin, conn) = (self.admin.clone(), Arc::clone(conn));
        // A command may take a while, and this thread serves a client's requests.
        tokio::task::spawn_blocking(move || {
            answer(&conn, tid, run(&admin, &request));
            drop(permit);
        });
    }
}

fn may_do_everything_to_mon(conn: &Connection) -> bool {
    let caps = conn.identity().and_then(|identity| MonCaps::parse(&identity.caps).ok());
    caps.is_some_and(|caps| caps.allow_all())
}

fn may_do_everything(conn: &Connection) -> bool {
    let caps = conn.identity().and_then(|identity| OsdCaps::parse(&identity.caps).ok());
    caps.is_some_and(|caps| caps.allow_all())
}

/// Why a message is not a valid command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Malformed {
    NotJson,
    NotAnObject,
    /// An argument is an object or null.
    Argument,
    /// The prefix or the format is not a string.
    Word,
    NoPrefix,
}

/// The command in a message. It must be a JSON object, whereas the admin socket accepts plain words as
/// well. Text after the object is ignored.
fn request_of(text: &str) -> Result<String, Malformed> {
    let value = serde_json::Deserializer::from_str(text).into_iter().next();
    let mut fields: Map<String, Value> = match value {
        Some(Ok(Value::Object(fields))) => fields,
        Some(Ok(_)) => return Err(Malformed::NotAnObject),
        Some(Err(_)) | None => return Err(Malformed::NotJson),
    };
    if fields.values().any(|value| matches!(value, Value::Object(_) | Value::Null)) {
        return Err(Malformed::Argument);
    }
    if ["prefix", "format"].iter().any(|word| fields.get(*word).is_some_and(|value| !value.is_string())) {
        return Err(Malformed::Word);
    }
    match fields.get("prefix").and_then(Value::as_str) {
        None => return Err(Malformed::NoPrefix),
        // An older form: `pg` with the command for the placement group in `cmd`. The command is itself a
        // prefix.
        Some("pg") => {
            let own = fields.remove("cmd").filter(Value::is_string);
            own.and_then(|own| fields.insert("prefix".to_owned(), own));
        }
        Some(_) => {}
    }
    Ok(Value::Object(fields).to_string())
}

/// The reply of an OSD of release 16.
fn said_by_osd(_: &str, why: Malformed) -> String {
    let said = match why {
        Malformed::NotJson | Malformed::NotAnObject | Malformed::Argument => "invalid json",
        Malformed::Word => "invalid json, missing format and/or prefix",
        Malformed::NoPrefix => "unknown command prefix ",
    };
    said.to_owned()
}

/// The reply of a monitor of release 16. A stock monitor that receives a [`Malformed::Word`] crashes
/// instead.
fn said_by_mon(text: &str, why: Malformed) -> String {
    match why {
        Malformed::NotJson => format!("unparseable JSON {text}"),
        Malformed::NotAnObject => format!("not JSON object {text}"),
        Malformed::Argument => format!("JSON array/object not allowed {text}"),
        Malformed::Word | Malformed::NoPrefix => "no prefix".to_owned(),
    }
}

/// Returns a result code, a status for people, and the output.
fn run(admin: &Admin, request: &str) -> (i32, String, String) {
    match admin.run_with_status(request.as_bytes()) {
        Ok((output, status)) => (0, status, output),
        Err(Refusal::Unknown(words)) => {
            (Errno::EINVAL.to_result(), format!("unknown command prefix {words}"), String::new())
        }
        Err(Refusal::Misfit(_)) => {
            (Errno::EINVAL.to_result(), "invalid command json".to_owned(), String::new())
        }
        Err(Refusal::Failed(Failure { errno, why })) => (errno.to_result(), why, String::new()),
    }
}

fn answer(conn: &Connection, tid: Tid, (result, status, output): (i32, String, String)) {
    let reply = MCommandReply { result, status, output: output.into() };
    // The client may be gone.
    let _ = conn.send(Msg::new(&reply).with_tid(tid));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compared with the replies of stock daemons of 16.2.15.
    #[test]
    fn a_message_that_is_no_command_is_refused_as_by_stock_daemons() {
        for (text, osd, mon) in [
            ("version", "invalid json", "unparseable JSON version"),
            ("", "invalid json", "unparseable JSON "),
            ("{", "invalid json", "unparseable JSON {"),
            ("[]", "invalid json", "not JSON object []"),
            ("\"version\"", "invalid json", "not JSON object \"version\""),
            ("{}", "unknown command prefix ", "no prefix"),
            ("{\"prefix\": null}", "invalid json", "JSON array/object not allowed {\"prefix\": null}"),
            ("{\"prefix\": 5}", "invalid json, missing format and/or prefix", "no prefix"),
        ] {
            let why = request_of(text).expect_err(text);
            assert_eq!((&*said_by_osd(text, why), &*said_by_mon(text, why)), (osd, mon), "{text}");
        }
        for text in [" {\"prefix\": \"version\"} ", "{\"prefix\": \"version\"} x"] {
            assert_eq!(request_of(text).as_deref(), Ok("{\"prefix\":\"version\"}"), "{text}");
        }
        let old = "{\"prefix\":\"pg\",\"cmd\":\"query\",\"pgid\":\"1.0\"}";
        assert_eq!(request_of(old).as_deref(), Ok("{\"pgid\":\"1.0\",\"prefix\":\"query\"}"));
    }
}
