//! A pool's applications: their names, with keys and values for each.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::IoCtx;
use crate::Error;
use crate::error::Errno;

/// The pool's applications. The cluster warns about a pool that has none.
impl IoCtx {
    /// Enables an application on the pool, such as `rbd`. `force` is required if another one is enabled.
    ///
    /// # Errors
    /// EPERM if another application is enabled and `force` is not set.
    pub async fn enable_application(&self, application: &str, force: bool) -> Result<(), Error> {
        let force: &[(&str, serde_json::Value)] =
            if force { &[("yes_i_really_mean_it", serde_json::Value::Bool(true))] } else { &[] };
        self.change_applications("enable", application, force).await
    }

    /// Returns the names of the enabled applications.
    ///
    /// # Errors
    /// ENOENT if the pool does not exist.
    pub async fn applications(&self) -> Result<Vec<String>, Error> {
        self.rados.wait_for_latest_osdmap().await?;
        Ok(self.metadata()?.into_keys().collect())
    }

    /// Returns an application's keys and values.
    ///
    /// # Errors
    /// ENOENT if the application is not enabled.
    pub async fn application_metadata(&self, application: &str) -> Result<BTreeMap<String, String>, Error> {
        self.rados.wait_for_latest_osdmap().await?;
        Ok(self.metadata()?.remove(application).ok_or(Errno::ENOENT)?)
    }

    /// Sets one of an application's keys.
    ///
    /// # Errors
    /// ENOENT if the application is not enabled.
    pub async fn set_application_metadata(
        &self,
        application: &str,
        key: &str,
        value: &str,
    ) -> Result<(), Error> {
        self.change_applications("set", application, &[("key", key.into()), ("value", value.into())]).await
    }

    /// Removes one of an application's keys; a missing key is ignored.
    ///
    /// # Errors
    /// ENOENT if the application is not enabled.
    pub async fn remove_application_metadata(&self, application: &str, key: &str) -> Result<(), Error> {
        self.change_applications("rm", application, &[("key", key.into())]).await
    }

    async fn change_applications(
        &self,
        what: &str,
        application: &str,
        more: &[(&str, serde_json::Value)],
    ) -> Result<(), Error> {
        let pool = self.pool_name()?;
        let prefix = format!("osd pool application {what}");
        let mut command = serde_json::json!({"prefix": prefix, "pool": pool, "app": application});
        for (name, value) in more {
            command[*name] = value.clone();
        }
        self.rados.mon_command(&command.to_string(), Bytes::new()).await?;
        self.rados.wait_for_latest_osdmap().await
    }

    fn pool_name(&self) -> Result<String, Error> {
        let view = self.rados.core().objecter.view();
        let name = view.map().pool_name(self.pool()).ok_or(Errno::ENOENT)?;
        Ok(name.to_string())
    }

    fn metadata(&self) -> Result<BTreeMap<String, BTreeMap<String, String>>, Error> {
        let view = self.rados.core().objecter.view();
        let pool = view.map().pool(self.pool()).ok_or(Errno::ENOENT)?;
        let of_one = |pairs: &BTreeMap<_, _>| {
            pairs
                .iter()
                .map(|(key, value): (&loligo_maps::Name, &loligo_maps::Name)| {
                    (key.to_string(), value.to_string())
                })
                .collect()
        };
        Ok(pool.application_metadata.iter().map(|(name, pairs)| (name.to_string(), of_one(pairs))).collect())
    }
}
