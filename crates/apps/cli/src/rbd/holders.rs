//! `loligo rbd status` and `lock`.

use loligo_rados::{LockInfo, LockMode};
use loligo_rbd::{Evicted, Mode};
use loligo_wire::{EntityAddr, EntityNum, GlobalId};
use serde_json::{Value, json};

use super::args::Lock;
use super::show::table;
use super::{Place, closing};
use crate::args::Format;
use crate::failure::{Context, Failure};
use crate::name::{Name, shown};
use crate::say::say_line;

pub(super) async fn status(place: &Place, text: &Name) -> Result<(), Failure> {
    let image = place.open(text, Mode::Header).await?;
    let watchers = image.watchers().await.context(|| format!("status {text}"))?;
    let migration = super::migration::status(place, text).await?;
    if place.format != Format::Plain {
        let one = |watcher: &loligo_rados::WatchItem| {
            let address = address(&watcher.addr);
            json!({"address": address, "client": watcher.name.num, "cookie": watcher.cookie})
        };
        let mut all = json!({"watchers": watchers.iter().map(one).collect::<Vec<_>>()});
        if let Some(migration) = migration {
            all["migration"] = super::migration::json(&place.rados, &migration);
        }
        place.format.print("status", "item", &all);
        return Ok(());
    }
    sayln!("Watchers:{}", if watchers.is_empty() { " none" } else { "" });
    for watcher in watchers {
        sayln!("\twatcher={} client.{} cookie={}", address(&watcher.addr), watcher.name.num, watcher.cookie);
    }
    if let Some(migration) = migration {
        super::migration::show(&place.rados, &migration);
    }
    Ok(())
}

pub(super) async fn lock(place: &Place, command: &Lock) -> Result<(), Failure> {
    let (Lock::Ls { image: text } | Lock::Add { image: text, .. } | Lock::Rm { image: text, .. }) = command;
    let image = place.open(text, Mode::Header).await?;
    let what = format!("lock {text}");
    match command {
        Lock::Ls { .. } => {
            let info = image.lock_info().await.context(|| what)?;
            list(&info, place.format);
            Ok(())
        }
        Lock::Add { id, shared, .. } => {
            let done = image.lock_by_hand(id, shared.as_ref()).await;
            closing(image, done, &what).await
        }
        Lock::Rm { id, locker, .. } => {
            let client = client(locker)
                .ok_or_else(|| Failure::new(locker, "is no client, such as client.4123 in `lock ls`"))?;
            let done = image.break_lock(client, id, Evicted::Yes).await;
            closing(image, done, &what).await
        }
    }
}

fn list(info: &LockInfo, format: Format) {
    if format != Format::Plain {
        let one = |holder: &loligo_rados::LockHolder| {
            let locker = holder.client.to_string();
            json!({"id": shown(&holder.cookie), "locker": locker, "address": address(&holder.addr)})
        };
        format.print("locks", "lock", &Value::from(info.holders.iter().map(one).collect::<Vec<_>>()));
        return;
    }
    let (is_shared, count) = (info.mode == Some(LockMode::Shared), info.holders.len());
    let kind = if is_shared { "shared" } else { "exclusive" };
    match count {
        0 => return,
        1 => sayln!("There is 1 {kind} lock on this image."),
        count => sayln!("There are {count} {kind} locks on this image."),
    }
    if is_shared {
        say_line(&format!("Lock tag: {}", shown(&info.tag)));
    }
    let titles = ["Locker", "ID", "Address"].map(str::to_owned);
    let holders = info.holders.iter();
    let rows =
        holders.map(|holder| [holder.client.to_string(), shown(&holder.cookie), address(&holder.addr)]);
    table([false; 3], std::iter::once(titles).chain(rows).collect());
}

/// Formats an address as Ceph did before addresses had types.
fn address(addr: &EntityAddr) -> String {
    addr.sock.map_or_else(|| format!(":/{}", addr.nonce), |sock| format!("{sock}/{}", addr.nonce))
}

/// Parses `client.NUMBER`.
fn client(text: &str) -> Option<EntityNum> {
    text.strip_prefix("client.")?.parse().ok().map(|number| EntityNum::client(GlobalId(number)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_have_numbers() {
        assert_eq!(client("client.4123"), Some(EntityNum::client(GlobalId(4123))));
        assert_eq!(client("client.admin"), None);
        assert_eq!(client("osd.1"), None);
    }
}
