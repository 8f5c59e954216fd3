//! `loligo rbd config`: settings for images, at the level of the cluster, of a pool or of one image.

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use loligo_conf::Conf;
use loligo_conf::table::{self, Known};
use loligo_rados::{Errno, IoCtx};
use loligo_rbd::settings::{self, METADATA_PREFIX, POOL_OVERRIDES_CHANGED};
use loligo_rbd::{Error, Image, Mode, pools};
use serde_json::{Value, json};

use super::args::{Config, Setting};
use super::show::table as columns;
use super::{Place, only_pool};
use crate::args::Format;
use crate::failure::{Context, Failure};
use crate::name::{Name, shown};
use crate::say::say_line;

/// The level of a setting.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Cluster,
    Pool,
    Image,
}

impl Level {
    fn has(self, name: &str) -> bool {
        match self {
            Self::Cluster => true,
            Self::Pool => settings::pools_override(name),
            Self::Image => settings::images_override(name),
        }
    }

    /// Returns the option that a key names.
    fn option(self, key: &str) -> Result<Known, Failure> {
        let refused = |why: &str| Failure::of(Errno::EINVAL, "rbd config", format!("{why}: {key}"));
        if !key.starts_with("rbd_") {
            return Err(refused("not rbd option"));
        }
        table::known(key).ok_or_else(|| refused("invalid config key"))
    }

    /// Checks a value for the option that a key names.
    fn checked(self, key: &str, value: &str) -> Result<String, Failure> {
        let option = self.option(key)?;
        let what = || format!("set {key}");
        if !self.has(option.name) {
            return Err(Failure::of(Errno::EINVAL, what(), "pools and images do not override this option"));
        }
        match option.accept(value) {
            // The text is stored and shown as it was given.
            Ok(_) => Ok(value.to_owned()),
            Err(why) => Err(Failure::of(Errno::EINVAL, what(), format!("error parsing value: {}", why.why))),
        }
    }
}

pub(super) async fn run(place: &Place, command: &Config) -> Result<(), Failure> {
    match command {
        Config::Global(setting) => of_cluster(place, setting).await,
        Config::Pool(setting) => of_pool(place, setting).await,
        Config::Image(setting) => of_image(place, setting).await,
    }
}

fn not_set(key: &str) -> Failure {
    Failure::of(Errno::ENOENT, "rbd config", format!("{key} is not set"))
}

async fn of_cluster(place: &Place, setting: &Setting) -> Result<(), Failure> {
    let who = setting.of();
    // A name that is not UTF-8 is no entity, and is shown with its bytes as `\xNN`.
    let shown = who.to_string();
    let who = who.as_text().unwrap_or(&shown);
    if !["global", "client"].contains(&who) && who.strip_prefix("client.").is_none_or(str::is_empty) {
        let why = format!("invalid config entity: {who} (must be global, client or client.<id>)");
        return Err(Failure::of(Errno::EINVAL, "rbd config", why));
    }
    match setting {
        Setting::Get { key, .. } => {
            Level::Cluster.option(key)?;
            let all = asked(place, json!({"prefix": "config dump", "format": "json"})).await?;
            let is_it =
                |one: &&Value| one["section"] == who && one["name"] == key.as_str() && one["mask"] == "";
            let found = all.as_array().into_iter().flatten().find(is_it);
            let value = found.and_then(|one| one["value"].as_str()).ok_or_else(|| not_set(key))?;
            sayln!("{value}");
            Ok(())
        }
        Setting::Set { key, value, .. } => {
            let value = Level::Cluster.checked(key, value)?;
            let command = json!({"prefix": "config set", "who": who, "name": key, "value": value});
            told(place, command).await
        }
        Setting::Remove { key, .. } => {
            Level::Cluster.option(key)?;
            told(place, json!({"prefix": "config rm", "who": who, "name": key})).await
        }
        Setting::List { .. } => {
            let all = asked(place, json!({"prefix": "config dump", "format": "json"})).await?;
            let mut rows = BTreeMap::new();
            // The more specific section wins.
            for section in
                ["global", "client", who].iter().filter(|section| who != "global" || **section == who)
            {
                for one in all.as_array().into_iter().flatten() {
                    let text = |field: &str| one[field].as_str().unwrap_or_default();
                    if text("section") == *section
                        && text("name").starts_with("rbd_")
                        && text("mask").is_empty()
                    {
                        rows.insert(
                            text("name").to_owned(),
                            [text("value"), text("section")].map(str::to_owned),
                        );
                    }
                }
            }
            let rows = rows.into_iter().map(|(name, [value, section])| [name, value, section]).collect();
            show(rows, "section", place.format);
            Ok(())
        }
    }
}

async fn asked(place: &Place, command: Value) -> Result<Value, Failure> {
    let what = || "rbd config".to_owned();
    let (answer, _) = place.rados.mon_command(&command.to_string(), Bytes::new()).await.context(what)?;
    serde_json::from_slice(&answer).context(what)
}

async fn told(place: &Place, command: Value) -> Result<(), Failure> {
    let done = place.rados.mon_command(&command.to_string(), Bytes::new()).await;
    done.map(drop).context(|| "rbd config".to_owned())
}

