//! The log of this program, as configured.

use std::path::PathBuf;
use std::sync::OnceLock;

use loligo_conf::Conf;
use loligo_lockstat::{Class, Mutex};
use loligo_logring::{Config, Logger, RingLayer, Sink, Subsys};
use loligo_rados::{MonitorsSettings, Rados};
use tokio::task::spawn_blocking;
use tracing_subscriber::layer::SubscriberExt as _;

use crate::failure::{Context, Failure};

/// The name of a log file that stands for standard error.
const STDERR: &str = "-";

/// Set once a log is started; a process starts at most one.
static STARTED: OnceLock<()> = OnceLock::new();

/// The log that the monitors' configuration started. It lasts as long as the program.
static FOLLOWED: OnceLock<Logger> = OnceLock::new();

/// Starts the log of a server. It goes to the file that `log_file` names. Without one it goes to
/// standard error if `log_to_stderr` is set, and to `default_file` otherwise. Errors also go to standard
/// error unless `err_to_stderr` is false.
pub(crate) fn of_server(conf: &Conf, default_file: PathBuf) -> Result<Logger, Failure> {
    Wanted::of(conf)?.apply_levels()?;
    let to_stderr = switch(conf, "log_to_stderr", false)?.then_some(Place::Stderr);
    let sink = file_of(conf)?.or(to_stderr).unwrap_or(Place::File(default_file)).sink();
    let also_stderr = !matches!(sink, Sink::Stderr) && switch(conf, "err_to_stderr", true)?;
    start(Config::new(sink).dump_on_crash(true).errors_to_stderr(also_stderr))
}

/// Starts the log of any other command, under the conditions of stock clients; returns `None` if there
/// is none.
pub(crate) fn of_client(conf: &Conf) -> Result<Option<Logger>, Failure> {
    let wanted = Wanted::of(conf)?;
    wanted.apply_levels()?;
    let logger = wanted.config().map(start).transpose()?;
    APPLIED.lock().to = wanted.to;
    Ok(logger)
}

/// Applies the monitors' settings to the log of a connected client: sets the levels, and starts or
/// redirects the log. A background task on the client's runtime then follows later changes, as stock
/// clients do.
pub(crate) fn follow(conf: &Conf, rados: &Rados) -> Result<(), Failure> {
    // Subscribed before the settings are read, so that no change is missed.
    let settings = rados.watch_monitors_settings();
    Wanted::of(&conf.clone().with_monitors(rados.monitors_settings()))?.apply()?;
    tokio::spawn(keep_following(conf.clone(), settings));
    Ok(())
}

async fn keep_following(conf: Conf, mut settings: MonitorsSettings) {
    while let Some(settings) = settings.changed().await {
        let conf = conf.clone();
        // Opening a file may block, and so may the log thread.
        let changed = spawn_blocking(move || Wanted::of(&conf.with_monitors(settings))?.apply()).await;
        // An error in the new settings is printed, and the client continues.
        if let Ok(Err(failure)) = changed {
            eprintln!("loligo: {failure}");
        }
    }
}

/// The log settings of a client's configuration.
struct Wanted {
    /// The values of the options of [`Subsys::ALL`].
    levels: Vec<Option<(String, String)>>,
    to: Option<To>,
}

/// The settings in force. A client that connects again, and each change of the monitors' settings, begin
/// with them.
struct Applied {
    /// The options that have set the levels of [`Subsys::ALL`]; none of those beyond the end.
    levels: Vec<Option<(String, String)>>,
    to: Option<To>,
}

/// Held to copy the settings in force, or to record a setting that was applied.
static APPLYING: Class = Class::new("cli.log_settings");
static APPLIED: Mutex<Applied> = Mutex::new(&APPLYING, Applied { levels: Vec::new(), to: None });

/// The destination of a log, and of its errors.
#[derive(Clone, PartialEq, Eq)]
struct To {
    place: Place,
    /// Errors also go to standard error.
    also_stderr: bool,
}

#[derive(Clone, PartialEq, Eq)]
enum Place {
    Stderr,
    File(PathBuf),
}

impl Place {
    fn sink(&self) -> Sink {
        match self {
            Self::Stderr => Sink::Stderr,
            Self::File(path) => Sink::File(path.clone()),
        }
    }
}

