//! The log of this program, as the configuration wants it.

use std::path::PathBuf;

use loligo_cephx::conf::Conf;
use loligo_logring::{Config, Logger, RingLayer, Sink, Subsys};
use tracing_subscriber::layer::SubscriberExt as _;

use crate::failure::{Context, Failure};

/// What a log file is called that is standard error.
const STDERR: &str = "-";

/// The log of a server: to the file that `log_file` names, else to `default_file`. Errors also go to standard error.
pub(crate) fn of_server(conf: &Conf, default_file: PathBuf) -> Result<Logger, Failure> {
    set_levels(conf)?;
    let sink = file_of(conf).unwrap_or(Sink::File(default_file));
    let also_stderr = !matches!(sink, Sink::Stderr);
    start(Config::new(sink).dump_on_crash(true).errors_to_stderr(also_stderr))
}

/// The log of any other command: as stock clients, to the file that `log_file` names, else to standard error if a level
/// is configured, else none.
pub(crate) fn of_client(conf: &Conf) -> Result<Option<Logger>, Failure> {
    let any_level = set_levels(conf)?;
    let sink = file_of(conf).or(any_level.then_some(Sink::Stderr));
    sink.map(|sink| start(Config::new(sink))).transpose()
}

fn start(config: Config) -> Result<Logger, Failure> {
    let logger = loligo_logring::start(config).map_err(|e| Failure::new("start", e))?;
    // What the libraries that we use have to say. Fails only if it has been set, which is as well.
    let _ = tracing::subscriber::set_global_default(tracing_subscriber::registry().with(RingLayer));
    Ok(logger)
}

fn file_of(conf: &Conf) -> Option<Sink> {
    let name = conf.text("log_file").filter(|name| !name.is_empty())?;
    Some(if name == STDERR { Sink::Stderr } else { Sink::File(name.into()) })
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
