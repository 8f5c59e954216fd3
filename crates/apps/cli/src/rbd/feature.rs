//! `loligo rbd feature`.

use loligo_rbd::Mode;

use super::args::Feature;
use super::{Place, closing, wanted};
use crate::failure::Failure;

pub(super) async fn run(place: &Place, command: &Feature) -> Result<(), Failure> {
    let (word, text, named) = match command {
        Feature::Enable { image, features } => ("enable", image, features),
        Feature::Disable { image, features } => ("disable", image, features),
    };
    let what = format!("feature {word} {text}");
    let features = wanted(&what, named)?.unwrap_or(0);
    let image = place.open(text, Mode::ReadWrite).await?;
    let done = match command {
        Feature::Enable { .. } => image.enable_features(features).await,
        Feature::Disable { .. } => image.disable_features(features).await,
    };
    closing(image, done, &what).await
}
