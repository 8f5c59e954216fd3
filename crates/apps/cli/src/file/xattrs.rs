//! Users' attributes of striped files, as in `rados --striper`.

use serde_json::json;

use super::striper;
use crate::args::Format;
use crate::client::Pool;
use crate::failure::{Context, Failure};
use crate::name::{Name, shown};
use crate::stdio::{given_or_read, print_bytes, print_lines};

pub(super) async fn set(
    pool: &Pool,
    name: &Name,
    attribute: &Name,
    value: Option<&Name>,
) -> Result<(), Failure> {
    let value = given_or_read(value)?;
    let done = striper(pool).set_xattr(name, attribute, value).await;
    done.context(|| names(pool, "setxattr", name, attribute))
}

pub(super) async fn get(pool: &Pool, name: &Name, attribute: &Name) -> Result<(), Failure> {
    let value = striper(pool).xattr(name, attribute).await;
    print_bytes(&value.context(|| names(pool, "getxattr", name, attribute))?)
}

pub(super) async fn remove(pool: &Pool, name: &Name, attribute: &Name) -> Result<(), Failure> {
    let done = striper(pool).remove_xattr(name, attribute).await;
    done.context(|| names(pool, "rmxattr", name, attribute))
}

pub(super) async fn list(pool: &Pool, name: &Name) -> Result<(), Failure> {
    let xattrs = striper(pool).xattrs(name).await.context(|| pool.names("listxattr", name))?;
    let names = xattrs.keys();
    match pool.format {
        Format::Plain => print_lines(names)?,
        _ => pool.format.print("xattrs", "name", &json!(names.map(|name| shown(name)).collect::<Vec<_>>())),
    }
    Ok(())
}

fn names(pool: &Pool, command: &str, name: &Name, attribute: &Name) -> String {
    format!("{} {attribute}", pool.names(command, name))
}
