//! The images of a pool: functions of `loligo._native`.

use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use loligo_rados::IoCtx;
use loligo_rbd::{Ancestry, Name, features, group, migration, namespaces, pools, trash};
use loligo_wire::{Errno, UTime};
use pyo3::prelude::*;

use crate::error::{Failure, What};
use crate::image::{self, Image};
use crate::new_options::{NewOptions, Target, features_of};
use crate::pool::Pool;
use crate::progress::Progress;
use crate::value::{Data, Text, seconds, shown};

type Done = Option<Py<PyAny>>;
type Returned = PyResult<Py<PyAny>>;
type Callback = Option<Py<PyAny>>;

fn text(name: &Name) -> String {
    shown(name.as_bytes()).into_owned()
}

/// Adds the functions to the module.
pub(crate) fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(open_image, module)?)?;
    module.add_function(wrap_pyfunction!(create_image, module)?)?;
    module.add_function(wrap_pyfunction!(clone_image, module)?)?;
    module.add_function(wrap_pyfunction!(list_images, module)?)?;
    module.add_function(wrap_pyfunction!(remove_image, module)?)?;
    module.add_function(wrap_pyfunction!(rename_image, module)?)?;
    module.add_function(wrap_pyfunction!(trash_list, module)?)?;
    module.add_function(wrap_pyfunction!(trash_put, module)?)?;
    module.add_function(wrap_pyfunction!(trash_remove, module)?)?;
    module.add_function(wrap_pyfunction!(trash_restore, module)?)?;
    module.add_function(wrap_pyfunction!(trash_purge, module)?)?;
    module.add_function(wrap_pyfunction!(init_pool, module)?)?;
    module.add_function(wrap_pyfunction!(pool_sums, module)?)?;
    module.add_function(wrap_pyfunction!(pool_metadata, module)?)?;
    module.add_function(wrap_pyfunction!(set_pool_metadata, module)?)?;
    module.add_function(wrap_pyfunction!(remove_pool_metadata, module)?)?;
    module.add_function(wrap_pyfunction!(namespace_change, module)?)?;
    module.add_function(wrap_pyfunction!(namespace_list, module)?)?;
    module.add_function(wrap_pyfunction!(migration_prepare, module)?)?;
    module.add_function(wrap_pyfunction!(migration_step, module)?)?;
    module.add_function(wrap_pyfunction!(migration_status, module)?)?;
    module.add_function(wrap_pyfunction!(group_change, module)?)?;
    module.add_function(wrap_pyfunction!(group_list, module)?)?;
    module.add_function(wrap_pyfunction!(group_member, module)?)?;
    module.add_function(wrap_pyfunction!(group_members, module)?)?;
    module.add_function(wrap_pyfunction!(group_snaps, module)?)?;
    module.add_function(wrap_pyfunction!(group_roll_back, module)?)?;
    module.add_function(wrap_pyfunction!(feature_names, module)?)?;
    module.add_function(wrap_pyfunction!(feature_bits, module)?)
}

#[pyfunction]
#[pyo3(signature = (pool, name, id, snapshot, read_only, done=None))]
fn open_image(
    py: Python<'_>,
    pool: &Bound<'_, Pool>,
    name: Option<Text>,
    id: Option<String>,
    snapshot: Option<Text>,
    read_only: bool,
    done: Done,
) -> Returned {
    let (pool, name, snapshot) = (pool.get(), name.map(|name| name.0), snapshot.map(|name| name.0));
    let subject = name.clone().or_else(|| id.clone().map(String::into_bytes)).unwrap_or_default();
    let home = Arc::clone(pool.home());
    pool.run(py, What::rbd("open image", &subject), done, |io| async move {
        let image = image::open(io.clone(), name, id, snapshot, read_only).await?;
        Ok(Image::new(&home, io, image))
    })
}

