//! `watch`, `notify` and `listwatchers`, as in `rados`.

use std::io::Read as _;
use std::time::Duration;

use clap::Subcommand;
use loligo_rados::{WatchItem, WatchNews};
use loligo_wire::Writer;
use serde_json::json;
use tokio::sync::oneshot;

use crate::client::{Client, Pool};
use crate::failure::{Context, Failure};
use crate::format::Format;
use crate::locks::address;
use crate::name::{self, Name};
use crate::omap::dump;

/// Watches and notifications.
#[derive(Subcommand)]
pub(crate) enum WatchCommand {
    /// Watch an object, which must exist: show what is notified on it, and answer with the same, until a line
    /// is entered.
    Watch { object: Name },
    /// Notify the watchers of an object, and show their replies.
    Notify { object: Name, message: Name },
    /// List an object's watchers.
    Listwatchers { object: Name },
}

/// The timeout of `rados notify`.
const NOTIFY_TIMEOUT: Duration = Duration::from_secs(10);

pub(crate) fn run(client: Client, command: &WatchCommand) -> Result<(), Failure> {
    client.in_pool(async |pool| match command {
        WatchCommand::Watch { object } => watch(pool, object).await,
        WatchCommand::Notify { object, message } => notify(pool, object, message).await,
        WatchCommand::Listwatchers { object } => list(pool, object).await,
    })
}

/// Prints notifications and replies with the same payload, until a line or the end of standard input.
async fn watch(pool: &Pool, object: &Name) -> Result<(), Failure> {
    let what = || pool.names("watch", object);
    let mut watch = pool.ioctx.watch(object.as_bytes(), Duration::ZERO).await.context(what)?;
    let mut enter = enter();
    eprintln!("press enter to exit...");
    loop {
        let news = tokio::select! {
            _ = &mut enter => return watch.unwatch().await.context(what),
            news = watch.next() => news.context(what)?,
        };
        match (news, pool.format) {
            (WatchNews::Notified(heard), format) => {
                let (cookie, id, from) = (watch.cookie(), heard.id, heard.notifier);
                match format {
                    Format::Plain => {
                        sayln!("NOTIFY cookie {cookie} notify_id {id} from {from}");
                        say!("{}", dump(&heard.payload));
                    }
                    _ => {
                        let text = name::text(&heard.payload);
                        let shown = json!({"cookie": cookie, "notify_id": id, "from": from.0, "data": text});
                        pool.format.print("notification", "item", &shown);
                    }
                }
                let answer = heard.payload.clone();
                heard.answer(answer);
            }
            (WatchNews::Missed, Format::Plain) => {
                sayln!("the watch was made anew; something may be missing")
            }
            (WatchNews::Missed, _) => pool.format.print("notification", "item", &json!({"missed": true})),
        }
    }
}

/// Waits for a line or the end of standard input. It runs on its own thread, since a read of a terminal
/// cannot be cancelled.
fn enter() -> oneshot::Receiver<()> {
    let (sender, receiver) = oneshot::channel();
    std::thread::spawn(move || {
        let newline = |byte: &std::io::Result<u8>| byte.as_ref().is_ok_and(|byte| *byte == b'\n');
        let _ = std::io::stdin().lock().bytes().find(newline);
        let _ = sender.send(());
    });
    receiver
}

/// Sends a notification, and prints the watchers that replied.
async fn notify(pool: &Pool, object: &Name, message: &Name) -> Result<(), Failure> {
    let what = || pool.names("notify", object);
    let mut payload = Writer::new();
    payload.blob(message.as_bytes());
    let notified =
        pool.ioctx.notify(object.as_bytes(), payload.into_bytes(), NOTIFY_TIMEOUT).await.context(what)?;
    if pool.format != Format::Plain {
        let watcher = |id: &loligo_rados::WatcherId| json!({"client": id.client.0, "cookie": id.cookie});
        let replies: Vec<_> = notified
            .answers
            .iter()
            .map(|(id, answer)| json!({"watcher": watcher(id), "data": name::text(answer)}))
            .collect();
        let timeouts: Vec<_> = notified.missing.iter().map(watcher).collect();
        pool.format.print("answers", "item", &json!({"replies": replies, "timeouts": timeouts}));
    } else {
        for (id, answer) in &notified.answers {
            sayln!("reply client.{} cookie {} : {} bytes", id.client.0, id.cookie, answer.len());
            if !answer.is_empty() {
                say!("{}", dump(answer));
            }
        }
        for id in &notified.missing {
            sayln!("timeout client.{} cookie {}", id.client.0, id.cookie);
        }
    }
    match notified.missing.len() {
        0 => Ok(()),
        n => Err(Failure::new(
            what(),
            format!("{n} watchers did not answer within {} s", NOTIFY_TIMEOUT.as_secs()),
        )),
    }
}

async fn list(pool: &Pool, object: &Name) -> Result<(), Failure> {
    let watchers =
        pool.ioctx.watchers(object.as_bytes()).await.context(|| pool.names("listwatchers", object))?;
    match pool.format {
        Format::Plain => watchers
            .iter()
            .for_each(|w| sayln!("watcher={} client.{} cookie={}", address(&w.addr), w.name.num, w.cookie)),
        _ => {
            let watcher = |w: &WatchItem| json!({"addr": address(&w.addr), "client": w.name.num, "cookie": w.cookie, "timeout_s": w.timeout_s});
            pool.format.print(
                "watchers",
                "watcher",
                &json!(watchers.iter().map(watcher).collect::<Vec<_>>()),
            );
        }
    }
    Ok(())
}
