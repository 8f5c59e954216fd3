//! `lock`: advisory locks on objects, as `rados lock`.

use std::time::Duration;

use clap::Subcommand;
use clap::builder::PossibleValuesParser;
use loligo_rados::{LockHolder, LockMode, LockOptions};
use loligo_wire::{EntityAddr, EntityNum, GlobalId, UTime};
use serde_json::json;

use crate::client::{Client, Pool};
use crate::failure::{Context, Failure};
use crate::format::Format;
use crate::name::{Name, shown};
use crate::say::say_line;
use crate::stdio::print_lines;

/// Advisory locks on objects.
#[derive(Subcommand)]
pub(crate) enum Lock {
    /// List an object's locks.
    List { object: Name },
    /// Show who holds a lock.
    Info { object: Name, name: Name },
    /// Take a lock. It is kept when this program ends.
    Get {
        object: Name,
        name: Name,
        /// Exclusive, or shared with the holders that name the same tag.
        #[arg(long, value_parser = PossibleValuesParser::new(["exclusive", "shared"]), default_value = "exclusive")]
        lock_type: String,
        /// Tells one holding of a client from another.
        #[arg(long, default_value = "", hide_default_value = true)]
        lock_cookie: Name,
        /// The tag of a shared lock; all its holders name the same.
        #[arg(long, default_value = "", hide_default_value = true)]
        lock_tag: Name,
        /// For people.
        #[arg(long, default_value = "", hide_default_value = true)]
        lock_description: Name,
        /// Seconds for which it is held; 0: until it is given up.
        #[arg(long, default_value_t = 0)]
        lock_duration: u32,
    },
    /// Take a lock away from its holder.
    Break {
        object: Name,
        name: Name,
        /// The holder, as `info` names it: client.NUMBER.
        locker: String,
        /// Its cookie.
        #[arg(long, default_value = "", hide_default_value = true)]
        lock_cookie: Name,
    },
}

pub(crate) fn run(client: Client, command: &Lock) -> Result<(), Failure> {
    client.in_pool(async |pool| one(pool, command).await)
}

async fn one(pool: &Pool, command: &Lock) -> Result<(), Failure> {
    let io = &pool.ioctx;
    match command {
        Lock::List { object } => list(pool, object).await,
        Lock::Info { object, name } => info(pool, object, name).await,
        Lock::Get { object, name, lock_type, lock_cookie, lock_tag, lock_description, lock_duration } => {
            let mode = if lock_type == "shared" { LockMode::Shared } else { LockMode::Exclusive };
            let options = LockOptions {
                cookie: lock_cookie.clone(),
                tag: lock_tag.clone(),
                description: lock_description.clone(),
                duration: (*lock_duration > 0).then(|| Duration::from_secs(u64::from(*lock_duration))),
                renew: false,
            };
            let done = io.lock(object.as_bytes(), name, mode, &options).await;
            done.context(|| format!("{} {name}", pool.names("lock get", object)))
        }
        Lock::Break { object, name, locker, lock_cookie } => {
            let what = || format!("{} {name}", pool.names("lock break", object));
            let number = locker.strip_prefix("client.").and_then(|number| number.parse().ok());
            let number =
                number.ok_or_else(|| Failure::new(what(), format!("'{locker}' is no client.NUMBER")))?;
            let client = EntityNum::client(GlobalId(number));
            io.break_lock(object.as_bytes(), name, client, lock_cookie).await.context(what)
        }
    }
}

async fn list(pool: &Pool, object: &Name) -> Result<(), Failure> {
    let names = pool.ioctx.locks(object.as_bytes()).await.context(|| pool.names("lock list", object))?;
    match pool.format {
        Format::Plain => print_lines(names.iter())?,
        _ => {
            let locks: Vec<_> = names.iter().map(|name| json!({"name": shown(name)})).collect();
            pool.format.print("object", "item", &json!({"objname": shown(object), "locks": locks}));
        }
    }
    Ok(())
}

async fn info(pool: &Pool, object: &Name, name: &Name) -> Result<(), Failure> {
    let what = || format!("{} {name}", pool.names("lock info", object));
    let lock = pool.ioctx.lock_info(object.as_bytes(), name).await.context(what)?;
    let mode = match lock.mode {
        Some(LockMode::Exclusive) => "exclusive",
        Some(LockMode::Shared) => "shared",
        None => "none",
    };
    let expires = |holder: &LockHolder| holder.expires.map(|at| UTime::from_system(at).to_string());
    if pool.format != Format::Plain {
        let holder = |holder: &LockHolder| {
            json!({
                "name": holder.client.to_string(),
                "cookie": shown(&holder.cookie),
                "description": shown(&holder.description),
                "expiration": expires(holder).unwrap_or_else(|| UTime::default().to_string()),
                "addr": address(&holder.addr),
            })
        };
        let lockers: Vec<_> = lock.holders.iter().map(holder).collect();
        pool.format.print(
            "lock",
            "item",
            &json!({"name": shown(name), "type": mode, "tag": shown(&lock.tag), "lockers": lockers}),
        );
        return Ok(());
    }
    let (name, tag, count) = (shown(name), shown(&lock.tag), lock.holders.len());
    say_line(&format!("{name}: {mode}, tag '{tag}', {count} hold it"));
    for holder in &lock.holders {
        let until = expires(holder).unwrap_or_else(|| "it is given up".to_owned());
        say_line(&format!(
            "  {} cookie '{}' at {} until {until} {}",
            holder.client,
            shown(&holder.cookie),
            address(&holder.addr),
            shown(&holder.description)
        ));
    }
    Ok(())
}

/// Formats an address without the protocol's name, as `rados` does.
pub(crate) fn address(addr: &EntityAddr) -> String {
    let shown = addr.to_string();
    shown.split_once(':').map(|(_, rest)| rest.to_owned()).unwrap_or(shown)
}
