//! The client of the cluster that back ends share.

use std::sync::Arc;

use arc_swap::ArcSwap;
use loligo_rados::{Builder, InFlight, IoCtx, Rados};
use tokio::sync::OnceCell;

use super::BackendError;

/// Called with each client that connects.
type Connected = Box<dyn Fn(&Rados) + Send + Sync>;

/// Opens back ends. Connects to the cluster when the first back end needs it, and again when that client
/// is blocklisted.
#[derive(Default)]
pub struct Opener {
    builder: Option<Builder>,
    /// The default pool.
    pool: Option<String>,
    /// The client. Replaced by an empty cell when it is blocklisted.
    rados: ArcSwap<OnceCell<Rados>>,
    /// What is to be done with each client that connects.
    connected: Option<Connected>,
}

impl Opener {
    /// Creates an opener for local back ends only.
    pub fn local() -> Self {
        Self::default()
    }

    /// Creates an opener that also opens images and files in pools; `pool` is the default pool.
    pub fn new(builder: Builder, pool: Option<String>) -> Self {
        Self { builder: Some(builder), pool, ..Self::default() }
    }

    /// The same; each client that connects is shown to `connected`, on a runtime's thread.
    pub fn telling(self, connected: impl Fn(&Rados) + Send + Sync + 'static) -> Self {
        Self { connected: Some(Box::new(connected)), ..self }
    }

    /// The pool with this name, or the default pool.
    pub(super) async fn pool(&self, named: Option<&str>) -> Result<IoCtx, BackendError> {
        let none = || BackendError("no pool is named".to_owned());
        let pool = named.or(self.pool.as_deref()).ok_or_else(none)?;
        self.client().await?.ioctx(pool).await.map_err(|e| BackendError(format!("pool {pool}: {e}")))
    }

    /// The client of the cluster; connects if there is none or the last one is blocklisted.
    pub(super) async fn client(&self) -> Result<Rados, BackendError> {
        loop {
            let place = self.rados.load_full();
            let rados = place.get_or_try_init(|| self.connect()).await?;
            if !rados.is_blocklisted() {
                return Ok(rados.clone());
            }
            self.clear(&place);
        }
    }

    async fn connect(&self) -> Result<Rados, BackendError> {
        let builder = self.builder.clone();
        let builder = builder.ok_or_else(|| BackendError("there is no cluster".to_owned()))?;
        let rados = builder.connect().await.map_err(|e| BackendError(format!("connect: {e}")))?;
        self.connected.iter().for_each(|connected| connected(&rados));
        // So that OSDs which this client writes to know that the last one is kept out, before they do what
        // that one wrote.
        let newest = rados.wait_for_latest_osdmap().await;
        newest.map_err(|e| BackendError(format!("connect: {e}")))?;
        Ok(rados)
    }

    fn clear(&self, place: &Arc<OnceCell<Rados>>) {
        self.rados.compare_and_swap(place, Arc::default());
    }

    /// Shuts down a blocklisted client: its operations in flight fail. The next caller that needs a
    /// client connects a new one.
    pub(super) async fn retire(&self, rados: &Rados) {
        let place = self.rados.load_full();
        if place.get().is_some_and(Rados::is_blocklisted) {
            self.clear(&place);
        }
        rados.shutdown().await;
    }

    /// An observer of the operations in flight to the cluster; `None` until there is a connection.
    pub(crate) fn observe(&self) -> Option<InFlight> {
        self.rados.load().get().map(Rados::observe)
    }

    /// Disconnects from the cluster, if connected.
    pub(crate) async fn shutdown(&self) {
        if let Some(rados) = self.rados.load_full().get() {
            rados.shutdown().await;
        }
    }
}
