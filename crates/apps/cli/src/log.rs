//! The log of this program, as configured.

use std::path::PathBuf;
use std::sync::OnceLock;

use loligo_conf::Conf;
use loligo_logring::{Config, Logger, RingLayer, Sink, Subsys};
use loligo_rados::{MonitorsSettings, Rados};
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
    Wanted::of(conf)?.set_levels(None)?;
    let to_stderr = switch(conf, "log_to_stderr", false)?.then_some(To::Stderr);
    let sink = file_of(conf)?.or(to_stderr).unwrap_or(To::File(default_file)).sink();
    let also_stderr = !matches!(sink, Sink::Stderr) && switch(conf, "err_to_stderr", true)?;
    start(Config::new(sink).dump_on_crash(true).errors_to_stderr(also_stderr))
}

/// Starts the log of any other command, under the conditions of stock clients; returns `None` if there
/// is none.
pub(crate) fn of_client(conf: &Conf) -> Result<Option<Logger>, Failure> {
    let wanted = Wanted::of(conf)?;
    wanted.set_levels(None)?;
    wanted.config().map(start).transpose()
}

/// Applies the monitors' settings to the log of a connected client: sets the levels, and starts a log
/// that only the monitors ask for. A background task on the client's runtime then follows later changes,
/// as stock clients do: it changes levels and redirects the log.
pub(crate) fn follow(conf: &Conf, rados: &Rados) -> Result<(), Failure> {
    // Subscribed before the settings are read, so that no change is missed.
    let settings = rados.watch_monitors_settings();
    let now = Wanted::of(&conf.clone().with_monitors(rados.monitors_settings()))?;
    now.set_levels(None)?;
    now.begin()?;
    tokio::spawn(keep_following(conf.clone(), settings, now));
    Ok(())
}

async fn keep_following(conf: Conf, mut settings: MonitorsSettings, mut last: Wanted) {
    while let Some(settings) = settings.changed().await {
        let changed = Wanted::of(&conf.clone().with_monitors(settings)).and_then(|now| {
            now.set_levels(Some(&last))?;
            now.go_from(&last)?;
            last = now;
            Ok(())
        });
        // An error in the new settings is printed, and the client continues.
        if let Err(failure) = changed {
            eprintln!("loligo: {failure}");
        }
    }
}

/// The log settings of a client's configuration.
struct Wanted {
    /// The values of the options of [`Subsys::ALL`].
    levels: Vec<Option<(String, String)>>,
    to: Option<To>,
    also_stderr: bool,
}

/// The destination of a log.
#[derive(Clone, PartialEq, Eq)]
enum To {
    Stderr,
    File(PathBuf),
}

impl To {
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
        let to_stderr = switch(conf, "log_to_stderr", any_level)?.then_some(To::Stderr);
        let to = file_of(conf)?.or(to_stderr);
        let also_stderr = to != Some(To::Stderr) && switch(conf, "err_to_stderr", false)?;
        Ok(Self { levels, to, also_stderr })
    }

    /// Sets the configured levels. Levels that `last` set and this configuration does not are reset to
    /// their defaults. Levels that are equal in both stay: they may have been changed by hand since.
    fn set_levels(&self, last: Option<&Self>) -> Result<(), Failure> {
        for (at, subsys) in Subsys::ALL.iter().enumerate() {
            let before = last.and_then(|last| last.levels[at].as_ref());
            match &self.levels[at] {
                now if now.as_ref() == before => {}
                Some((option, value)) => {
                    loligo_logring::set_option(option, value).context(|| "configuration".to_owned())?;
                }
                None => loligo_logring::set_levels(*subsys, subsys.default_levels()),
            }
        }
        Ok(())
    }

    fn config(&self) -> Option<Config> {
        let to = self.to.as_ref()?;
        Some(Config::new(to.sink()).errors_to_stderr(self.also_stderr))
    }

    /// Starts the log, if one is configured and none is running.
    fn begin(&self) -> Result<(), Failure> {
        if STARTED.get().is_none()
            && let Some(config) = self.config()
        {
            let _ = FOLLOWED.set(start(config)?);
        }
        Ok(())
    }

    /// Redirects the log, if its destination differs from the last one.
    fn go_from(&self, last: &Self) -> Result<(), Failure> {
        if self.to == last.to {
            return Ok(());
        }
        if STARTED.get().is_none() {
            return self.begin();
        }
        let sink = self.to.as_ref().map_or_else(|| Sink::Writer(Box::new(std::io::sink())), To::sink);
        loligo_logring::redirect(sink).map(drop).context(|| "log_file".to_owned())
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

fn file_of(conf: &Conf) -> Result<Option<To>, Failure> {
    let wanted = switch(conf, "log_to_file", true)?;
    let name = conf.text("log_file").filter(|name| wanted && !name.is_empty());
    Ok(name.map(|name| if name == STDERR { To::Stderr } else { To::File(name.into()) }))
}
