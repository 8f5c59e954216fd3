//! An embedded server with a pool, and clients of it.

use std::path::{Path, PathBuf};

use loligo_rados::{Builder, IoCtx, Rados};
use loligo_server::{Handle, Server};

pub(crate) const POOL: &str = "files";

pub(crate) struct Place {
    pub(crate) server: Handle,
    pub(crate) rados: Rados,
}

impl Place {
    pub(crate) async fn new() -> Self {
        Self::of(Server::memory()).await
    }

    pub(crate) async fn of(server: loligo_server::Builder) -> Self {
        let server = server.pool(POOL).start().expect("the server starts");
        let rados = connect(server.conf()).await;
        Self { server, rados }
    }

    pub(crate) async fn pool(&self) -> IoCtx {
        self.rados.ioctx(POOL).await.expect("the pool")
    }

    /// Connects one more client.
    pub(crate) async fn connect(&self) -> Rados {
        connect(self.server.conf()).await
    }

    /// Connects a client with only these OSD capabilities.
    pub(crate) async fn restricted(&self, name: &str, osd_caps: &str) -> Rados {
        let command = format!(
            r#"{{"prefix":"auth get-or-create","entity":"client.{name}","caps":["mon","allow r","osd","{osd_caps}"]}}"#
        );
        let (keyring, _) = self.rados.mon_command(&command, Default::default()).await.expect("a key");
        let path: PathBuf = self.server.keyring().with_file_name(format!("{name}.keyring"));
        std::fs::write(&path, keyring).expect("room");
        let mut args =
            ["x", "--id", name, "--keyring", path.to_str().expect("UTF-8")].map(str::to_owned).to_vec();
        let builder = Builder::new().args(&mut args).expect("options");
        builder.conf_file(self.server.conf().to_str().expect("UTF-8")).connect().await.expect("connects")
    }
}

async fn connect(conf: &Path) -> Rados {
    Builder::new().conf_file(conf.to_str().expect("UTF-8")).connect().await.expect("connects")
}
