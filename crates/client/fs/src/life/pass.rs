//! Waiting for the map of the OSDs that a server wants this client to have.

use std::sync::atomic::Ordering;
use std::time::Duration;

use loligo_rados::Reason;

use crate::core::Core;
use crate::error::Error;

/// How long apart a map is asked for that the monitors do not have yet.
const AGAIN: Duration = Duration::from_secs(1);

impl Core {
    /// Waits until the map is known that the servers want to be known.
    ///
    /// # Errors
    /// The mount has ended, or the monitors cannot be asked.
    pub(crate) async fn pass_barrier(&self) -> Result<(), Error> {
        let mut word = None;
        while self.barrier.is_up() {
            let (wanted, known) = (self.barrier.epoch(), self.rados.map_epoch());
            if known >= wanted {
                self.barrier.reached.fetch_max(known.0, Ordering::AcqRel);
                return Ok(());
            }
            self.welcome().await?;
            if word.is_some() {
                tokio::time::sleep(AGAIN).await;
            }
            word = Some(self.rados.waits_for(Reason::Map { wanted, known }));
            self.rados.wait_for_latest_osdmap().await?;
        }
        Ok(())
    }
}
