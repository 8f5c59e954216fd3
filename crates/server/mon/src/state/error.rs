//! Errors of reading a saved state.

use loligo_cephx::keyring::KeyringError;
use loligo_maps::ApplyError;
use loligo_wire::DecodeError;

/// Why a file is not a valid state.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    /// The file is not JSON.
    #[error("not JSON: {0}")]
    Json(#[from] serde_json::Error),
    /// Another program wrote the file, or a newer release.
    #[error("form {0} is not known")]
    Form(u64),
    /// A field is missing or of the wrong type.
    #[error("field {0} is missing or damaged")]
    Field(&'static str),
    /// A map is damaged.
    #[error("{0}: {1}")]
    Map(&'static str, DecodeError),
    /// A change cannot be applied.
    #[error("the osdmap: {0}")]
    Apply(#[from] ApplyError),
    /// A change in the log is damaged, and later ones exist.
    #[error("change {0} is damaged, and there are later ones")]
    Change(u64),
    /// The checksum does not match or is missing: the file was truncated or changed.
    #[error("the checksum does not fit: it was cut or changed")]
    Check,
    /// The keys are damaged.
    #[error(transparent)]
    Keys(#[from] KeyringError),
}