async fn of_pool(place: &Place, setting: &Setting) -> Result<(), Failure> {
    let pool = only_pool(setting.of())?;
    let io = place.pool(pool).await?;
    let what = || format!("config pool {pool}");
    match setting {
        Setting::Get { key, .. } => {
            Level::Pool.option(key)?;
            get(&pools::metadata(&io).await.context(what)?, key)
        }
        Setting::Set { key, value, .. } => {
            let value = Level::Pool.checked(key, value)?;
            let done = pools::set_metadata(&io, &format!("{METADATA_PREFIX}{key}"), value.into()).await;
            done.context(what)?;
            tell_of_change(place).await
        }
        Setting::Remove { key, .. } => {
            Level::Pool.option(key)?;
            pools::remove_metadata(&io, &format!("{METADATA_PREFIX}{key}")).await.context(what)?;
            tell_of_change(place).await
        }
        Setting::List { .. } => {
            let set = set_in(&pools::metadata(&io).await.context(what)?, "pool");
            show(effective(place, Level::Pool, &[set]), "source", place.format);
            Ok(())
        }
    }
}

/// Notifies open images, so that they apply the pool's settings; librbd does the same.
async fn tell_of_change(place: &Place) -> Result<(), Failure> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs().to_string();
    told(
        place,
        json!({"prefix": "config set", "who": "global", "name": POOL_OVERRIDES_CHANGED, "value": now}),
    )
    .await
}

async fn of_image(place: &Place, setting: &Setting) -> Result<(), Failure> {
    let text = setting.of();
    let (io, name) = place.image(text).await?;
    let what = || format!("config image {text}");
    let image = Image::open(&io, &name, Mode::Header).await.context(|| format!("open {text}"))?;
    match setting {
        Setting::Get { key, .. } => {
            Level::Image.option(key)?;
            get(&image.metadata().await.context(what)?, key)
        }
        Setting::Set { key, value, .. } => {
            let value = Level::Image.checked(key, value)?;
            image.set_metadata(&format!("{METADATA_PREFIX}{key}"), value.into()).await.context(what)
        }
        Setting::Remove { key, .. } => {
            Level::Image.option(key)?;
            image.remove_metadata(&format!("{METADATA_PREFIX}{key}")).await.context(what)
        }
        Setting::List { .. } => {
            let both = of_both(&io, &image).await.context(what)?;
            show(effective(place, Level::Image, &both), "source", place.format);
            Ok(())
        }
    }
}

/// Returns the settings of the pool and of the image.
async fn of_both(io: &IoCtx, image: &Image) -> Result<[Settings; 2], Error> {
    let of_pool = set_in(&pools::metadata(io).await?, "pool");
    Ok([of_pool, set_in(&image.metadata().await?, "image")])
}

/// Returns the configuration with the settings of the pool of `io`, which override the command line, as
/// in librbd. Unreadable settings and invalid values are ignored, also as in librbd.
pub(super) async fn of_pool_of(place: &Place, io: &IoCtx) -> Conf {
    let mut conf = place.conf.clone();
    for (name, (value, _)) in set_in(&pools::metadata(io).await.unwrap_or_default(), "pool") {
        if Level::Pool.checked(&name, &value).is_ok() {
            conf.set(&name, &value);
        }
    }
    conf
}

fn get(pairs: &BTreeMap<Name, Bytes>, key: &str) -> Result<(), Failure> {
    let value = pairs.get(format!("{METADATA_PREFIX}{key}").as_bytes()).ok_or_else(|| not_set(key))?;
    say_line(&shown(value));
    Ok(())
}

/// Values by option, each with its source.
type Settings = BTreeMap<String, (String, &'static str)>;

fn set_in(pairs: &BTreeMap<Name, Bytes>, source: &'static str) -> Settings {
    let setting = |(key, value): (&Name, &Bytes)| {
        let name = key.as_text()?.strip_prefix(METADATA_PREFIX)?.to_owned();
        Some((name, (shown(value), source)))
    };
    pairs.iter().filter_map(setting).collect()
}

/// Returns the value and source of each option; later settings win.
fn effective(place: &Place, level: Level, set: &[Settings]) -> Vec<[String; 3]> {
    let options = table::all().filter(|option| option.name.starts_with("rbd_") && level.has(option.name));
    let mut rows: Vec<[String; 3]> = options
        .map(|option| {
            let configured = || place.conf.text(option.name).filter(|text| option.parse_value(text).is_ok());
            let default = || option.default_for(place.conf.name());
            let set = set.iter().rev().find_map(|all| all.get(option.name).cloned());
            let (value, source) = set.unwrap_or_else(|| (configured().unwrap_or_else(default), "config"));
            [option.name.to_owned(), value, source.to_owned()]
        })
        .collect();
    rows.sort_unstable();
    rows
}

fn show(rows: Vec<[String; 3]>, third: &str, format: Format) {
    if format == Format::Plain {
        let title = if third == "section" { "Section" } else { "Source" };
        let titles = ["Name", "Value", title].map(str::to_owned);
        if !rows.is_empty() {
            columns([false; 3], std::iter::once(titles).chain(rows).collect());
        }
        return;
    }
    let one = |[name, value, last]: &[String; 3]| json!({"name": name, "value": value, third: last});
    format.print("config", "option", &json!(rows.iter().map(one).collect::<Vec<_>>()));
}
