//! What a setting is.

use crate::failure::Failure;

type Get = Box<dyn Fn() -> String + Send + Sync>;
type Set = Box<dyn Fn(&str) -> Result<(), Failure> + Send + Sync>;

/// A named setting of the running program.
pub struct ConfigOption {
    pub(crate) name: String,
    pub(crate) get: Get,
    pub(crate) set: Option<Set>,
}

impl ConfigOption {
    /// A setting that is shown. The name is as in Ceph's configuration, with `_`.
    pub fn new(name: impl Into<String>, get: impl Fn() -> String + Send + Sync + 'static) -> Self {
        Self { name: name.into(), get: Box::new(get), set: None }
    }

    /// And can be changed while the program runs.
    pub fn settable(mut self, set: impl Fn(&str) -> Result<(), Failure> + Send + Sync + 'static) -> Self {
        self.set = Some(Box::new(set));
        self
    }
}