impl Wanted {
    /// Reads the settings with the rules of stock clients: the log goes to the file that `log_file`
    /// names. Without one it goes to standard error if a level is configured or `log_to_stderr` is set,
    /// and nowhere otherwise.
    fn of(conf: &Conf) -> Result<Self, Failure> {
        let said = |option: String| conf.text(&option).map(|value| (option, value));
        // A subsystem has two option names; the last one, our own, wins.
        let levels: Vec<_> =
            Subsys::ALL.iter().map(|subsys| subsys.options().filter_map(said).last()).collect();
        let any_level = levels.iter().any(Option::is_some);
        let to_stderr = switch(conf, "log_to_stderr", any_level)?.then_some(Place::Stderr);
        let also = switch(conf, "err_to_stderr", false)?;
        let to = file_of(conf)?.or(to_stderr);
        let to = to.map(|place| To { also_stderr: also && place != Place::Stderr, place });
        Ok(Self { levels, to })
    }

    /// Sets the levels, and starts or redirects the log.
    fn apply(self) -> Result<(), Failure> {
        self.apply_levels()?;
        self.apply_destination()
    }

    /// Sets the configured levels. A level that an option has set, and that none sets any more, is reset to
    /// its default. A level whose option has not changed stays: it may have been changed by hand since.
    fn apply_levels(&self) -> Result<(), Failure> {
        for (at, (subsys, now)) in Subsys::ALL.iter().zip(&self.levels).enumerate() {
            let before = APPLIED.lock().levels.get(at).cloned().flatten();
            match now {
                now if *now == before => continue,
                Some((option, value)) => {
                    loligo_logring::set_option(option, value).context(|| "configuration".to_owned())?;
                }
                None => loligo_logring::set_levels(*subsys, subsys.default_levels()),
            }
            let mut applied = APPLIED.lock();
            if applied.levels.len() <= at {
                applied.levels.resize(at + 1, None);
            }
            applied.levels[at].clone_from(now);
        }
        Ok(())
    }

    fn config(&self) -> Option<Config> {
        let to = self.to.as_ref()?;
        Some(Config::new(to.place.sink()).errors_to_stderr(to.also_stderr))
    }

    /// Starts the log if one is configured and none is running; redirects a running log whose destination
    /// has changed.
    fn apply_destination(self) -> Result<(), Failure> {
        let before = APPLIED.lock().to.clone();
        if self.to == before {
            return Ok(());
        }
        if STARTED.get().is_none() {
            if let Some(config) = self.config() {
                let _ = FOLLOWED.set(start(config)?);
            }
        } else {
            let nowhere = || Sink::Writer(Box::new(std::io::sink()));
            let sink = self.to.as_ref().map_or_else(nowhere, |to| to.place.sink());
            let also_stderr = self.to.as_ref().is_some_and(|to| to.also_stderr);
            loligo_logring::redirect(sink, also_stderr).context(|| "log_file".to_owned())?;
        }
        APPLIED.lock().to = self.to;
        Ok(())
    }
}

/// Writes out the buffered records of a log that [`follow`] started.
pub(crate) fn flush_followed() {
    if FOLLOWED.get().is_some() {
        loligo_logring::flush();
    }
}

fn switch(conf: &Conf, option: &str, default: bool) -> Result<bool, Failure> {
    conf.bool(option, default).context(|| "configuration".to_owned())
}

fn start(config: Config) -> Result<Logger, Failure> {
    let logger = loligo_logring::start(config).map_err(|e| Failure::new("start", e))?;
    let _ = STARTED.set(());
    // Records of the libraries that use `tracing`. This fails only if a subscriber is set already, which
    // is no error.
    let _ = tracing::subscriber::set_global_default(tracing_subscriber::registry().with(RingLayer));
    Ok(logger)
}

fn file_of(conf: &Conf) -> Result<Option<Place>, Failure> {
    let wanted = switch(conf, "log_to_file", true)?;
    let name = conf.text("log_file").filter(|name| wanted && !name.is_empty());
    Ok(name.map(|name| if name == STDERR { Place::Stderr } else { Place::File(name.into()) }))
}
