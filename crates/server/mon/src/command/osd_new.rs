//! `osd new | create`: reserves ids for future OSDs.

use loligo_cephx::key::CryptoKey;
use loligo_cephx::keyring::Entry;
use loligo_wire::{EntityName, OsdId, Uuid};
use serde_json::Value;

use super::osd_args::osd_arg;
use super::{Call, Failure, Outcome, Reply};
use crate::output::json::object;

pub(super) fn new(call: &mut Call<'_>) -> Outcome {
    let uuid = uuid(call)?.ok_or_else(|| Failure::invalid("requires the OSD's UUID to be specified."))?;
    let secrets = Secrets::given(call)?;
    let osd = call.state.reserve_osd(call.now, uuid, wanted(call)?)?;
    if let Some(secrets) = secrets {
        secrets.keep(call, osd, uuid);
    }
    Ok(answer(call, osd))
}

pub(super) fn create(call: &mut Call<'_>) -> Outcome {
    let uuid = uuid(call)?.unwrap_or_default();
    let osd = call.state.reserve_osd(call.now, uuid, wanted(call)?)?;
    Ok(answer(call, osd))
}

fn answer(call: &Call<'_>, osd: OsdId) -> Reply {
    call.print(|_| object! { "osdid": osd.0 }, |_| format!("{osd}\n"))
}

fn uuid(call: &Call<'_>) -> Result<Option<Uuid>, Failure> {
    let Some(text) = call.args.text("uuid") else { return Ok(None) };
    let uuid = text.parse::<Uuid>();
    uuid.map(Some).map_err(|_| Failure::invalid(format!("invalid UUID value '{text}'.")))
}

fn wanted(call: &Call<'_>) -> Result<Option<OsdId>, Failure> {
    call.args.has("id").then(|| osd_arg(call, "id")).transpose()
}

/// The secrets in the command's input: the OSD's key and the key of its encrypted disk.
struct Secrets {
    key: CryptoKey,
    lockbox: Option<(CryptoKey, String)>,
}

impl Secrets {
    /// Parses the input; `None` if there is no input.
    fn given(call: &Call<'_>) -> Result<Option<Self>, Failure> {
        if call.input.is_empty() {
            return Ok(None);
        }
        let json: Value = serde_json::from_slice(call.input)
            .map_err(|e| Failure::invalid(format!("the input is no JSON with an OSD's secrets: {e}")))?;
        let text = |field: &str| json[field].as_str().filter(|text| !text.is_empty());
        let key = |text: &str, what: &str| {
            text.parse::<CryptoKey>().map_err(|_| Failure::invalid(format!("invalid {what} secret.")))
        };
        let secret = text("cephx_secret").ok_or_else(|| Failure::invalid("requires a cephx secret."))?;
        let lockbox = match (text("cephx_lockbox_secret"), text("dmcrypt_key")) {
            (None, None) => None,
            (Some(secret), Some(disk)) => Some((key(secret, "cephx lockbox")?, disk.to_owned())),
            _ => return Err(Failure::invalid("requires both a cephx lockbox secret and a dm-crypt key.")),
        };
        Ok(Some(Self { key: key(secret, "cephx")?, lockbox }))
    }

    fn keep(self, call: &mut Call<'_>, osd: OsdId, uuid: Uuid) {
        call.state.set_osd_key(osd, Entry::new(self.key));
        let Some((key, disk)) = self.lockbox else { return };
        let stored = format!("dm-crypt/osd/{uuid}/luks");
        let may = format!("allow command \"config-key get\" with key=\"{stored}\"");
        let name = EntityName::client(&format!("osd-lockbox.{uuid}"));
        call.state.set_key(name, Entry::new(key).with_caps("mon", &may));
        call.state.set_config_key(&stored, disk.into_bytes());
    }
}
