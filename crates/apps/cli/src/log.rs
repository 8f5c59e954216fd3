//! The log of this program, as the configuration wants it.

use std::path::PathBuf;
use std::sync::OnceLock;

use loligo_conf::Conf;
use loligo_logring::{Config, Logger, RingLayer, Sink, Subsys};
use loligo_rados::{MonitorsSettings, Rados};
use tracing_subscriber::layer::SubscriberExt as _;

use crate::failure::{Context, Failure};

/// What a log file is called that is standard error.
const STDERR: &str = "-";

/// Set once a log runs: there is one at most.
static STARTED: OnceLock<()> = OnceLock::new();

/// The log that the monitors' configuration has asked for. It lasts as long as the program.
static FOLLOWED: OnceLock<Logger> = OnceLock::new();

/// The log of a server: to the file that `log_file` names, else to `default_file`; to standard error, if
/// `log_to_stderr` is set and no file is named. Errors also go to standard error, unless `err_to_stderr` is
/// false.
pub(crate) fn of_server(conf: &Conf, default_file: PathBuf) -> Result<Logger, Failure> {
    Wanted::of(conf)?.set_levels(None)?;
    let to_stderr = switch(conf, "log_to_stderr", false)?.then_some(To::Stderr);
    let sink = file_of(conf)?.or(to_stderr).unwrap_or(To::File(default_file)).sink();
    let also_stderr = !matches!(sink, Sink::Stderr) && switch(conf, "err_to_stderr", true)?;
    start(Config::new(sink).dump_on_crash(true).errors_to_stderr(also_stderr))
}

/// The log of any other command, as stock clients have it, if there shall be one.
pub(crate) fn of_client(conf: &Conf) -> Result<Option<Logger>, Failure> {
    let wanted = Wanted::of(conf)?;
    wanted.set_levels(None)?;
    wanted.config().map(start).transpose()
}

/// Follows a configuration that has grown by what the monitors say: levels change, and a log begins that
/// nobody else has asked for. Then, in the background, what they say from then on, as stock clients do: levels
/// change, and the log goes elsewhere. For who has connected, on its runtime.
pub(crate) fn follow(conf: &Conf, rados: &Rados) -> Result<(), Failure> {
    // Before the settings are read, so that none is missed.
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
        // Whoever made the change is told where the others are: the client goes on.
        if let Err(failure) = changed {
            eprintln!("loligo: {failure}");
        }
    }
}

/// What a configuration says of a client's log.
struct Wanted {
    /// The values of the options of [`Subsys::ALL`].
    levels: Vec<Option<(String, String)>>,
    to: Option<To>,
    also_stderr: bool,
}

/// Where a log goes.
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
    /// As stock clients have it: to the file that `log_file` names, else to standard error if a level is
    /// configured or `log_to_stderr` is set, else nowhere.
    fn of(conf: &Conf) -> Result<Self, Failure> {
        let said = |option: String| conf.text(&option).map(|value| (option, value));
        // Of two names of a subsystem ours wins, the last.
        let levels: Vec<_> =
            Subsys::ALL.iter().map(|subsys| subsys.options().filter_map(said).last()).collect();
        let any_level = levels.iter().any(Option::is_some);
        let to_stderr = switch(conf, "log_to_stderr", any_level)?.then_some(To::Stderr);
        let to = file_of(conf)?.or(to_stderr);
        let also_stderr = to != Some(To::Stderr) && switch(conf, "err_to_stderr", false)?;
        Ok(Self { levels, to, also_stderr })
    }

    /// Sets the levels that are configured; those that the last configuration set and this does not are what
    /// they are by default. What both say stays: it may have been changed by hand since.
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

    /// Begins a log, if there shall be one and is none.
    fn begin(&self) -> Result<(), Failure> {
        if STARTED.get().is_none()
            && let Some(config) = self.config()
        {
            let _ = FOLLOWED.set(start(config)?);
        }
        Ok(())
    }

    /// Has the log go where it shall, if that is elsewhere than before.
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

/// Writes what a log that [`follow`] has begun still holds.
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
    // What the libraries that we use have to say. Fails only if it has been set, which is as well.
    let _ = tracing::subscriber::set_global_default(tracing_subscriber::registry().with(RingLayer));
    Ok(logger)
}

fn file_of(conf: &Conf) -> Result<Option<To>, Failure> {
    let wanted = switch(conf, "log_to_file", true)?;
    let name = conf.text("log_file").filter(|name| wanted && !name.is_empty());
    Ok(name.map(|name| if name == STDERR { To::Stderr } else { To::File(name.into()) }))
}
