//! The commands of the control socket, which is an admin socket with commands for devices.

use std::fmt::Display;
use std::sync::Arc;

use loligo_admin::{Admin, Answer, Command, Failure, LastingAnswer, Request};
use serde_json::{Value, json};
use tokio::runtime::Handle;

use crate::backend::{BackendState, Spec};
use crate::device::{Definition, Info, Phase, Registry};

/// Adds the commands `nbd add`, `nbd rm`, `nbd ls`, `nbd resize`, `nbd suspend` and `nbd resume`. They
/// run in tasks of `runtime`, so that the socket's thread can accept further requests meanwhile.
pub fn register(admin: &Admin, registry: &Arc<Registry>, runtime: &Handle) {
    let commands = Commands { registry: Arc::clone(registry), runtime: runtime.clone() };
    let of = |prefix, help, run: Run| {
        let commands = commands.clone();
        Command::lasting(prefix, help, move |request| commands.begin(run, request))
    };
    admin.command(
        of("nbd add", "Add a device.", |registry, request| {
            Box::pin(async move { told(registry.add(definition(&request)?).await) })
        })
        .required("spec", &[])
        .optional("name", &[])
        .optional("description", &[])
        .optional("read_only", &["true", "false"]),
    );
    admin.command(
        of("nbd rm", "Remove a device; force: also if clients use it, who are told.", |registry, request| {
            Box::pin(async move {
                let forced = request.arg("force") == Some("true");
                told(registry.remove(name(&request), forced).await)
            })
        })
        .optional("name", &[])
        .optional("force", &["true", "false"]),
    );
    admin.command(
        of("nbd resize", "Set a device's size in bytes.", |registry, request| {
            Box::pin(async move {
                let size = request.arg("size").and_then(|size| size.parse().ok());
                let size = size.ok_or_else(|| Failure::new("size is a number of bytes"))?;
                told(registry.resize(name(&request), size).await)
            })
        })
        .required("size", &[])
        .optional("name", &[]),
    );
    admin.command(
        of("nbd suspend", "Let a device's requests wait.", |registry, request| {
            Box::pin(async move { told(registry.suspend(name(&request)).await) })
        })
        .optional("name", &[]),
    );
    admin.command(
        of("nbd resume", "Let a device's requests go on.", |registry, request| {
            Box::pin(async move { told(registry.resume(name(&request)).await) })
        })
        .optional("name", &[]),
    );
    let registry = Arc::clone(registry);
    admin.command(Command::new("nbd ls", "List devices.", move |request| {
        let all: Vec<Value> = registry.list().iter().map(described).collect();
        Ok(request.json(&Value::Array(all)))
    }));
}

type Run = fn(Arc<Registry>, Request) -> LastingAnswer;

#[derive(Clone)]
struct Commands {
    registry: Arc<Registry>,
    runtime: Handle,
}

impl Commands {
    fn begin(&self, run: Run, request: &Request) -> LastingAnswer {
        let work = self.runtime.spawn(run(Arc::clone(&self.registry), request.clone()));
        Box::pin(async move {
            let ended = work.await;
            ended.unwrap_or_else(|e| Err(Failure::new(e.to_string())))
        })
    }
}

fn told(done: Result<(), impl Display>) -> Answer {
    done.map(|()| String::new()).map_err(|e| Failure::new(e.to_string()))
}

/// The name of the device; if the argument is missing, the empty name, which is a valid one.
fn name(request: &Request) -> &str {
    request.arg("name").unwrap_or_default()
}

fn definition(request: &Request) -> Result<Definition, Failure> {
    let spec =
        Spec::parse(request.arg("spec").unwrap_or_default()).map_err(|e| Failure::new(e.to_string()))?;
    let spec = if request.arg("read_only") == Some("true") { spec.only_read() } else { spec };
    let description = request.arg("description").unwrap_or_default().to_owned();
    Ok(Definition { name: name(request).to_owned(), description, spec, allow: Default::default() })
}

fn described(info: &Info) -> Value {
    let mut described = json!({
        "name": info.name,
        "spec": info.spec,
        "description": info.description,
        "state": info.phase.name(),
        "clients": info.clients,
    });
    let (state, why) = match &info.state {
        _ if matches!(info.phase, Phase::Adding | Phase::Removing) => (None, None),
        BackendState::Open => (None, None),
        BackendState::Renewing(why) => (Some("renewing"), Some(why)),
        BackendState::Lost(why) => (Some("lost"), Some(why)),
    };
    if let (Some(state), Some(why)) = (state, why) {
        described["state"] = json!(state);
        described["why"] = json!(why);
    }
    if let Some((kind, size, can)) = info.backend {
        described["kind"] = json!(kind);
        described["size"] = json!(size);
        described["read_only"] = json!(!can.write);
    }
    described
}
