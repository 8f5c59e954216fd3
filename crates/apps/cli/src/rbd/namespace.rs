//! `loligo rbd namespace`.

use loligo_rados::Errno;
use loligo_rbd::namespaces;

use super::args::Namespace;
use super::{Place, named_so, only_pool, show, spec};
use crate::failure::{Context, Failure};
use crate::name::Name;

pub(super) async fn run(place: &Place, command: &Namespace) -> Result<(), Failure> {
    let (Namespace::Create { place: named } | Namespace::Rm { place: named }) = command else {
        let Namespace::Ls { pool } = command else { return Ok(()) };
        let io = place.pool(only_pool(pool.as_deref().unwrap_or(&place.pool).as_bytes())?).await?;
        let all = namespaces::list(&io).await.context(|| "namespace ls".to_owned())?;
        show::namespaces(&all, place.format);
        return Ok(());
    };
    let (pool, name) = match named {
        Some(text) => named_so(text, spec::place(text))?,
        None => (&*place.pool, &*place.namespace),
    };
    if name.is_empty() {
        return Err(Failure::of(Errno::EINVAL, "namespace", "is not named: POOL/NAMESPACE"));
    }
    let name = Name::from(name);
    let what = || format!("namespace {name}");
    let io = place.pool(only_pool(pool.as_bytes())?).await?;
    match command {
        Namespace::Rm { .. } => namespaces::remove(&io, &name).await.context(what),
        _ => namespaces::create(&io, &name).await.context(what),
    }
}
