//! Why a file is no state of a monitor.

use loligo_cephx::keyring::KeyringError;
use loligo_maps::ApplyError;
use loligo_wire::DecodeError;

/// Why a file is no state.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    /// It is not JSON.
    #[error("not JSON: {0}")]
    Json(#[from] serde_json::Error),
    /// Another program's file, or a newer one's.
    #[error("form {0} is not known")]
    Form(u64),
    /// A field is missing or of the wrong type.
    #[error("field {0} is missing or damaged")]
    Field(&'static str),
    /// A map is damaged.
    #[error("{0}: {1}")]
    Map(&'static str, DecodeError),
    /// A change cannot be made.
    #[error("the osdmap: {0}")]
    Apply(#[from] ApplyError),
    /// A change in the log is damaged, and there are later ones.
    #[error("change {0} is damaged, and there are later ones")]
    Change(u64),
    /// The checksum does not fit, or is not there: the file was cut or changed.
    #[error("the checksum does not fit: it was cut or changed")]
    Check,
    /// The keys are damaged.
    #[error(transparent)]
    Keys(#[from] KeyringError),
}
