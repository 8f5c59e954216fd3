//! The log's levels as settings, under this project's names and Ceph's, and the log's commands. There is
//! one log per process.

use loligo_logring::{Subsys, levels, set_option};
use serde_json::json;

use crate::command::Command;
use crate::failure::Failure;
use crate::option::ConfigOption;
use crate::request::Request;
use crate::table::Admin;

/// The function of a command; returns `false` if the process has no log.
type Act = fn() -> bool;

/// Adds the settings and commands.
pub(super) fn register(admin: &Admin) {
    for subsys in Subsys::ALL {
        for name in subsys.options() {
            let option = name.clone();
            let set = move |value: &str| set_option(&option, value).map_err(|e| Failure::new(e.to_string()));
            admin.option(ConfigOption::new(name, || levels(*subsys).to_string()).settable(set));
        }
    }
    let commands: [(&str, &str, Act); 3] = [
        ("log dump", "Write the newest entries that are kept to the log.", loligo_logring::dump),
        ("log flush", "Write what was logged to the log file.", loligo_logring::flush),
        ("log reopen", "Open the log file anew.", loligo_logring::reopen),
    ];
    for (name, help, run) in commands {
        let run = move |request: &Request| match run() {
            true => Ok(request.json(&json!({}))),
            false => Err(Failure::new("this process has no log")),
        };
        admin.command(Command::new(name, help, run));
    }
}
