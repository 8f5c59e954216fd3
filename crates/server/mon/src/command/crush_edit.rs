//! Applies changes to the CRUSH map.

use loligo_maps::crush::{CrushBuildError, CrushMap};

use super::{Call, Failure};

/// Makes an epoch with a changed CRUSH map. Shadow buckets of classes and weight sets are updated.
pub(super) fn change(
    call: &mut Call<'_>,
    change: impl FnOnce(&mut CrushMap) -> Result<(), CrushBuildError>,
) -> Result<(), Failure> {
    let before = std::sync::Arc::clone(&call.state.osdmap().crush);
    let mut crush = CrushMap::clone(&before);
    let rebuild = |crush: &mut CrushMap| match crush.class_names.is_empty() {
        true => Ok(()),
        false => crush.rebuild_class_trees(),
    };
    change(&mut crush).and_then(|()| rebuild(&mut crush)).map_err(|e| Failure::invalid(e.to_string()))?;
    crush.fit_weight_sets(&before);
    replace(call, &crush)
}

/// Makes an epoch with a new CRUSH map.
pub(super) fn replace(call: &mut Call<'_>, crush: &CrushMap) -> Result<(), Failure> {
    call.state.change_osdmap(call.now, |_, inc| inc.set_crush(crush)).map(|_| ())
}
