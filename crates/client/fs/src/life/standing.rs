//! What the cluster thinks of this client.

/// How the cluster stands to this client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It is served.
    #[default]
    Welcome,
    /// It is shut out, and is getting a new identity.
    Returning,
    /// It is shut out for good.
    Blocked,
}
