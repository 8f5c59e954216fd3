//! `osd reweightn`: sets the weights of many OSDs at once.

use std::collections::BTreeMap;

use loligo_wire::OsdId;

use super::{Call, Errno, Failure, Outcome, Reply};

/// Parses a JSON object that maps OSD ids to weights in units of 1/65536, both as strings.
pub(super) fn reweight_many(call: &mut Call<'_>) -> Outcome {
    let text = call.args.required("weights");
    let refused = |errno| Failure::new(errno, format!("unable to parse 'weights' value '{text}'"));
    let invalid = || refused(Errno::EINVAL);
    let given: BTreeMap<String, String> = serde_json::from_str(text).map_err(|_| invalid())?;
    let mut weights = Vec::new();
    for (osd, weight) in &given {
        let osd = OsdId(osd.parse().map_err(|_| invalid())?);
        let weight: u32 = weight.parse().map_err(|_| invalid())?;
        if !call.state.osdmap().exists(osd) {
            return Err(refused(Errno::ENOENT));
        }
        weights.push((osd, weight));
    }
    if !weights.is_empty() {
        call.state.change_osdmap(call.now, |_, inc| {
            weights.iter().for_each(|(osd, weight)| inc.osd_weight(*osd, *weight));
        })?;
    }
    Ok(Reply::default())
}
