//! The log of this program, as the configuration wants it.

use std::path::PathBuf;
use std::sync::OnceLock;

use loligo_conf::Conf;
use loligo_logring::{Config, Logger, RingLayer, Sink, Subsys};
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
    set_levels(conf)?;
    let to_stderr = switch(conf, "log_to_stderr", false)?.then_some(Sink::Stderr);
    let sink = file_of(conf)?.or(to_stderr).unwrap_or(Sink::File(default_file));
    let also_stderr = !matches!(sink, Sink::Stderr) && switch(conf, "err_to_stderr", true)?;
    start(Config::new(sink).dump_on_crash(true).errors_to_stderr(also_stderr))
}

/// The log of any other command: as stock clients, to the file that `log_file` names, else to standard error
/// if a level is configured or `log_to_stderr` is set, else none.
pub(crate) fn of_client(conf: &Conf) -> Result<Option<Logger>, Failure> {
    let any_level = set_levels(conf)?;
    config_of_client(conf, any_level)?.map(start).transpose()
}

fn config_of_client(conf: &Conf, any_level: bool) -> Result<Option<Config>, Failure> {
    let to_stderr = switch(conf, "log_to_stderr", any_level)?.then_some(Sink::Stderr);
    let Some(sink) = file_of(conf)?.or(to_stderr) else { return Ok(None) };
    let also_stderr = !matches!(sink, Sink::Stderr) && switch(conf, "err_to_stderr", false)?;
    Ok(Some(Config::new(sink).errors_to_stderr(also_stderr)))
}

/// Follows a configuration that has grown by what the monitors say: levels change, and a log begins that
/// nobody else has asked for.
pub(crate) fn follow(conf: &Conf) -> Result<(), Failure> {
    let any_level = set_levels(conf)?;
    if STARTED.get().is_some() {
        return Ok(());
    }
    if let Some(config) = config_of_client(conf, any_level)? {
        let _ = FOLLOWED.set(start(config)?);
    }
    Ok(())
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

fn file_of(conf: &Conf) -> Result<Option<Sink>, Failure> {
    let wanted = switch(conf, "log_to_file", true)?;
    let name = conf.text("log_file").filter(|name| wanted && !name.is_empty());
    Ok(name.map(|name| if name == STDERR { Sink::Stderr } else { Sink::File(name.into()) }))
}

/// Sets the levels that are configured, by our name of a subsystem or Ceph's. Whether there was one.
fn set_levels(conf: &Conf) -> Result<bool, Failure> {
    let mut any = false;
    for option in Subsys::ALL.iter().flat_map(|subsys| subsys.options()) {
        if let Some(value) = conf.text(&option) {
            loligo_logring::set_option(&option, &value).context(|| "configuration".to_owned())?;
            any = true;
        }
    }
    Ok(any)
}
