//! The configuration of a client, as a program changes it.

use crate::border::Kept;
use crate::error::Failure;
use arc_swap::ArcSwapOption;
use loligo_conf::{Conf, ConfError, Environment, Options, table};
use loligo_lockstat::{Class, Mutex};
use loligo_rados::{EntityName, Rados};
use loligo_wire::Errno;
use std::sync::Arc;

static SETTINGS: Class = Class::new("python.settings");

/// The configuration of a client. It outlives the connection.
pub(crate) struct Settings {
    state: Mutex<State>,
    pub(crate) rados: ArcSwapOption<Kept<Rados>>,
}

#[derive(Clone)]
struct State {
    options: Options,
    environment: Environment,
    conf: Conf,
    /// How many changes were made.
    changes: u64,
}

impl Settings {
    pub(crate) fn new(cluster: Option<String>, name: EntityName) -> Result<Self, ConfError> {
        // CEPH_ARGS is read when the program asks for it, not earlier.
        let environment = Environment { args: None, ..Environment::current() };
        let options = Options { cluster, name: Some(name), no_config_file: true, ..Options::default() };
        let conf = Conf::load(&options, environment.clone())?;
        let state = State { options, environment, conf, changes: 0 };
        Ok(Self { state: Mutex::new(&SETTINGS, state), rados: ArcSwapOption::empty() })
    }

    /// The configuration with what is set so far, and once connected also with the monitors' settings.
    pub(crate) fn conf(&self) -> Conf {
        let conf = self.state.lock().conf.clone();
        match &*self.rados.load() {
            Some(rados) => conf.with_monitors(rados.monitors_settings()),
            None => conf,
        }
    }

    /// Whether a file was read.
    pub(crate) fn has_file(&self) -> bool {
        self.state.lock().conf.file().is_some()
    }

    /// Changes the options and makes the configuration anew, or changes nothing.
    pub(crate) fn configure<T>(
        &self,
        change: impl Fn(&mut Options) -> Result<T, ConfError>,
    ) -> Result<T, ConfError> {
        loop {
            let State { mut options, environment, changes, .. } = self.state.lock().clone();
            let changed = change(&mut options)?;
            // A file may be read here, so without the lock.
            let conf = Conf::load(&options, environment.clone())?;
            let mut state = self.state.lock();
            if state.changes == changes {
                *state = State { options, environment, conf, changes: changes + 1 };
                return Ok(changed);
            }
            // Another thread has changed the options meanwhile.
        }
    }

    /// Sets an option over all others.
    pub(crate) fn set(&self, option: &str, value: &str) -> Result<(), Failure> {
        let name = normalized(option);
        let known = table::known(&name).ok_or_else(|| Failure::new(Errno::ENOENT, "there is none"))?;
        let accepted = known.accept(value).map_err(|why| Failure::new(Errno::EINVAL, why.why))?;
        let mut state = self.state.lock();
        state.options.set(&name, &accepted.value);
        state.conf.set(&name, &accepted.value);
        state.changes += 1;
        Ok(())
    }

    /// Returns an option's value, or its default; `None` if there is no such option.
    pub(crate) fn get(&self, option: &str) -> Option<String> {
        let name = normalized(option);
        let known = table::known(&name)?;
        let conf = self.conf();
        if let Some(value) = conf.text(&name) {
            // Written in a file as `yes` or `1K`, read as the type has it.
            return Some(known.accept(&value).map_or(value, |accepted| accepted.value));
        }
        let default = known.facts().map(|facts| facts.default_for(conf.name())).unwrap_or_default();
        Some(match name.as_str() {
            "name" => conf.name().to_string(),
            "cluster" => conf.cluster().to_owned(),
            _ => conf.expand(&default),
        })
    }

    pub(crate) fn rados(&self) -> Result<Arc<Kept<Rados>>, Failure> {
        let rados = self.rados.load_full();
        rados.ok_or_else(|| Failure::new(Errno::ENOTCONN, "the client is not connected"))
    }
}

/// The name of an option as tables have it.
fn normalized(option: &str) -> String {
    option.trim().replace([' ', '-'], "_")
}
