//! Which rules this client keeps by itself, since servers do not know users.

use loligo_conf::Conf;

use crate::options::MountOptions;

/// The rules, as the mount's options and the configuration name them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Enforced {
    /// Permissions are checked (`client_permissions`).
    pub(crate) permissions: bool,
    /// Access control lists count (`client_acl_type`).
    pub(crate) acls: bool,
    /// Quotas are kept (`client_quota`).
    pub(crate) quotas: bool,
    /// The room of a quota is shown as the file system's (`client_quota_df`).
    pub(crate) quota_is_space: bool,
}

impl Enforced {
    /// What a mount's options leave open, the configuration says. A value that it cannot have counts as
    /// the default, which is the stricter one.
    pub(crate) fn of(options: &MountOptions, conf: &Conf) -> Self {
        let on = |option| conf.bool(option, true).unwrap_or(true);
        let acls = || conf.text("client_acl_type").is_some_and(|kind| kind == "posix_acl");
        Self {
            permissions: options.permissions.unwrap_or_else(|| on("client_permissions")),
            acls: options.acls.unwrap_or_else(acls),
            quotas: options.quotas.unwrap_or_else(|| on("client_quota")),
            quota_is_space: on("client_quota_df"),
        }
    }
}
