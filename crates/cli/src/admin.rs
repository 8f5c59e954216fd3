//! The admin socket of a client, for who has configured one.

use std::path::Path;

use loligo_admin::{Admin, AdminSocket, ConfigOption};
use loligo_cephx::conf::Conf;

/// Opens the socket that `admin_socket` names, as stock clients do; none if it is not set. Like them we go on without it if
/// it can't be had, and say so.
pub(crate) fn of_client(conf: &Conf) -> Option<AdminSocket> {
    let name = conf.text("admin_socket").filter(|name| !name.is_empty())?;
    let admin = Admin::new();
    for (option, value) in [("name", conf.name().to_string()), ("admin_socket", name.clone())] {
        admin.option(ConfigOption::new(option, move || value.clone()));
    }
    AdminSocket::open(Path::new(&name), admin)
        .inspect_err(|e| eprintln!("loligo: admin socket {name}: {e}; going on without it"))
        .ok()
}