#[pyfunction]
#[pyo3(signature = (pool, name, size, options, done=None))]
fn create_image(
    py: Python<'_>,
    pool: &Bound<'_, Pool>,
    name: Text,
    size: u64,
    options: NewOptions,
    done: Done,
) -> Returned {
    let target = Target::of(pool.get());
    pool.get().run(py, What::rbd("create image", &name.0), done, |io| async move {
        let new = options.image(&target, size).await?;
        if options.old_format.unwrap_or(target.defaults.old_format) {
            loligo_rbd::create_old(&io, name.0, size, new.order).await?;
        } else {
            loligo_rbd::create(&io, name.0, new).await?;
        }
        Ok(())
    })
}

#[pyfunction]
#[pyo3(signature = (parent_pool, parent, snapshot, pool, name, options, done=None))]
#[allow(clippy::too_many_arguments, reason = "as in librbd; the package gives them names")]
fn clone_image(
    py: Python<'_>,
    parent_pool: &Bound<'_, Pool>,
    parent: Text,
    snapshot: Text,
    pool: &Bound<'_, Pool>,
    name: Text,
    options: NewOptions,
    done: Done,
) -> Returned {
    let (target, from) = (Target::of(pool.get()), IoCtx::clone(&parent_pool.get().io));
    pool.get().run(py, What::rbd("clone to image", &name.0), done, |io| async move {
        let new = options.clone(&target).await?;
        Ok(loligo_rbd::clone(&from, parent.0, snapshot.0, &io, name.0, new).await?)
    })
}

/// Returns names and ids.
#[pyfunction]
#[pyo3(signature = (pool, done=None))]
fn list_images(py: Python<'_>, pool: &Bound<'_, Pool>, done: Done) -> Returned {
    pool.get().run(py, What::rbd("list the images", b""), done, |io| async move {
        let found = loligo_rbd::list(&io).await?;
        Ok(found.iter().map(|(name, id)| (text(name), id.clone())).collect::<Vec<_>>())
    })
}

#[pyfunction]
#[pyo3(signature = (pool, name, progress=None, done=None))]
fn remove_image(
    py: Python<'_>,
    pool: &Bound<'_, Pool>,
    name: Text,
    progress: Callback,
    done: Done,
) -> Returned {
    let progress = Progress::new(pool.get().home(), progress, done.as_ref());
    pool.get().run(py, What::rbd("remove image", &name.0), done, |io| async move {
        progress.run(|tell| async move { loligo_rbd::remove(&io, name.0, tell).await }).await
    })
}

#[pyfunction]
#[pyo3(signature = (pool, from, to, done=None))]
fn rename_image(py: Python<'_>, pool: &Bound<'_, Pool>, from: Text, to: Text, done: Done) -> Returned {
    pool.get().run(py, What::rbd("rename image", &from.0), done, |io| async move {
        Ok(loligo_rbd::rename(&io, from.0, to.0).await?)
    })
}

/// Returns id, name, source, and seconds since 1970: of the removal, and until which it is kept.
#[pyfunction]
#[pyo3(signature = (pool, done=None))]
fn trash_list(py: Python<'_>, pool: &Bound<'_, Pool>, done: Done) -> Returned {
    pool.get().run(py, What::rbd("list the trash", b""), done, |io| async move {
        let found = trash::list(&io).await?.into_iter().map(|image| {
            let (deleted, until) =
                (seconds(image.deleted.to_system()), seconds(image.keep_until.to_system()));
            (image.id, text(&image.name), image.source, deleted, until)
        });
        Ok(found.collect::<Vec<_>>())
    })
}

#[pyfunction]
#[pyo3(signature = (pool, name, keep_seconds, done=None))]
fn trash_put(py: Python<'_>, pool: &Bound<'_, Pool>, name: Text, keep_seconds: u64, done: Done) -> Returned {
    pool.get().run(py, What::rbd("put into the trash image", &name.0), done, |io| async move {
        Ok(trash::put(&io, name.0, Duration::from_secs(keep_seconds)).await?)
    })
}

#[pyfunction]
#[pyo3(signature = (pool, id, force, progress=None, done=None))]
fn trash_remove(
    py: Python<'_>,
    pool: &Bound<'_, Pool>,
    id: String,
    force: bool,
    progress: Callback,
    done: Done,
) -> Returned {
    let progress = Progress::new(pool.get().home(), progress, done.as_ref());
    let what = What::rbd("remove from the trash image", id.as_bytes());
    pool.get().run(py, what, done, |io| async move {
        progress.run(|tell| async move { trash::remove(&io, &id, force, tell).await }).await
    })
}

#[pyfunction]
#[pyo3(signature = (pool, id, name, done=None))]
fn trash_restore(
    py: Python<'_>,
    pool: &Bound<'_, Pool>,
    id: String,
    name: Option<Text>,
    done: Done,
) -> Returned {
    let what = What::rbd("restore from the trash image", id.as_bytes());
    pool.get().run(py, what, done, |io| async move {
        let name = name.map(|name| Name::from(name.0)).filter(|name| !name.as_bytes().is_empty());
        Ok(trash::restore(&io, &id, name.as_ref()).await?)
    })
}

/// Removes the images that are kept until this time, in seconds since 1970, and no longer.
#[pyfunction]
#[pyo3(signature = (pool, until, done=None))]
fn trash_purge(py: Python<'_>, pool: &Bound<'_, Pool>, until: f64, done: Done) -> Returned {
    pool.get().run(py, What::rbd("purge the trash", b""), done, |io| async move {
        let until = UNIX_EPOCH + Duration::try_from_secs_f64(until).map_err(|_| Errno::EINVAL)?;
        Ok(trash::purge(&io, UTime::from_system(until), |_, _| {}).await?)
    })
}

#[pyfunction]
#[pyo3(signature = (pool, force, done=None))]
fn init_pool(py: Python<'_>, pool: &Bound<'_, Pool>, force: bool, done: Done) -> Returned {
    pool.get().run(py, What::rbd("make the pool one for images", b""), done, |io| async move {
        io.enable_application("rbd", force).await?;
        Ok(pools::validate(&io).await?)
    })
}

/// Returns images, snapshots and provisioned bytes, of the pool and of its trash.
#[pyfunction]
#[pyo3(signature = (pool, done=None))]
fn pool_sums(py: Python<'_>, pool: &Bound<'_, Pool>, done: Done) -> Returned {
    pool.get().run(py, What::rbd("sum up the images", b""), done, |io| async move {
        let sum = |sum: pools::Sum| (sum.images, sum.snapshots, sum.provisioned);
        let (images, trash) = pools::sums(&io).await?;
        Ok((sum(images), sum(trash)))
    })
}

#[pyfunction]
#[pyo3(signature = (pool, done=None))]
fn pool_metadata(py: Python<'_>, pool: &Bound<'_, Pool>, done: Done) -> Returned {
    pool.get().run(py, What::rbd("read the pool's metadata", b""), done, |io| async move {
        let found = pools::metadata(&io).await?.into_iter();
        Ok(found.map(|(key, value)| (text(&key), Data(value))).collect::<Vec<_>>())
    })
}

#[pyfunction]
#[pyo3(signature = (pool, key, value, done=None))]
fn set_pool_metadata(py: Python<'_>, pool: &Bound<'_, Pool>, key: Text, value: Data, done: Done) -> Returned {
    pool.get().run(py, What::rbd("set the pool's metadata", &key.0), done, |io| async move {
        Ok(pools::set_metadata(&io, key.0, value.0).await?)
    })
}

#[pyfunction]
#[pyo3(signature = (pool, key, done=None))]
fn remove_pool_metadata(py: Python<'_>, pool: &Bound<'_, Pool>, key: Text, done: Done) -> Returned {
    pool.get().run(py, What::rbd("remove the pool's metadata", &key.0), done, |io| async move {
        Ok(pools::remove_metadata(&io, key.0).await?)
    })
}

/// Creates a namespace, or removes one.
#[pyfunction]
#[pyo3(signature = (pool, name, create, done=None))]
fn namespace_change(
    py: Python<'_>,
    pool: &Bound<'_, Pool>,
    name: Text,
    create: bool,
    done: Done,
) -> Returned {
    let verb = if create { "create namespace" } else { "remove namespace" };
    pool.get().run(py, What::rbd(verb, &name.0), done, |io| async move {
        if create {
            namespaces::create(&io, name.0).await?;
        } else {
            namespaces::remove(&io, name.0).await?;
        }
        Ok(())
    })
}

#[pyfunction]
#[pyo3(signature = (pool, done=None))]
fn namespace_list(py: Python<'_>, pool: &Bound<'_, Pool>, done: Done) -> Returned {
    pool.get().run(py, What::rbd("list the namespaces", b""), done, |io| async move {
        Ok(namespaces::list(&io).await?.iter().map(text).collect::<Vec<_>>())
    })
}

#[pyfunction]
#[pyo3(signature = (pool, name, to_pool, to_name, options, flatten, done=None))]
#[allow(clippy::too_many_arguments, reason = "as in librbd; the package gives them names")]
fn migration_prepare(
    py: Python<'_>,
    pool: &Bound<'_, Pool>,
    name: Text,
    to_pool: &Bound<'_, Pool>,
    to_name: Text,
    options: NewOptions,
    flatten: bool,
    done: Done,
) -> Returned {
    let to = IoCtx::clone(&to_pool.get().io);
    pool.get().run(py, What::rbd("migrate image", &name.0), done, |io| async move {
        let new = options.copy(&to).await?;
        let ancestry = if flatten { Ancestry::Flattened } else { Ancestry::Kept };
        Ok(migration::prepare(&io, name.0, &to, to_name.0, new, ancestry).await?)
    })
}

/// Goes on with a migration: `execute`, `commit` or `abort`.
#[pyfunction]
#[pyo3(signature = (pool, name, step, progress=None, done=None))]
fn migration_step(
    py: Python<'_>,
    pool: &Bound<'_, Pool>,
    name: Text,
    step: String,
    progress: Callback,
    done: Done,
) -> Returned {
    let progress = Progress::new(pool.get().home(), progress, done.as_ref());
    pool.get().run(py, What::rbd("go on with the migration of image", &name.0), done, |io| async move {
        let stepping = progress.run(|tell| async move {
            match step.as_str() {
                "execute" => migration::execute(&io, name.0, tell).await,
                "commit" => migration::commit(&io, name.0, tell).await,
                _ => migration::abort(&io, name.0, tell).await,
            }
        });
        stepping.await
    })
}

/// Returns source, destination (pool id, namespace, name, id), state and description; `None` if there is no
/// migration.
#[pyfunction]
#[pyo3(signature = (pool, name, done=None))]
fn migration_status(py: Python<'_>, pool: &Bound<'_, Pool>, name: Text, done: Done) -> Returned {
    pool.get().run(py, What::rbd("find the migration of image", &name.0), done, |io| async move {
        let end = |end: &migration::End| (end.pool.0, text(&end.namespace), text(&end.name), end.id.clone());
        let status = migration::status(&io, name.0).await?;
        Ok(status.map(|status| {
            (end(&status.source), end(&status.destination), status.state.name(), status.description)
        }))
    })
}

/// Creates, removes or renames a group, or a snapshot of one: `create`, `remove`, `rename`, `create_snap`,
/// `remove_snap`, `rename_snap`.
#[pyfunction]
#[pyo3(signature = (pool, change, group_name, name="", new_name="", done=None))]
fn group_change(
    py: Python<'_>,
    pool: &Bound<'_, Pool>,
    change: String,
    group_name: String,
    name: &str,
    new_name: &str,
    done: Done,
) -> Returned {
    let (name, new) = (name.to_owned(), new_name.to_owned());
    pool.get().run(py, What::rbd("change group", group_name.as_bytes()), done, |io| async move {
        match change.as_str() {
            "create" => group::create(&io, group_name).await?,
            "remove" => group::remove(&io, group_name).await?,
            "rename" => group::rename(&io, group_name, new).await?,
            "create_snap" => group::create_snapshot(&io, group_name, name).await?,
            "remove_snap" => group::remove_snapshot(&io, group_name, name).await?,
            "rename_snap" => group::rename_snapshot(&io, group_name, name, new).await?,
            _ => return Err(Errno::EINVAL.into()),
        }
        Ok(())
    })
}

#[pyfunction]
#[pyo3(signature = (pool, done=None))]
fn group_list(py: Python<'_>, pool: &Bound<'_, Pool>, done: Done) -> Returned {
    pool.get().run(py, What::rbd("list the groups", b""), done, |io| async move {
        Ok(group::list(&io).await?.iter().map(text).collect::<Vec<_>>())
    })
}

/// Adds an image to a group, or removes it.
#[pyfunction]
#[pyo3(signature = (pool, name, image_pool, image_name, add, done=None))]
fn group_member(
    py: Python<'_>,
    pool: &Bound<'_, Pool>,
    name: Text,
    image_pool: &Bound<'_, Pool>,
    image_name: Text,
    add: bool,
    done: Done,
) -> Returned {
    let image_io = IoCtx::clone(&image_pool.get().io);
    pool.get().run(py, What::rbd("change the images of group", &name.0), done, |io| async move {
        if add {
            group::add_image(&io, name.0, &image_io, image_name.0).await?;
        } else {
            group::remove_image(&io, name.0, &image_io, image_name.0).await?;
        }
        Ok(())
    })
}

/// Returns pool id, id, name, and whether the image is attached.
#[pyfunction]
#[pyo3(signature = (pool, name, done=None))]
fn group_members(py: Python<'_>, pool: &Bound<'_, Pool>, name: Text, done: Done) -> Returned {
    pool.get().run(py, What::rbd("list the images of group", &name.0), done, |io| async move {
        let found = group::members(&io, name.0).await?.into_iter();
        Ok(found.map(|one| (one.pool.0, one.id, text(&one.name), one.attached)).collect::<Vec<_>>())
    })
}

/// Returns id, name, and whether the snapshot is complete.
#[pyfunction]
#[pyo3(signature = (pool, name, done=None))]
fn group_snaps(py: Python<'_>, pool: &Bound<'_, Pool>, name: Text, done: Done) -> Returned {
    pool.get().run(py, What::rbd("list the snapshots of group", &name.0), done, |io| async move {
        let found = group::snapshots(&io, name.0).await?.into_iter();
        Ok(found.map(|one| (one.id, text(&one.name), one.complete)).collect::<Vec<_>>())
    })
}

#[pyfunction]
#[pyo3(signature = (pool, name, snapshot, progress=None, done=None))]
fn group_roll_back(
    py: Python<'_>,
    pool: &Bound<'_, Pool>,
    name: Text,
    snapshot: Text,
    progress: Callback,
    done: Done,
) -> Returned {
    let progress = Progress::new(pool.get().home(), progress, done.as_ref());
    pool.get().run(py, What::rbd("roll back group", &name.0), done, |io| async move {
        progress.run(|tell| async move { group::roll_back(&io, name.0, snapshot.0, tell).await }).await
    })
}

/// Returns the names of features, with commas.
#[pyfunction]
fn feature_names(bits: u64) -> String {
    let mut names = features::names(bits);
    names.sort_unstable();
    names.join(",")
}

/// Reads features: a number, or names with commas.
#[pyfunction]
fn feature_bits(py: Python<'_>, names: &str) -> PyResult<u64> {
    let failure = || Failure::new(Errno::EINVAL, "no such feature");
    features_of(names).ok_or_else(|| What::rbd("use the features", names.as_bytes()).error(py, failure()))
}
